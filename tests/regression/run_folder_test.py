# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The folder of a run: one run at a time writes there, nobody else's files are replaced, and a deck that differs from the
checkpoint's is reported."""
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
import unittest

import program
from program import LockstepTest, metrics, snapshot, summary

ENDLESS = {"steps": 10000000, "output_dir": "run", "log_every": 1, "seed": 7}
STALE_AFTER = 60


class Folder(LockstepTest):
    def start(self, *overrides):
        child = subprocess.Popen([program.PROGRAM, "train", "deck.yaml", *overrides], cwd=self.folder, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: child.poll() is None and child.kill())
        return child

    def wait_for_steps(self, steps=3):
        path, limit = self.folder / "run/metrics.csv", time.monotonic() + 60
        while not path.exists() or len(path.read_text().splitlines()) <= steps:
            self.assertLess(time.monotonic(), limit)
            time.sleep(0.01)


class Lost(Folder):
    def test_a_killed_run_without_a_checkpoint_is_spoken_of(self):
        self.deck(run={**ENDLESS, "steps": 10**9})
        child = self.start()
        self.wait_for_steps(5)
        child.kill()
        out, _ = child.communicate()
        self.assertEqual(out.count("checkpoints: only at the end; a run that is killed"), 1, out)
        last = metrics(self.folder / "run")[-1]["step"]
        out = self.lockstep("train", "deck.yaml", "run.steps=3").out
        self.assertIn(f"run: an earlier run reached step {last} without a checkpoint; this one starts from scratch", out)
        self.assertNotIn("only at the end", out, "which is near")
        self.assertNotIn("earlier run", self.lockstep("train", "deck.yaml", "run.steps=5").out, "it goes on")

    def test_a_run_that_was_killed_before_its_first_row_is_spoken_of(self):
        self.deck(run={**ENDLESS, "log_every": 10**8})
        child, limit = self.start(), time.monotonic() + 60
        while not (self.folder / "run/metrics.csv").exists():
            self.assertLess(time.monotonic(), limit)
            time.sleep(0.01)
        child.kill()
        child.wait()
        out = self.lockstep("train", "deck.yaml", "run.steps=3").out
        self.assertIn("run: an earlier run ended before its first row, without a checkpoint; this one starts from scratch", out)

    def test_a_removed_folder_of_checkpoints_is_made_again(self):
        self.deck(run=ENDLESS, checkpoint={"every_steps": 5})
        child, checkpoints, limit = self.start(), self.folder / "run/checkpoints", time.monotonic() + 60
        for removes in (True, False):
            while not (checkpoints / "latest").exists():
                self.assertLess(time.monotonic(), limit)
                time.sleep(0.01)
            if removes:
                shutil.rmtree(checkpoints, ignore_errors=True)
        child.terminate()
        child.communicate(timeout=60)
        self.assertEqual(child.returncode, 75)
        self.assertIn("resumes from run/checkpoints/step-", self.lockstep("train", "deck.yaml", f"run.steps={summary(self.folder / 'run')['steps'] + 1}").out)


