# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A run that was stopped and resumed equals an uninterrupted one bit for bit, and the same run gives the same bits twice."""
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

import program
from program import SOURCE, LockstepTest, metrics, snapshot, summary, without_times

# A deck with dropout, momentum, warm-up, a ragged last batch, and several epochs with evaluations between them. No
# logged row and no evaluation falls on a multiple of the step of the interruption.
DECK = {
    "run": {"steps": 100, "output_dir": "run", "log_every": 10, "seed": 7},
    "data": {"synthetic": {"kind": "glyphs", "train": 500, "validation": 90}, "normalize": {"mean": [0.13], "std": [0.31]}},
    "model": {"layers": [{"conv2d": {"filters": 4, "kernel": 5, "stride": 2}}, "relu", {"max_pool": {"kernel": 2}}, "flatten",
                         {"dropout": {"rate": 0.2}}, {"linear": {"features": 24}}, "relu", {"linear": {"features": 10}}]},
    "optimizer": {"type": "sgd", "learning_rate": 0.05, "momentum": 0.9, "weight_decay": 0.0001},
    "schedule": {"type": "constant", "warmup": "45 steps"},
    "batch": {"global": 33, "micro": 9},
}
LAST = "checkpoints/step-00000100.h5"


class Resume(LockstepTest):
    def folder_of(self, name, **sections):
        self.deck(f"{name}/deck.yaml", **{**DECK, **sections})
        return self.folder / name

    def train(self, folder, *overrides, ranks):
        return self.lockstep("train", "deck.yaml", *overrides, ranks=ranks, cwd=folder)

    def expect_same(self, a, b):
        self.assertEqual(without_times(metrics(a / "run")), without_times(metrics(b / "run")))
        self.assertTrue((a / "run" / LAST).read_bytes() == (b / "run" / LAST).read_bytes(), "the last checkpoints differ")

    def uninterrupted(self, ranks, **sections):
        folder = self.folder_of("whole", **sections)
        self.once(lambda: self.train(folder, ranks=ranks), folder, hashlib.sha256(f"{ranks} {sections}".encode()).hexdigest())
        rows = metrics(folder / "run")
        self.assertEqual([row["step"] for row in rows if row["split"] == "train"], [str(s) for s in range(10, 101, 10)])
        self.assertEqual([row["step"] for row in rows if row["split"] == "validation"], [str(s) for s in (16, 32, 48, 64, 80, 96, 100)])
        self.assertIsNone(summary(folder / "run")["resumed_from"])
        return folder

    def test_every_state_goes_on(self):
        for type in ("adam", "rmsprop", "lion", "lars", "lamb", "adafactor"):
            with self.subTest(type):
                whole, parts = (self.folder_of(f"{type}_{name}", optimizer={"type": type, **({"momentum": 0.5} if type == "rmsprop" else {})})
                                for name in ("whole", "parts"))
                self.train(whole, ranks=1)
                self.train(parts, "run.steps=37", ranks=1)
                self.train(parts, ranks=1)
                self.expect_same(whole, parts)

    def test_velocities_follow_a_changed_learning_rate(self):
        """The velocity of lars contains the learning rate: a run that goes on with another rate corrects it as a schedule does."""
        lars = {"optimizer": {"type": "lars", "momentum_correction": True, "learning_rate": 2.0}, "schedule": {}}
        falls = {**lars, "schedule": {"type": "multistep", "milestones": ["37 steps"], "factor": 0.05}}
        whole, parts = self.folder_of("whole", **falls), self.folder_of("parts", **lars)
        self.train(whole, ranks=1)
        self.train(parts, "run.steps=37", ranks=1)
        self.train(parts, "optimizer.learning_rate=0.1", ranks=2)
        self.expect_close(whole, parts, after=0)
        # A branch at a batch of all examples, whose order does not matter.
        layers = [layer for layer in DECK["model"]["layers"] if "dropout" not in layer]
        full = {"model": {"layers": layers}, "batch": {"global": 500, "micro": 50}, "run": {**DECK["run"], "log_every": 1}}
        whole, parts = self.folder_of("whole_batches", **falls, **full), self.folder_of("stem", **lars, **full)
        self.train(whole, "schedule.milestones=[7 steps]", "run.steps=12", ranks=1)
        self.train(parts, "run.steps=7", ranks=1)
        branch = self.folder_of("branch", **lars, **full)
        self.train(branch, "optimizer.learning_rate=0.1", "run.steps=5", "run.branch_from=../stem/run/checkpoints/latest", ranks=1)
        self.expect_close(whole, branch, after=7)

    def expect_close(self, whole, part, after):
        """Expects the losses of `part` to be those of `whole` after so many steps."""
        wanted, found = ({int(row["step"]): float(row["loss"]) for row in metrics(of / "run") if row["split"] == "train"} for of in (whole, part))
        self.assertEqual(max(found) + after, max(wanted))
        for step, loss in found.items():
            self.assertAlmostEqual(loss, wanted[step + after], delta=1e-3 * loss)

    def test_batches_that_grow(self):
        ramp = {"batch": {"global": 33, "micro": 9, "ramp": [["30 steps", 50], ["1500 examples", 64], ["4 epochs", 80]]},
                "schedule": {"scale_rule": "sqrt", "reference_batch": 33}}
        whole, parts = self.folder_of("whole", **ramp), self.folder_of("parts", **ramp)
        self.train(whole, ranks=1)
        self.train(parts, "run.steps=37", ranks=1)
        self.train(parts, ranks=2)
        self.assertEqual([row["learning_rate"] for row in metrics(whole / "run") if row["split"] == "train"],
                         [row["learning_rate"] for row in metrics(parts / "run") if row["split"] == "train"])
        self.assertEqual([row["epoch"] for row in metrics(whole / "run")], [row["epoch"] for row in metrics(parts / "run")])
        self.folder_of("again", **ramp)
        again = self.folder / "again"
        self.train(again, "run.steps=45", ranks=1)
        self.train(again, ranks=1)
        self.expect_same(whole, again)

    def test_batches_change_ahead_of_a_checkpoint_alone(self):
        """An epoch of 500 examples has 16 steps of 33, or 8 of 64: a ramp that changes past steps would change the position in the data."""
        for name, before, after in (("more", [], [["1 epoch", 64]]), ("less", [["1 epoch", 64]], []),
                                    ("later", [["1 epoch", 64]], [["2 epochs", 64]]), ("smaller", [["1 epoch", 64]], [["1 epoch", 50]])):
            with self.subTest(name):
                folder = self.folder_of(name, batch={**DECK["batch"], **({"ramp": before} if before else {})})
                self.train(folder, "run.steps=37", ranks=1)
                left = snapshot(folder / "run")
                self.deck(f"{name}/deck.yaml", **{**DECK, "batch": {**DECK["batch"], **({"ramp": after} if after else {})}})
                for command in ("train", "check"):
                    result = self.lockstep(command, "deck.yaml", cwd=folder, status=78)
                    self.assertRegex(result.err, r"batch\.ramp: would be at epoch \d, example \d+ after 37 steps, but \S+37\.h5 is at epoch \d")
                self.assertEqual(snapshot(folder / "run"), left)
        folder = self.folder_of("ahead", batch={**DECK["batch"], "ramp": [["1 epoch", 64], ["70 steps", 80]]})
        self.train(folder, "run.steps=37", ranks=1)
        self.train(folder, "batch.ramp=[[1 epoch, 64], [37 steps, 128]]", ranks=1)
        # 16 steps, then 8, 8, and 5 of the fourth epoch; its last 180 examples take 2 steps of 128; 59 more steps are 4 an epoch.
        self.assertEqual(metrics(folder / "run")[-1]["epoch"], str(4 + -(-(100 - 37 - 2) // 4)))

    def stopped_at_37(self, ranks):
        whole = self.uninterrupted(ranks)
        parts = self.folder_of("parts")
        self.train(parts, "run.steps=37", ranks=ranks)
        self.assertEqual(summary(parts / "run")["steps"], 37)
        second = self.train(parts, ranks=ranks)
        self.assertIn("step-00000037.h5", summary(parts / "run")["resumed_from"], second)
        self.expect_same(whole, parts)

        third = self.train(parts, ranks=ranks)
        self.assertIn("nothing is left to do", third.out)
        self.expect_same(whole, parts)

    def killed_after_37(self, ranks):
        sections = {"checkpoint": {"every_steps": 37, "keep": 0}}
        whole = self.uninterrupted(ranks, **sections)
        again = self.folder / "again"
        shutil.copytree(whole, again)
        for name in ("step-00000074.h5", "step-00000100.h5"):
            (again / "run" / "checkpoints" / name).unlink()
        self.train(again, ranks=ranks)
        self.expect_same(whole, again)

    def test_stopped_at_37_on_1_rank(self):
        self.stopped_at_37(1)

    def test_stopped_at_37_on_2_ranks(self):
        self.stopped_at_37(2)

    def test_killed_after_37_on_2_ranks(self):
        self.killed_after_37(2)

    def test_killed_in_the_last_evaluation(self):
        """After the last checkpoint, the row of the last step (no multiple of log_every), an evaluation and the summary are written."""
        whole = self.folder_of("whole")
        self.train(whole, "run.steps=37", ranks=2)
        self.assertEqual([(row["step"], row["split"]) for row in metrics(whole / "run")][-2:], [("37", "train"), ("37", "validation")])
        killed = self.folder / "killed"
        shutil.copytree(whole, killed)
        (killed / "run/summary.json").unlink()
        rows = (killed / "run/metrics.csv").read_text().splitlines(keepends=True)
        (killed / "run/metrics.csv").write_text("".join(rows[:-1]))
        for ranks, every in ((2, 10), (1, 10), (1, 37)):
            self.train(killed, "run.steps=37", f"run.log_every={every}", ranks=ranks)
            self.assertEqual(without_times(metrics(whole / "run"))[:-1], without_times(metrics(killed / "run"))[:-1])
            self.assertEqual(summary(whole / "run")["train"], summary(killed / "run")["train"])
            (killed / "run/summary.json").unlink()
        self.assertEqual(metrics(killed / "run")[-2]["examples_per_s"], "", "this process has done no step")

    def test_order_of_rows(self):
        """The row of a step precedes that of its evaluation, and a run that goes on to a later step has the rows of one that never
        stopped. An epoch has 16 steps; the stop may be between rows, between evaluations, or at both."""
        for steps, log_every, evaluate_every in ((16, 8, 1), (16, 10, 2), (32, 8, 2), (32, 10, 0), (37, 8, 0), (37, 10, 1)):
            case = f"steps {steps}, log_every {log_every}, evaluate_every {evaluate_every}"
            folder = self.folder_of(case)
            overrides = [f"run.log_every={log_every}", f"run.evaluate_every={evaluate_every}"]
            self.train(folder, *overrides, f"run.steps={steps}", ranks=1)
            self.expect_rows(folder, case, steps, log_every, evaluate_every)
            curve = metrics(folder / "run")
            (folder / "run/summary.json").unlink()  # as if the run had been killed then
            self.train(folder, *overrides, f"run.steps={steps}", ranks=1)
            self.assertEqual(without_times(metrics(folder / "run")), without_times(curve), case)
            self.train(folder, *overrides, "run.steps=48", ranks=1)
            self.expect_rows(folder, f"{case}, then to 48", 48, log_every, evaluate_every)
            whole = self.folder_of("whole")
            self.train(whole, *overrides, "run.steps=48", "run.overwrite=true", "run.resume=never", ranks=1)
            self.assertEqual(without_times(metrics(folder / "run")), without_times(metrics(whole / "run")), case)

    def expect_rows(self, folder, case, steps, log_every, evaluate_every):
        expected = []
        for step in range(1, steps + 1):
            if step % log_every == 0 or step == steps:
                expected.append((step, "train"))
            if step == steps or (evaluate_every and step % (16 * evaluate_every) == 0):
                expected.append((step, "validation"))
        self.assertEqual([(int(row["step"]), row["split"]) for row in metrics(folder / "run")], expected, case)

    def test_killed_at_any_moment(self):
        """After SIGKILL at any moment, a run can go on from what is in its folder."""
        sections = {"checkpoint": {"every_steps": 2, "keep": 3}}
        whole = self.uninterrupted(1, **sections)
        killed = self.folder_of("killed", **sections)
        checkpoints = killed / "run" / "checkpoints"
        for reached in ("step-00000006.h5", "step-00000030.h5", "step-00000060.h5"):
            child = subprocess.Popen([program.PROGRAM, "train", "deck.yaml"], cwd=killed, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            limit = time.monotonic() + 60
            while child.poll() is None and time.monotonic() < limit:
                if checkpoints.is_dir() and any(path.name >= reached for path in checkpoints.glob("*.h5")):
                    break
            child.kill()
            self.assertEqual(child.wait(), -signal.SIGKILL, "the run ended before it was killed")
        self.train(killed, ranks=1)
        self.expect_same(whole, killed)
        self.assertEqual(len(list(checkpoints.iterdir())), 4, "what killed runs had begun is gone, and there is a link to the last")

    def test_going_on_with_another_number_of_ranks(self):
        sections = {"precision": {"compute": "fp64"}}  # so that rounding errors do not reach the compared digits
        whole = self.uninterrupted(1, **sections)
        parts = self.folder_of("parts", **sections)
        self.train(parts, "run.steps=37", ranks=1)
        self.train(parts, ranks=3)
        for a, b in zip(metrics(whole / "run"), metrics(parts / "run"), strict=True):
            self.assertEqual((a["step"], a["split"]), (b["step"], b["split"]))
            self.assertAlmostEqual(float(a["loss"]) / float(b["loss"]), 1, delta=1e-8)

    def test_going_on_in_another_preset(self):
        here = pathlib.Path(program.PROGRAM)
        preset = pathlib.Path(os.environ["LOCKSTEP_BUILD_DIR"]).name
        others = [path for other in ("serial", "openmp") if other != preset and (path := SOURCE / "build" / other / "app/lockstep").exists()]
        if not others:
            self.skipTest("no other preset is built")
        sections = {"precision": {"compute": "fp64"}}
        whole, parts = self.uninterrupted(1, **sections), self.folder_of("parts", **sections)
        self.train(parts, "run.steps=37", ranks=1)
        try:
            program.PROGRAM = str(others[0])
            self.train(parts, ranks=2)
        finally:
            program.PROGRAM = str(here)
        for a, b in zip(metrics(whole / "run"), metrics(parts / "run"), strict=True):
            self.assertAlmostEqual(float(a["loss"]) / float(b["loss"]), 1, delta=1e-8)

    def test_a_damaged_last_checkpoint_is_passed_over(self):
        whole = self.uninterrupted(1, checkpoint={"every_steps": 37, "keep": 0})
        again = self.folder / "again"
        shutil.copytree(whole, again)
        last = again / "run" / LAST
        last.write_bytes(last.read_bytes()[:3000])
        result = self.train(again, ranks=1)
        self.assertIn("warning:", result.err)
        self.assertIn("step-00000074.h5", summary(again / "run")["resumed_from"])
        self.expect_same(whole, again)

    def test_what_comes_after_a_damaged_checkpoint_is_kept(self):
        """Checkpoints that a run writes after it has resumed from step 50 count as newer than a damaged step 100."""
        folder = self.folder_of("kept", checkpoint={"every_steps": 50, "keep": 2})
        self.train(folder, ranks=1)
        last = folder / "run" / LAST
        last.write_bytes(last.read_bytes()[:3000])
        self.train(folder, "run.steps=75", "checkpoint.keep=1", ranks=1)
        self.assertEqual(sorted(path.name for path in (folder / "run" / "checkpoints").iterdir()),
                         ["latest", "step-00000075.h5", "step-00000100.h5.aside"])

    def test_going_back_leaves_the_other_branch(self):
        folder = self.folder_of("back", checkpoint={"every_steps": 20, "keep": 0})
        self.train(folder, ranks=1)
        first = (folder / "run/checkpoints/step-00000060.h5").read_bytes()
        said = self.train(folder, "run.resume=run/checkpoints/step-00000040.h5", "run.steps=60", ranks=1).out
        self.assertIn("run/checkpoints: 3 checkpoints later than step 40, from which the run continues, are set aside, as step-00000060.h5.aside to step-00000100.h5.aside\n",
                      said)
        self.train(folder, "run.resume=run/checkpoints/step-00000040.h5", "run.steps=60", ranks=1)
        names = sorted(path.name for path in (folder / "run" / "checkpoints").iterdir())
        self.assertEqual(names, ["latest", "step-00000020.h5", "step-00000040.h5", "step-00000060.h5", "step-00000060.h5.aside", "step-00000060.h5.aside-2",
                                 "step-00000080.h5.aside", "step-00000100.h5.aside"])
        self.assertEqual((folder / "run/checkpoints/step-00000060.h5.aside").read_bytes(), first)
        self.assertEqual(summary(folder / "run")["steps"], 60)
        self.assertEqual([row["step"] for row in metrics(folder / "run") if row["split"] == "train"], [str(s) for s in range(10, 61, 10)])

    def test_a_run_that_is_complete_is_left_alone(self):
        folder = self.folder_of("complete", checkpoint={"every_steps": 20, "keep": 0})
        self.train(folder, ranks=1)
        before = snapshot(folder / "run")
        for overrides in ([], ["run.resume=run/checkpoints/step-00000040.h5", "run.steps=40"]):
            self.assertIn("nothing is left to do", self.train(folder, *overrides, ranks=1).out)
            self.assertEqual(snapshot(folder / "run"), before)

    def test_killed_between_the_last_checkpoint_and_the_summary(self):
        for checkpoint in ({"every_steps": 0}, {"every_steps": 50}):
            with self.subTest(checkpoint=checkpoint):
                whole = self.uninterrupted(1, checkpoint=checkpoint)
                (whole / "run" / "summary.json").unlink()
                before = without_times(metrics(whole / "run"))
                self.train(whole, ranks=2)
                self.assertEqual(without_times(metrics(whole / "run")), before)
                self.assertEqual(summary(whole / "run")["steps"], 100)
                self.assertAlmostEqual(summary(whole / "run")["validation"]["loss"], float(before[-1]["loss"]), places=5)
                shutil.rmtree(whole)

    def test_adamw_goes_on(self):
        optimizer = {"type": "adamw", "clip_norm": 0.5}
        whole, parts = self.uninterrupted(1, optimizer=optimizer), self.folder_of("parts", optimizer=optimizer)
        self.train(parts, "run.steps=37", ranks=1)
        self.train(parts, ranks=1)
        self.expect_same(whole, parts)

    def test_the_same_twice(self):
        for ranks in (1, 2):
            again = self.folder_of(f"again{ranks}")
            self.train(again, ranks=ranks)
            self.expect_same(self.uninterrupted(ranks), again)
            shutil.rmtree(self.folder / "whole")

    def test_another_seed_is_another_run(self):
        a, b = self.folder_of("a"), self.folder_of("b")
        self.train(a, "run.steps=20", ranks=1)
        self.train(b, "run.steps=20", "run.seed=8", ranks=1)
        self.assertNotEqual(without_times(metrics(a / "run")), without_times(metrics(b / "run")))

    def test_resume_from_a_file_into_another_folder(self):
        whole = self.uninterrupted(1)
        parts = self.folder_of("parts")
        self.train(parts, "run.steps=37", ranks=1)
        self.train(parts, "run.resume=run/checkpoints/step-00000037.h5", "run.output_dir=other", ranks=1)
        last = [row for row in without_times(metrics(parts / "other")) if row["step"] == "100"]
        self.assertEqual(last, [row for row in without_times(metrics(whole / "run")) if row["step"] == "100"])

    def test_a_file_that_is_at_the_end_already(self):
        """The other folder gets a checkpoint of its own even so, or a later start would begin at step 0."""
        whole = self.uninterrupted(1)
        self.train(whole, f"run.resume=run/{LAST}", "run.output_dir=other", ranks=1)
        self.assertTrue((whole / "other" / LAST).exists())
        self.assertIn("nothing is left to do", self.train(whole, "run.output_dir=other", ranks=1).out)

    def test_a_checkpoint_that_lies_elsewhere(self):
        whole, parts = self.uninterrupted(1), self.folder_of("parts")
        self.train(parts, "run.steps=37", ranks=1)
        here, there = parts / "run/checkpoints/step-00000037.h5", parts / "archive.h5"
        here.rename(there)
        here.symlink_to(there)
        self.train(parts, ranks=1)
        self.expect_same(whole, parts)
        self.assertIn("nothing is left to do", self.train(parts, ranks=1).out)

    def test_what_made_a_run(self):
        """The provenance is the same in the summary and in the checkpoint, and a run that goes on with other data warns of it."""
        folder = self.folder_of("made", run={**DECK["run"], "steps": 20})
        self.train(folder, ranks=2)
        made = summary(folder / "run")["provenance"]
        stored = (folder / "run/checkpoints/step-00000020.h5").read_bytes()
        self.assertIn(json.dumps(made, separators=(",", ":"), ensure_ascii=False).encode(), stored)
        self.assertIn((folder / "run/deck.yaml").read_bytes().split(b"\n", 1)[1], stored)
        said = dict(line.split(maxsplit=1) for line in self.lockstep("info").out.splitlines())
        for key in ("lockstep", "git", "compiler", "kokkos", "backend", "mpi", "hdf5"):
            self.assertEqual(made[key], said[key])
        self.assertEqual(", ".join(made["providers"]), said["providers"])
        self.assertEqual((made["ranks"], sum(made["hosts"].values())), (2, 2))
        self.assertRegex(made["data"]["train"]["fingerprint"], r"^500 examples of \d+ bytes, [0-9a-f]{16}$")
        self.assertRegex(made["data"]["validation"]["fingerprint"], r"^90 examples of \d+ bytes, [0-9a-f]{16}$")
        again = self.train(folder, "run.steps=25", ranks=1)
        self.assertNotIn("present data", again.err)
        again = self.train(folder, "run.steps=30", "data.synthetic={kind: random, train: 500, validation: 90, shape: [28, 28, 1], classes: 10}", ranks=1)
        self.assertIn("step-00000025.h5: was written with data that differ from the present data", again.err)

    def test_checkpoints_that_are_kept(self):
        folder = self.folder_of("kept", checkpoint={"every_steps": 20, "keep": 3})
        self.train(folder, ranks=1)
        self.assertEqual(sorted(path.name for path in (folder / "run" / "checkpoints").iterdir()),
                         ["latest", *(f"step-{step:08}.h5" for step in (60, 80, 100))])


if __name__ == "__main__":
    program.main()
