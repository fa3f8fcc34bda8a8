# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A disk that fails at a write, fsync, rename or close of a checkpoint: the run goes on or stops with status 74, and the last
good checkpoint loads. --full: at each call; else at some of them."""
import collections
import itertools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "regression"))
import program
from program import LockstepTest, metrics, summary, without_times

FULL = "--full" in sys.argv
STEPS = (2, 4, 6)  # steps that leave a checkpoint


def checkpoint(step):
    return f"step-{step:08}.h5"


class Disk(LockstepTest):
    def setUp(self):
        super().setUp()
        # A path in LD_PRELOAD cannot have a space.
        self.disk = shutil.copy(os.environ["LOCKSTEP_FAILING_DISK"], self.folder)
        self.deck(run={"steps": 6, "output_dir": "run", "log_every": 1, "seed": 7}, checkpoint={"every_steps": 2, "keep": 2})

    def train(self, name):
        """Trains in a folder of its own, so that all runs use the same names."""
        (self.folder / name).mkdir(exist_ok=True)
        return self.lockstep("train", "../deck.yaml", cwd=self.folder / name)

    def with_disk(self, plan, *overrides, name="", ranks=1, counts=None, rank=None, statuses=(0,)):
        environment = {"LD_PRELOAD": self.disk, "LOCKSTEP_DISK": plan}
        if counts:
            environment["LOCKSTEP_DISK_COUNTS"] = str(counts)
        if rank is not None:
            environment["LOCKSTEP_DISK_RANK"] = str(rank)
        os.environ.update(environment)
        try:
            (self.folder / name).mkdir(exist_ok=True)
            result = program.run("train", self.folder / "deck.yaml", *overrides, ranks=ranks, cwd=self.folder / name)
        finally:
            for name in environment:
                del os.environ[name]
        self.assertIn(result.status, statuses, f"{plan}: {result}")
        self.assertNotRegex(result.err, "fault of Lockstep|terminate called|Segmentation|infinite loop", plan)
        return result

    def newest(self, folder):
        """Name of the newest checkpoint; empty if there is none."""
        return max((path.name for path in (self.folder / folder / "run/checkpoints").glob("step-*.h5")), default="")

    def test_the_best_checkpoint_cannot_be_written(self):
        """Its evaluation does not count, so that the next best one is kept."""
        keys = ["run.steps=12", "run.evaluate_every=1 steps", "optimizer.learning_rate=1", "checkpoint={keep_best: {count: 1}, keep: 1}"]
        self.with_disk("none none 1 none", *keys, name="sound")
        best = summary(self.folder / "sound/run")["best"]["step"]
        self.assertLess(best, 12, "the last step's checkpoint is written in any case")
        result = self.with_disk(f"step-{best:08} write -1 ENOSPC", *keys, name="full")
        self.assertIn(f"step {best} does not count for checkpoint.keep_best, as its checkpoint was not written", result.err)
        kept = summary(self.folder / "full/run")["best"]["step"]
        self.assertNotEqual(kept, best)
        self.assertEqual((self.folder / "full/run/checkpoints/best").resolve().name, f"step-{kept:08}.h5")

    def test_weights_are_read_by_the_first_rank_alone(self):
        """Ranks that divide the parameters get theirs from it, and begin as whole ones do. No other rank can read the file."""
        self.train("first")
        weights = shutil.copy(self.folder / "first/run/checkpoints/latest", self.folder / "weights.h5")
        curves = []
        for shard in ("none", "parameters"):
            keys = [f"model.weights={weights}", f"parallel={{shard: {shard}, share_parameters: false, unit_mb: 0.01, bucket_mb: 0.01}}"]
            result = self.with_disk("weights.h5 read 0 EIO", *keys, name=shard, ranks=2, rank=1)
            self.assertEqual(result.out.count("parameters loaded"), 1, result)
            curves.append(without_times(metrics(self.folder / shard / "run")))
        self.assertEqual(*curves)

    def test_every_call(self):
        self.train("whole")
        counts = self.folder / "counts"
        self.with_disk("checkpoints all 0 none", name="counted", counts=counts)
        calls = collections.Counter(counts.read_text().split())
        self.assertEqual(set(calls), {"open", "write", "fsync", "rename", "close"}, calls)
        # Each of the three checkpoints writes a file, its folder, and the link to it.
        self.assertGreaterEqual(calls["fsync"], 9)
        self.assertGreaterEqual(calls["rename"], 6)
        self.assertGreaterEqual(calls["write"], 30)

        tried, goes_on, stops, goes_on_later = 0, 0, 0, 0
        for call, most in sorted(calls.items()):
            for number in range(1, most + 1, 1 if FULL else max(1, most // 5)):
                # The call fails once, or from then on.
                faults = [(number, "EIO"), (-number, "ENOSPC"), *([(number, "short"), (-number, "short")] if call == "write" else [])]
                for fault, error in faults if FULL else [faults[number % 2], *faults[3:]]:
                    plan = f"checkpoints {call} {fault} {error}"
                    name = f"{call}{fault}{error}"
                    result = self.with_disk(plan, name=name, statuses=(0,) if error == "short" else (0, 74))
                    tried += 1
                    goes_on += result.status == 0
                    stops += result.status == 74
                    if result.status == 74:
                        self.assertEqual(len(result.errors()), 1, f"{plan}: {result}")
                    # A checkpoint whose failure was not reported exists, or a newer one does. On a good disk the run goes on from
                    # it to the same end.
                    failed = [int(step) for step in re.findall(r"the checkpoint of step (\d+) was not written", result.err)]
                    written = [step for step in STEPS if step not in failed and (result.status == 0 or step != STEPS[-1])]
                    newest = self.newest(name)
                    self.assertGreaterEqual(newest, max(map(checkpoint, written), default=""), f"{plan}: {result}")
                    again = self.train(name)
                    if result.status == 0:
                        self.assertEqual(newest, checkpoint(STEPS[-1]), f"{plan}: {result}")
                    elif newest and newest != checkpoint(STEPS[-1]):
                        self.assertIn(f"resumes from run/checkpoints/{newest} at step", again.out, plan)
                        goes_on_later += 1
                    self.assertEqual(without_times(metrics(self.folder / "whole/run")), without_times(metrics(self.folder / name / "run")), plan)
                    self.assertEqual(self.last_of("whole"), self.last_of(name), plan)
        print(f"{tried} faults: {goes_on} runs went on, {stops} stopped with 74; all went on from their last checkpoint")
        self.assertGreater(goes_on, 10)
        self.assertGreater(goes_on_later, 0)

    def last_of(self, name):
        return (self.folder / name / "run/checkpoints" / checkpoint(STEPS[-1])).read_bytes()

    def test_a_full_disk_is_said_and_gone_on_from(self):
        result = self.with_disk("step-00000002 write 0 ENOSPC")
        self.assertRegex(result.err, "warning: the checkpoint of step 2 was not written: .*No space left on device.*; the run continues, and tries again at the next one\n")
        self.assertEqual(summary(self.folder / "run")["status"], "done")
        result = self.with_disk("step-0000000 write 0 ENOSPC", "run.overwrite=true", "run.resume=never", statuses=(74,))
        self.assertEqual(len(result.errors()), 1, result)
        self.assertRegex(result.errors()[0], "error: run/checkpoints/step-00000006.h5: the last checkpoint was not written .*No space left on device.*make room.*starts from scratch")
        self.assertNotIn("the run continues from", result.err)
        result = self.with_disk("step-00000006 write -2 ENOSPC", "run.overwrite=true", "run.resume=never", statuses=(74,))
        self.assertRegex(result.errors()[0], "start again: the run continues from step-00000004.h5$")

    def test_a_limit_on_the_size_of_files(self):
        """A limit as set by `ulimit -f`, and by some batch systems, gives an error of writing, and no signal that ends the run."""
        self.write("text.txt", "to be or not to be" * 5000)
        for command, blocks, words in ((["train", "deck.yaml"], 4, ["step-00000006.h5", "File too large"]), (["train", "deck.yaml"], 0, ["run/", "File too large"]),
                                       (["import", "text", "--file", "text.txt", "--output", "text.h5"], 8, ["text.h5"])):
            with self.subTest(command=command, blocks=blocks):
                done = subprocess.run(["sh", "-c", f'ulimit -f {blocks}; exec "$@"', "sh", program.PROGRAM, *command], cwd=self.folder, stdin=subprocess.DEVNULL,
                                      capture_output=True, text=True, timeout=60)
                self.assertEqual(done.returncode, 74, done)
                errors = [line for line in done.stderr.splitlines() if line.startswith("error:")]
                self.assertEqual(len(errors), 1, done)
                for word in words:
                    self.assertIn(word, errors[0])
                self.assertNotRegex(done.stderr, "fault of Lockstep|infinite loop")
        self.lockstep("train", "deck.yaml", "run.overwrite=true")

    def test_outputs_on_a_full_disk(self):
        """Status 74, and the name that the user gave instead of the temporary one."""
        self.write("text.txt", "to be or not to be" * 5000)
        self.lockstep("import", "text", "--file", "text.txt", "--validation", 0.1, "--output", "text.h5")
        self.deck(run={"steps": 1, "output_dir": "run"}, data={"file": "text.h5", "sequence_length": 8},
                  model={"layers": [{"embedding": {"vocabulary": 16, "features": 4}}, {"linear": 16}]})
        self.lockstep("train", "deck.yaml")
        predict = ["predict", "run/checkpoints/latest", "--data", "text.h5:/train"]
        for command, name in ((["import", "text", "--file", "text.txt"], "new.h5"), (predict, "new.h5"), (predict, "new.npy"), (predict, "new.csv")):
            failed = collections.Counter()
            for call, number in itertools.product(("open", "write", "fsync"), (1, 2, 4)):
                plan = f"new. {call} -{number} ENOSPC"
                done = subprocess.run([program.PROGRAM, *command, "--output", name, "--overwrite"], cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True,
                                      text=True, timeout=60, env={**os.environ, "LD_PRELOAD": str(self.disk), "LOCKSTEP_DISK": plan})
                if done.returncode == 0:  # it makes fewer calls than that
                    continue
                failed[call] += 1
                self.assertEqual(done.returncode, 74, f"{plan}: {done}")
                errors = [line for line in done.stderr.splitlines() if line.startswith("error:")]
                self.assertEqual(len(errors), 1, f"{plan}: {done}")
                self.assertRegex(errors[0], rf"^error: {re.escape(name)}: cannot be .* \(No space left on device\)", plan)
                self.assertEqual(list(self.folder.glob("new*tmp*")), [], plan)
            self.assertEqual(set(failed), {"open", "write", "fsync"}, command)

    def test_what_a_killed_process_has_left_makes_room(self):
        left = self.write("run/checkpoints/step-00000004.h5.tmp-node.a-123", "half a checkpoint")
        self.with_disk("checkpoints write 0 ENOSPC", statuses=(74,))
        self.assertFalse(left.exists())

    def test_fewer_that_are_kept_make_room(self):
        """A smaller `keep` removes old checkpoints first: on a full disk, no new one could be written before that."""
        self.lockstep("train", "deck.yaml", "checkpoint={every_steps: 1, keep: 0}")
        self.with_disk("step-000000 write 0 ENOSPC", "run.steps=8", statuses=(74,))
        left = sorted(path.name for path in (self.folder / "run/checkpoints").glob("step-*"))
        self.assertEqual(left, [checkpoint(5), checkpoint(6)])
        self.lockstep("train", "deck.yaml", "run.steps=8")

    def test_fewer_that_are_kept_leave_the_best_and_what_is_gone_on_from(self):
        constant = ("optimizer.learning_rate=1e-30", "run.evaluate_every=1 steps")  # so that the first checkpoint is the best
        self.lockstep("train", "deck.yaml", "checkpoint={every_steps: 1, keep: 0, keep_best: {metric: validation_loss}}", *constant)
        folder = self.folder / "run/checkpoints"
        self.with_disk("step-000000 write 0 ENOSPC", f"run.resume={folder / checkpoint(4)}", "run.steps=8", *constant,
                       "checkpoint={keep: 1, keep_best: {metric: validation_loss}}", statuses=(74,))
        self.assertEqual(sorted(path.name for path in folder.glob("step-*.h5")), [checkpoint(1), checkpoint(4)])

    def test_a_stop_whose_summary_has_no_room(self):
        for error in ("open", "write"):
            with self.subTest(error=error):
                self.write("run/stop", "")
                result = self.with_disk(f"summary.json {error} 0 ENOSPC", statuses=(75,))
                self.assertRegex(result.err, "warning: run/summary.json: cannot be .*No space left on device.*the run's checkpoints are not affected")
                self.assertIn("stopped at step", result.out)
        self.assertIn("summary.json", self.with_disk("summary.json open 0 ENOSPC", statuses=(74,)).errors()[0])
        self.lockstep("train", "deck.yaml")
        self.assertEqual(summary(self.folder / "run")["status"], "done")

    def test_the_log_of_a_trial(self):
        self.write("study.yaml", "base: deck.yaml\noutput_dir: study\nseeds: 1\nbudget: {steps: 4}\nevaluations: 1\ngoal: {metric: validation_loss, best: min}\n")
        self.deck(run={"steps": 4, "log_every": 1, "seed": 7})
        environment = {**os.environ, "LD_PRELOAD": str(self.disk), "LOCKSTEP_DISK": "log.txt write 2 ENOSPC"}
        done = subprocess.run([program.PROGRAM, "study", "study.yaml"], cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, env=environment)
        self.assertEqual(done.returncode, 0, done)
        self.assertRegex(done.stderr, r"^warning: the log can no longer be written \(study/trials/\S+/log.txt: No space left on device\)\n$")
        log = next(self.folder.glob("study/trials/*/log.txt")).read_text()
        self.assertIn("done: 4 steps", log)

    @unittest.skipIf(program.runs_on_device(), "ranks run freely on hosts")
    def test_rows_that_find_no_room(self):
        """Rows of the curve and of the record of gradients are written later, or the end reports it; no checkpoint counts on unwritten rows."""
        self.deck(checkpoint={"every_steps": 2}, parallel={"asynchronous": {"schedule": {"free": True, "record": "order.txt"}}})
        self.train("whole")
        record = (self.folder / "whole/order.txt").read_text()
        for file, error in (("metrics.csv", "ENOSPC"), ("order.txt", "EIO")):
            result = self.with_disk(f"{file} write 3 {error}", name=f"once{error}", ranks=2, rank=0)
            self.assertEqual(result.err.count("rows are kept until they can be written"), 1, result)
            rows = [(row["step"], row["split"]) for row in metrics(self.folder / "whole/run")]
            self.assertEqual([(row["step"], row["split"]) for row in metrics(self.folder / f"once{error}/run")], rows)
            self.assertEqual((self.folder / f"once{error}/order.txt").read_text().count("\n"), record.count("\n"))
        for file in ("metrics.csv", "order.txt"):
            name = f"always{file}"
            result = self.with_disk(f"{file} write -3 ENOSPC", name=name, statuses=(74,))
            self.assertEqual(len(result.errors()), 1, result)
            self.assertIn("No space left on device", result.errors()[0])
            self.assertEqual(self.newest(name), "")
            self.train(name)
            self.assertEqual(without_times(metrics(self.folder / "whole/run")), without_times(metrics(self.folder / name / "run")))
            self.assertEqual((self.folder / name / "order.txt").read_text(), record)


if __name__ == "__main__":
    sys.argv = [argument for argument in sys.argv if argument != "--full"]
    program.main()
