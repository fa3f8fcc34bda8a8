# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""loss_watch: when the loss jumps, the run stops before that step, leaves it out, or rolls back and goes on with other examples."""
import itertools
import re
import subprocess

import program
from program import LockstepTest, metrics, summary, without_times

# The learning rate is so large that the loss soon jumps, more than once.
DECK = {
    "run": {"steps": 120, "output_dir": "run", "log_every": 1, "seed": 7},
    "data": {"synthetic": {"kind": "glyphs", "train": 1024, "validation": 64}},
    "optimizer": {"type": "sgd", "learning_rate": 0.5, "momentum": 0.9},
    "precision": {"compute": "fp64"},  # so that the number of ranks does not change the step of a jump
    "checkpoint": {"every_steps": 25, "keep": 0},
}
WATCH = {"z_score": 3, "window": 20}


class LossWatch(LockstepTest):
    def train(self, name, *overrides, ranks=1, status=0, **watch):
        self.deck(**DECK, loss_watch={**WATCH, **watch})
        return self.lockstep("train", "deck.yaml", f"run.output_dir={name}", *overrides, ranks=ranks, status=status)

    def first_jump(self):
        result = self.train("stop", on_anomaly="stop", status=70)
        self.assertEqual(len(result.errors()), 1, result)
        found = re.search(r"step (\d+): the loss is [\d.]+, [\d.]+ standard deviations above [\d.]+, the mean of the 20 steps before", result.errors()[0])
        self.assertTrue(found, result)
        return int(found[1])

    def test_stop_keeps_the_step_before(self):
        jump = self.first_jump()
        self.assertGreater(jump, 20)
        self.assertEqual(sorted(path.name for path in (self.folder / "stop/checkpoints").glob("step-*.h5"))[-1], f"step-{jump - 1:08}.h5")
        self.assertEqual(metrics(self.folder / "stop")[-1]["step"], str(jump - 1))
        # A run that is started again, or on another number of ranks, finds the same step.
        self.assertIn(f"step {jump}: ", self.train("stop", on_anomaly="stop", status=70).errors()[0])
        self.assertIn(f"step {jump}: ", self.train("stop_2", on_anomaly="stop", ranks=2, status=70).errors()[0])

    def test_stop_keeps_what_simulated_workers_have_read(self):
        """The checkpoint before the jump is that of a run that ends there, and goes on as that one does."""
        def train(name, *overrides, status=0, **watch):
            return self.train(name, "optimizer={type: sgd, learning_rate: 0.05}",
                              "parallel={asynchronous: {collect: 2, schedule: {simulate: {ranks: 4, delays: [1, 2.3, 3.7, 5.1]}}}}",
                              *overrides, status=status, z_score=1.5, **watch)
        error, = train("stop", on_anomaly="stop", status=70).errors()
        jump = int(re.search(r"step (\d+): the loss is ", error)[1])
        train("before", f"run.steps={jump - 1}", on_anomaly="skip")
        for name in ("stop", "before"):
            train(name, f"run.steps={jump + 5}", on_anomaly="skip")
        rows = [without_times(metrics(self.folder / name)) for name in ("stop", "before")]
        self.assertEqual([[row for row in each if int(row["step"]) >= jump] for each in rows][0], [row for row in rows[1] if int(row["step"]) >= jump])

    def test_skip_leaves_the_step_out(self):
        jump = self.first_jump()
        out = self.train("skip", f"run.steps={jump}", on_anomaly="skip").out
        self.assertRegex(out, rf"step +{jump}  left out: the loss is ")
        # Its parameters, and so the validation loss, are those of the step before.
        self.train("before", f"run.steps={jump - 1}", on_anomaly="skip")
        self.assertEqual(summary(self.folder / "skip")["validation"], summary(self.folder / "before")["validation"])
        self.assertEqual(summary(self.folder / "skip")["steps"], jump)

    def test_rollback_goes_on_with_other_examples(self):
        jump = self.first_jump()
        for ranks in (1, 2):
            result = self.train(f"back_{ranks}", f"run.steps={jump}", on_anomaly="rollback", at_most=50, ranks=ranks)
            self.assertRegex(result.out, rf"step {jump}: .*; rolls back to step {(jump - 1) // 25 * 25} and continues with other examples")
            # A second rollback from the same checkpoint goes further back.
            back_to = min(int(step) for step in re.findall(r"rolls back to step (\d+)", result.out))
        plain, back = (metrics(self.folder / name) for name in ("stop", "back_1"))
        steps = [int(row["step"]) for row in back if row["split"] == "train"]
        self.assertEqual(steps, list(range(1, jump + 1)), "each step is in the curve once")
        losses = [[row["loss"] for row in rows if row["split"] == "train"] for rows in (plain, back)]
        self.assertEqual(losses[0][:back_to], losses[1][:back_to])
        self.assertNotEqual(losses[0][back_to], losses[1][back_to], "the examples after it are others")
        self.train("divided_2", f"run.steps={jump}", "parallel.shard=optimizer", on_anomaly="rollback", at_most=50, ranks=2)
        self.assertEqual(without_times(metrics(self.folder / "back_2")), without_times(metrics(self.folder / "divided_2")))
        for a, b in zip(losses[1], [row["loss"] for row in metrics(self.folder / "back_2") if row["split"] == "train"], strict=True):
            self.assertAlmostEqual(float(a) / float(b), 1, delta=1e-8)

    def test_a_rolled_back_run_goes_on_bit_for_bit(self):
        jump = self.first_jump()
        options = {"on_anomaly": "rollback", "at_most": 50}
        whole = self.train("whole", f"run.steps={jump + 20}", **options)
        self.train("parts", f"run.steps={jump}", **options)
        self.train("parts", f"run.steps={jump + 20}", **options)
        rows = without_times(metrics(self.folder / "whole"))
        self.assertEqual(rows, without_times(metrics(self.folder / "parts")))
        # A run that is killed after its last rollback, before the next checkpoint, does not meet the same jump again.
        back_to = int(re.findall(r"rolls back to step (\d+)", whole.out)[-1])
        for path in (self.folder / "whole/checkpoints").glob("step-*.h5"):
            if path.name > f"step-{back_to:08}.h5":
                path.unlink()
        again = self.train("whole", f"run.steps={jump + 20}", **options)
        self.assertIn(f"at step {back_to}", again.out)
        self.assertNotIn("rolls back", again.out)
        self.assertEqual(without_times(metrics(self.folder / "whole")), rows)

    def test_rollback_without_a_checkpoint_keeps_the_step_before(self):
        jump = self.first_jump()
        result = self.train("none", "checkpoint.every_steps=1000", on_anomaly="rollback", status=70)
        self.assertEqual(len(result.errors()), 1, result)
        self.assertIn("there is no checkpoint to go back to", result.errors()[0])
        self.assertEqual([path.name for path in (self.folder / "none/checkpoints").glob("step-*.h5")], [f"step-{jump - 1:08}.h5"])

    def test_rollback_twice_goes_further_back(self):
        """A checkpoint that is bad already cannot be helped by another order of examples."""
        result = self.train("far", "checkpoint.every_steps=5", on_anomaly="rollback", z_score=1, at_most=30, status=70)
        steps = [int(step) for step in re.findall(r"rolls back to step (\d+)", result.out)]
        self.assertTrue(any(after < before for before, after in itertools.pairwise(steps)), result)
        self.assertFalse(any(after == before for before, after in itertools.pairwise(steps)), result)

    def test_killed_behind_a_rollback(self):
        """`latest` names an existing checkpoint, although the one that it named before has been set aside."""
        self.deck(**DECK, loss_watch={**WATCH, "on_anomaly": "rollback", "z_score": 1, "at_most": 30})
        arguments = ["train", "deck.yaml", "checkpoint.every_steps=5"]
        with subprocess.Popen([program.PROGRAM, *arguments], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as child:
            try:
                back_to = before = 0
                while back_to >= before:
                    line = child.stdout.readline()
                    self.assertTrue(line, "it never went further back")
                    if found := re.search(r"rolls back to step (\d+)", line):
                        before, back_to = back_to, int(found[1])
            finally:
                child.kill()
        latest = (self.folder / "run/checkpoints/latest").resolve(strict=True).name
        found = re.search(r"resumes from run/checkpoints/(step-\d+\.h5)", self.lockstep(*arguments, status=70).out)
        self.assertGreaterEqual(found[1], latest)  # newer if the run was killed between a checkpoint and its link

    def test_a_last_evaluation_that_fails_fails_again(self):
        """A run whose last evaluation fails has done all its steps, but is not done: a restart evaluates again."""
        self.deck(run={"steps": 1, "output_dir": "run", "log_every": 1, "seed": 7}, loss={"type": "mse"},
                  data={"synthetic": {"kind": "linear", "features": 64, "outputs": 2, "train": 64, "validation": 20}},
                  model={"layers": [{"linear": 2}]}, batch={"global": 64}, loss_watch={"on_anomaly": "stop"},
                  optimizer={"type": "sgd", "learning_rate": 2e38})  # so that outputs overflow, but no parameter
        for ranks in (1, 1, 2):
            self.refused(70, ["step 1: the validation loss is"], "train", "deck.yaml", ranks=ranks)
            self.assertEqual(summary(self.folder / "run")["status"], "failed")

    def test_not_for_ever(self):
        result = self.train("often", on_anomaly="skip", at_most=1, z_score=1.5, status=70)
        self.assertIn("(loss_watch; earlier anomalies: 1)", result.errors()[0])

    def test_what_does_not_go_together(self):
        for overrides, words in ((["checkpoint.every_steps=0"], ["rollback needs checkpoints"]), (["data.shuffle=false"], ["rollback needs an order of examples that can change", "data.shuffle: false (command line"])):
            self.deck(**DECK, loss_watch={**WATCH, "on_anomaly": "rollback"})
            self.refused(78, ["loss_watch.on_anomaly", *words], "train", "deck.yaml", *overrides)


if __name__ == "__main__":
    program.main()