@unittest.skipIf(program.runs_on_device(), "ranks run freely on hosts")
class Record(Folder):
    """The record of the order of gradients, a file outside the run's folder."""

    FREE = "parallel.asynchronous={schedule: {free: true, record: order.txt}}"

    def simulated(self, record):
        return f"parallel.asynchronous={{schedule: {{simulate: {{ranks: 2}}, record: {record}}}}}"

    def test_no_other_file_is_replaced(self):
        notes = self.write("order.txt", "what I have seen")
        for order in (self.FREE, self.simulated("order.txt")):
            self.deck()
            self.refused(73, ["order.txt: exists already, and is not a record of the order of gradients"], "train", "deck.yaml", order, "run.overwrite=true")
            self.assertEqual(notes.read_text(), "what I have seen")
            self.assertFalse((self.folder / "run").exists())

    def test_no_other_runs_record_is_replaced(self):
        self.deck()
        self.lockstep("train", "deck.yaml", self.FREE)
        record = (self.folder / "order.txt").read_text()
        for order in (self.FREE, self.simulated("order.txt")):
            self.refused(73, ["order.txt: holds the order of gradients of another run", "run.overwrite=true"], "train", "deck.yaml", order, "run.output_dir=other")
            self.assertFalse((self.folder / "other").exists())
        self.refused(73, ["run: holds an earlier run"], "train", "deck.yaml", self.simulated("order.txt"), "run.resume=never")
        self.assertEqual((self.folder / "order.txt").read_text(), record)
        self.lockstep("train", "deck.yaml", self.FREE, "run.steps=6")  # the run goes on, and so does its record
        self.assertTrue((self.folder / "order.txt").read_text().startswith(record))

    def test_it_may_be_in_a_new_folder(self):
        self.deck()
        for _ in range(2):
            self.lockstep("train", "deck.yaml", self.simulated("run/order.txt"))
            self.assertTrue((self.folder / "run/order.txt").read_text().startswith("# lockstep pushes 1: "))


class OneAtATime(Folder):
    def test_a_sweep_with_one_name(self):
        """Of eight runs at once, one gets the folder, and the others say which process has it."""
        self.deck(run={**ENDLESS, "wall_time": "4 s"}, checkpoint={"every_steps": 50, "keep": 2})
        children = [self.start(f"optimizer.learning_rate={0.01 * number}") for number in range(1, 9)]
        ends = [(child, *child.communicate(timeout=60)) for child in children]
        self.assertEqual(sorted(child.returncode for child in children), [73] * 7 + [75], ends)
        holder = next(child for child in children if child.returncode == 75)
        for child, _, err in ends:
            if child is not holder:
                self.assertRegex(err, rf"error: run: another run is writing here: process {holder.pid} on \S+, since \d{{4}}-")
        text = (self.folder / "run/deck.yaml").read_text()
        self.assertIn(f"learning_rate: {0.01 * (children.index(holder) + 1):g}", text)
        rows = [int(row["step"]) for row in metrics(self.folder / "run") if row["split"] == "train"]
        self.assertEqual(rows, sorted(set(rows)), "two runs have mixed")
        self.assertFalse((self.folder / "run/lock").exists())

    def test_a_killed_run_leaves_the_way_free(self):
        self.deck(run=ENDLESS, checkpoint={"every_steps": 5})
        child = self.start()
        self.wait_for_steps(20)
        child.kill()
        child.communicate()
        self.assertTrue((self.folder / "run/lock").exists())
        result = self.lockstep("train", "deck.yaml", "run.wall_time=2 s", status=75)
        self.assertIn("resumes from", result.out)
        self.assertLess(result.seconds, 10, "the holder is known to be dead")

    def foreign_lock(self, age):
        """Writes a lock like one of a process on another machine, `age` seconds old."""
        (self.folder / "run").mkdir(exist_ok=True)
        lock = self.folder / "run/lock"
        lock.write_text(json.dumps({"lockstep": "lock", "host": "elsewhere", "process": 4711, "job": "Slurm job 17", "since": "2026-01-01T00:00:00Z",
                                    "boot": "another", "namespace": 1, "birth": "2"}) + "\n")
        os.utime(lock, (time.time() - age,) * 2)
        return lock

    def test_a_lock_of_another_machine(self):
        self.deck()
        self.foreign_lock(STALE_AFTER + 1)
        self.assertLess(self.lockstep("train", "deck.yaml").seconds, 10, "it is stale already")

        self.foreign_lock(STALE_AFTER - 4)
        result = self.lockstep("train", "deck.yaml", "run.output_dir=run", "run.overwrite=true", "run.resume=never")
        self.assertGreater(result.seconds, 3)
        self.assertIn("process 4711 on elsewhere (Slurm job 17), since 2026-01-01T00:00:00Z may still be writing here", result.out)

        lock = self.foreign_lock(5)
        before = snapshot(self.folder / "run")
        alive = threading.Timer(2, lambda: os.utime(lock))
        alive.start()
        result = self.refused(73, ["another run is writing here: process 4711 on elsewhere (Slurm job 17)"], "train", "deck.yaml")
        alive.join()
        self.assertLess(result.seconds, 10)
        self.assertEqual({name: content for name, (_, content) in before.items()},
                         {name: content for name, (_, content) in snapshot(self.folder / "run").items()})

    def test_a_lock_that_says_nothing(self):
        """A lock that gives no holder, and one whose date is in the future."""
        self.deck()
        (self.folder / "run").mkdir()
        lock = self.folder / "run/lock"
        lock.symlink_to("nowhere")
        self.refused(73, ["run/lock: cannot be read", "so another run may be writing here"], "train", "deck.yaml")
        lock.unlink()

        self.foreign_lock(-86400)  # as if the file server's clock had been set back by a day
        child = self.start()
        said = child.stdout.readline()
        while "may still be writing here" not in said:
            self.assertTrue(said)
            said = child.stdout.readline()
        self.assertRegex(said, r"shows a sign of life within (1 min|[0-9.]+ s)")
        child.terminate()
        _, err = child.communicate(timeout=30)
        self.assertEqual(child.returncode, 75, err)
        self.assertIn("error: run/lock: SIGTERM was received while this run waited for process 4711 on elsewhere", err)

    def test_a_lock_that_was_removed_is_made_again(self):
        self.deck(run=ENDLESS, checkpoint={"every_steps": 50})
        child = self.start()
        self.wait_for_steps()
        lock = self.folder / "run/lock"
        text = lock.read_text()
        lock.unlink()
        limit = time.monotonic() + 30
        while not lock.exists():
            self.assertLess(time.monotonic(), limit)
            time.sleep(0.05)
        self.assertEqual(lock.read_text(), text)
        child.terminate()
        _, err = child.communicate(timeout=30)
        self.assertEqual(child.returncode, 75, err)
        self.assertFalse(lock.exists())

    def test_a_run_whose_folder_was_taken_over_ends(self):
        """All of its ranks end, although the others wait for rank 0 in a sum of gradients."""
        for parallel in ("{overlap: thread}", "{overlap: poll, all_reduce: ring}"):
            self.deck(run=ENDLESS, checkpoint={"every_steps": 50})
            child = subprocess.Popen([*program.MPIEXEC, "2", program.PROGRAM, "train", "deck.yaml", f"parallel={parallel}"], cwd=self.folder,
                                     stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            self.addCleanup(lambda child=child: child.poll() is None and child.kill())
            self.wait_for_steps()
            newest = lambda: sorted(path.name for path in (self.folder / "run/checkpoints").glob("step-*.h5"))
            self.foreign_lock(0)
            time.sleep(0.5)  # time for a checkpoint that was being written
            before = newest()
            _, err = child.communicate(timeout=30)
            self.assertEqual(child.returncode, 73, err)
            self.assertRegex(err, r"error: run/lock: process 4711 on elsewhere \(Slurm job 17\), since \S+ has taken over this run's folder")
            self.assertEqual(newest(), before, "checkpoints were written after that")
            shutil.rmtree(self.folder / "run")

    def test_a_suspended_run_that_nobody_replaced_goes_on(self):
        self.deck(run=ENDLESS)
        child = self.start()
        self.wait_for_steps()
        os.kill(child.pid, signal.SIGSTOP)
        self.refused(73, [f"process {child.pid} on"], "train", "deck.yaml")
        os.utime(self.folder / "run/lock", (time.time() - STALE_AFTER + 0.5,) * 2)  # as if it had been suspended for so long
        os.kill(child.pid, signal.SIGCONT)
        os.kill(child.pid, signal.SIGTERM)
        child.communicate(timeout=30)
        self.assertEqual(child.returncode, 75)


class NothingOfOthers(Folder):
    def test_files_of_others_stay(self):
        self.deck()
        for name, text in (("deck.yaml", "my: deck\n"), ("metrics.csv", "a,b\n1,2\n"), ("summary.json", "{}"), ("lock", "mine"), ("stop", "#!/bin/sh\n")):
            with self.subTest(name):
                folder = f"with_{name}"
                self.write(f"{folder}/{name}", text)
                before = snapshot(self.folder / folder)
                for overwrite in ("false", "true"):
                    self.refused(73, [f"{folder}/{name}: ", "another run.output_dir"], "train", "deck.yaml", f"run.output_dir={folder}",
                                 f"run.overwrite={overwrite}")
                    self.assertEqual(snapshot(self.folder / folder), before)

    def test_a_file_with_the_name_of_a_link_stays(self):
        self.deck()
        latest = self.write("run/checkpoints/latest", "mine")
        self.assertIn("checkpoints/latest: is not a link, and is left unchanged", self.lockstep("train", "deck.yaml").err)
        self.assertEqual(latest.read_text(), "mine")

    def test_only_own_files_are_removed(self):
        self.deck()
        for name in ("waiting/notes", "waiting/7", "checkpoints/notes.h5", "notes.csv.tmp-vm-1", "metrics.csv.tmp-vm-1"):
            self.write(f"run/{name}", "" if name == "waiting/7" else "mine")
        self.lockstep("train", "deck.yaml")
        self.lockstep("train", "deck.yaml", "run.overwrite=true", "run.resume=never")
        left = {str(path.relative_to(self.folder / "run")) for path in (self.folder / "run").rglob("*") if path.is_file()}
        self.assertEqual(left, {"waiting/notes", "checkpoints/notes.h5", "notes.csv.tmp-vm-1", "metrics.csv", "summary.json", "deck.yaml",
                                "checkpoints/latest", "checkpoints/step-00000004.h5"})

    def test_the_deck_of_the_command_line_stays(self):
        self.deck()
        self.lockstep("train", "deck.yaml")
        before = (self.folder / "run/deck.yaml").read_text()
        self.refused(73, ["run/deck.yaml: is the deck that this run was started with"], "train", "run/deck.yaml", "run.steps=6")
        self.assertEqual((self.folder / "run/deck.yaml").read_text(), before)
        self.assertIn("nothing is left to do", self.lockstep("train", "run/deck.yaml").out)

    def test_what_a_run_begins_with_stays(self):
        self.deck()
        self.lockstep("train", "deck.yaml")
        (self.folder / "link.h5").symlink_to("run/checkpoints/latest")
        before = snapshot(self.folder / "run")
        for key in ("model.weights.file", "run.branch_from"):
            for start in ("run/checkpoints/step-00000004.h5", self.folder / "run/checkpoints/latest", "link.h5"):
                with self.subTest(key=key, start=start):
                    self.refused(73, [f": {key}: {start} belongs to the earlier run in run"], "train", "deck.yaml", f"{key}={start}",
                                 "run.resume=never", "run.overwrite=true")
                    self.assertEqual(snapshot(self.folder / "run"), before)
        (self.folder / "run/checkpoints/step-00000004.h5").rename(self.folder / "mine.h5")
        self.lockstep("train", "deck.yaml", "run.branch_from=mine.h5", "run.resume=never", "run.overwrite=true")

    def test_results_without_checkpoints_stay(self):
        """The checkpoints may have been removed to free disk space."""
        self.deck()
        self.lockstep("train", "deck.yaml")
        for path in (self.folder / "run/checkpoints").iterdir():
            path.unlink()
        before = snapshot(self.folder / "run")
        self.refused(73, ["run: holds a run that has ended (done), whose checkpoints are gone"], "train", "deck.yaml")
        self.assertEqual(snapshot(self.folder / "run"), before)
        self.lockstep("train", "deck.yaml", "run.overwrite=true")
        # A run that never reached a checkpoint is begun anew.
        (self.folder / "run/summary.json").unlink()
        for path in (self.folder / "run/checkpoints").iterdir():
            path.unlink()
        self.lockstep("train", "deck.yaml")

    def test_a_folder_that_was_made_for_nothing_goes(self):
        self.deck()
        self.lockstep("train", "deck.yaml", "run.output_dir=other")
        self.refused(65, ["the network of the deck needs"], "train", "deck.yaml", "run.output_dir=new", "model.layers.1.linear.features=17",
                     f"run.resume={self.folder}/other/checkpoints/step-00000004.h5")
        self.assertFalse((self.folder / "new").exists())


class ChangedDeck(Folder):
    def test_what_takes_effect_is_said(self):
        self.deck()
        self.lockstep("train", "deck.yaml")
        result = self.lockstep("train", "deck.yaml", "run.steps=8", "optimizer.learning_rate=0.05", "model.layers.1.linear.initial_std=0.3",
                               "data.normalize={mean: [0.1], std: [0.3]}")
        for line in ("run.steps was 4 and is 8 from here on", "optimizer.learning_rate was 0.1 and is 0.05 from here on",
                     "data.normalize.mean was not set and is [0.1] from here on",
                     "the learning rate of step 5 is 0.05 (it would have been 0.1 with the previous deck)"):
            self.assertIn(line, result.out.splitlines())
        self.assertRegex(result.err, r"warning: model.layers.1.linear.initial_std was 0(\.0)? and is 0.3: has no effect on a resumed run")
        self.assertNotIn("was", self.lockstep("train", "deck.yaml", "run.steps=8", "optimizer.learning_rate=0.05",
                                              "model.layers.1.linear.initial_std=0.3", "data.normalize={mean: [0.1], std: [0.3]}").out)

    def test_what_is_refused_has_changed_nothing(self):
        """A refused run changes nothing, and announces no change."""
        self.deck()
        self.lockstep("train", "deck.yaml")
        self.write("run/stop", "mine")
        result = self.refused(73, ["run/stop"], "train", "deck.yaml", "run.steps=8")
        self.assertNotIn("from here on", result.out)

    def test_a_run_that_has_ended_takes_up_nothing(self):
        self.deck()
        self.lockstep("train", "deck.yaml")
        before = snapshot(self.folder / "run")
        for change, words in (("optimizer.learning_rate=0.01", ["optimizer.learning_rate: was 0.1 in the run in run, which is complete", "and is 0.01 in this deck"]),
                              ("schedule.warmup=2 steps", ["schedule.warmup: was 0"]), ("model.layers.2=tanh", ["model.layers.2.tanh"])):
            self.refused(78, [*words, "the change would have no effect there"], "train", "deck.yaml", change)
        for change in ("run.log_every=3", "checkpoint.keep=7", "run.wall_time=3 h"):
            self.assertIn("nothing is left to do", self.lockstep("train", "deck.yaml", change).out)
        self.assertEqual(snapshot(self.folder / "run"), before)

    def test_the_rate_that_jumps(self):
        """More steps stretch the cosine, a part of which the run has done: the rate jumps, which is reported."""
        self.deck(schedule={"type": "cosine"})
        self.lockstep("train", "deck.yaml")
        result = self.lockstep("train", "deck.yaml", "run.steps=8")
        found = re.search(r"the learning rate of step 5 is (\S+) \(it would have been (\S+) with the previous deck\)", result.out)
        self.assertEqual((float(found[1]), float(found[2])), (0.05, 0))
        self.assertEqual(float([row for row in metrics(self.folder / "run") if row["step"] == "5"][0]["learning_rate"]), 0.05)


if __name__ == "__main__":
    program.main()
