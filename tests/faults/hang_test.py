# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ranks that sleep, spin, exit or die in the middle of a step, or of a study: one report names them, and all ranks end with status 76.
Ranks that wait for a file go on.
--full: more ways and phases."""
import concurrent.futures
import fcntl
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "regression"))
import nodes
import program
from processes import ranks_of
from program import LockstepTest

FULL = "--full" in sys.argv
TIMEOUT, LINGER = 3, 2
# A program that trains, but one rank of which misbehaves: hanging_rank RANK STEP PHASE WAY DECK
HANGING_RANK = os.environ["LOCKSTEP_HANGING_RANK"]


class HangTest(LockstepTest):
    launcher = program.MPIEXEC

    def setUp(self):
        super().setUp()
        self.deck(run={"steps": 1000000, "output_dir": "run", "log_every": 1000, "seed": 7, "hang_timeout": TIMEOUT}, checkpoint={"every_steps": 50})

    def hang(self, *arguments, ranks=4, overwrite=False, linger=0):
        """Runs hanging_rank; returns its result, each rank's own status, the errors, and the seconds from the fault to the last end.
        The launcher hears of a rank's end `linger` seconds later, or it would end the other ranks before they can report. If it ends them
        because MPI has met a closed connection, it waits for each shell, as it would for the program, before it kills."""
        if overwrite:
            shutil.rmtree(self.folder / "run", ignore_errors=True)
        for path in self.folder.glob("status.*"):
            path.unlink()
        script = f'trap : TERM; "$0" "$@"; status=$?; echo $status > status.$OMPI_COMM_WORLD_RANK; sleep {linger}; exit $status'
        child = subprocess.Popen([*self.launcher, str(ranks), "bash", "-c", script, HANGING_RANK, *map(str, arguments), "deck.yaml"],
                                 cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 start_new_session=True)
        try:
            out, err = child.communicate(timeout=60)
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
        at_fault = re.search(r"misbehaves at ([\d.]+)", err)
        self.assertTrue(at_fault, err)
        # A shell that was ended while it wrote leaves an empty file.
        statuses = {int(path.suffix[1:]): int(text) for path in self.folder.glob("status.*") if (text := path.read_text())}
        ended = max(path.stat().st_mtime for path in self.folder.glob("status.*")) if len(statuses) == ranks else time.time()
        seconds = ended - float(at_fault[1])
        result = program.Result(child.returncode, out, err, seconds)
        return result, statuses, result.errors(), seconds


class Hang(HangTest):
    def test_a_rank_that_sleeps_or_spins(self):
        for way, phase, word in (("spin", "optimizer", "spin_for_ever"),
                                 *((("spin", "forward", "spin_for_ever"), ("sleep", "optimizer", "sleep_for_ever"), ("spin", "data", "spin_for_ever")) if FULL else ())):
            with self.subTest(way=way, phase=phase):
                result, statuses, errors, seconds = self.hang(2, 62, phase, way, linger=LINGER)
                self.assertEqual(result.status, 76, result)
                self.assertEqual(len(errors), 1, result)
                self.assertRegex(errors[0], rf"rank 2 on \S+ \(process \d+\) has been in '{phase}' of step 62 for \d+ s, longer than run.hang_timeout")
                self.assertRegex(errors[0], rf"meanwhile ranks 0, 1, 3 in 'reduce' of step {63 if phase == 'optimizer' else 62}, bucket 0 of the gradients")
                self.assertIn("stack of rank 2:", result.err)
                self.assertIn(word, result.err.split("stack of rank 2:")[1])
                self.assertIn("TrainingRun::step", result.err.split("stack of rank 2:")[1])
                self.assertLess(seconds, TIMEOUT + 5, result)
                self.assertEqual(statuses, dict.fromkeys(range(4), 76), result)

    def test_a_rank_that_is_stopped(self):
        result, statuses, errors, seconds = self.hang(1, 62, "backward", "stop")
        self.assertEqual(result.status, 76, result)
        self.assertEqual(len(errors), 1, result)
        self.assertRegex(errors[0], r"rank 1 on \S+ \(process \d+\) has been in 'backward' of step 62 .*stopped by SIGSTOP")
        self.assertLess(seconds, TIMEOUT + 5, result)

    def test_a_free_rank_that_is_stopped_after_a_checkpoint(self):
        """The limit is ten times as long at a checkpoint, but not until the next synchronization, which may be far away."""
        self.deck(run={"steps": 1000000, "output_dir": "run", "log_every": 1000, "seed": 7, "hang_timeout": TIMEOUT}, checkpoint={"every_steps": 50},
                  parallel={"sync_batch_norm": False, "asynchronous": {"schedule": {"free": True}}})
        result, statuses, errors, seconds = self.hang(1, 51, "forward:5", "stop", ranks=2)
        self.assertEqual(result.status, 76, result)
        self.assertRegex(errors[0], r"rank 1 on .* \(stopped by SIGSTOP")
        self.assertLess(seconds, 3 * TIMEOUT, result)

    def test_a_rank_that_leaves_or_dies(self):
        for way, status in (("exit", 0), ("kill", 128 + signal.SIGKILL)):
            with self.subTest(way=way):
                result, statuses, errors, seconds = self.hang(3, 62, "forward", way, linger=LINGER, overwrite=True)
                self.assertEqual(statuses, {0: 76, 1: 76, 2: 76, 3: status}, result)
                self.assertEqual(len(errors), 1, result)
                self.assertRegex(errors[0], r"rank 3 on \S+ \(process \d+\) has died in 'forward' of step 62; meanwhile rank")
                self.assertLess(seconds, 10, result)

    def test_a_job_that_is_suspended_goes_on(self):
        """All ranks are suspended for longer than the limit, as by a batch system, and then go on."""
        result, statuses, errors, seconds = self.hang(0, 62, "forward", "suspend")
        self.assertEqual(errors, [], result)
        self.assertEqual(result.status, 75, result)
        self.assertGreater(seconds, 5, "nobody has suspended it")

    def test_a_signal_in_the_middle_of_a_step(self):
        """One rank of four gets it: all stop after that step, or after the next one if the vote of this step is over already."""
        for phase, last in (("forward", 62), *((("backward", 62),) if FULL else ()), ("optimizer", 63)):
            with self.subTest(phase=phase):
                result, statuses, errors, seconds = self.hang(2, 62, phase, "signal", overwrite=True)
                self.assertEqual((result.status, errors), (75, []), result)
                self.assertEqual(program.summary(self.folder / "run")["steps"], last)
                self.assertRegex(result.out, rf"stopped at step {last} of 1000000: SIGUSR1 \(rank 2 on ")

    @unittest.skipUnless(FULL, "only --full waits so long; stop_test has a short wait")
    def test_no_limit(self):
        self.deck(run={"steps": 1000000, "output_dir": "run", "log_every": 1000, "seed": 7, "hang_timeout": 0})
        result, statuses, errors, seconds = self.hang(0, 62, "forward", "nap")
        self.assertEqual(errors, [], result)
        self.assertEqual(result.status, 75, result)


class Files(LockstepTest):
    def test_a_file_or_a_reader_that_stands_still(self):
        """For longer than a step may: a server of the file system is replaced, or the terminal is paused."""
        self.deck(run={"steps": 400, "log_every": 1, "seed": 7})

        def start(name, *overrides, stalls=""):
            environment = {"LD_PRELOAD": str(disk), "LOCKSTEP_DISK": stalls + " stall"} if stalls else {}
            child = subprocess.Popen([program.PROGRAM, "train", "deck.yaml", f"run.output_dir={name}", *overrides], cwd=self.folder,
                                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                     env={**os.environ, **environment})
            self.addCleanup(lambda: child.poll() is None and child.kill())
            return child

        disk = shutil.copy(os.environ["LOCKSTEP_FAILING_DISK"], self.folder)
        reader = start("reader")
        fcntl.fcntl(reader.stdout, fcntl.F_SETPIPE_SZ, 4096)
        started = time.monotonic()
        runs = [start("row", stalls="metrics.csv write 100"),
                # An evaluation waits for the checkpoint before it; and so does the end of a run whose numbers are lost.
                start("best", "run.evaluate_every=20 steps", "checkpoint.keep_best={count: 1}", stalls="step-00000020 fsync 1"),
                start("end", stalls="metrics.csv fsync 2")]
        lost = start("lost", "checkpoint.every_steps=20", "schedule={type: multistep, milestones: [30 steps], factor: 1e42}",
                     stalls="step-00000020 fsync 1")

        def end(child):
            out, err = child.communicate(timeout=80)
            return child.returncode, out, err, time.monotonic() - started

        with concurrent.futures.ThreadPoolExecutor() as pool:
            *done, lost = pool.map(end, [*runs, lost])
        done.append(end(reader))  # whose output nobody has read so far
        for status, out, err, seconds in done:
            self.assertEqual((status, err), (0, ""))
            self.assertIn("done: 400 steps", out)
            self.assertGreater(seconds, 30)
        status, _, err, seconds = lost
        self.assertEqual(status, 70, err)
        self.assertRegex(err, r"^error: step 31: .* not finite")
        self.assertGreater(seconds, 30)


class StudyTest(LockstepTest):
    launcher = program.MPIEXEC

    def stop_rank(self, stopped, trials, ranks=2):
        """Stops a rank of a study, each of whose slots has one, once all trials are under way; returns its result."""
        self.deck(run={"steps": 4, "log_every": 1000, "hang_timeout": TIMEOUT})
        self.write("study.yaml", f"base: deck.yaml\noutput_dir: study\nseeds: {trials}\nbudget: {{steps: 900000000}}\nevaluations: 1\n"
                                 "goal: {metric: validation_loss, best: min}\n")
        child = subprocess.Popen([*self.launcher, str(ranks), program.PROGRAM, "study", "study.yaml"], cwd=self.folder, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.addCleanup(lambda: child.poll() is None and os.killpg(child.pid, signal.SIGKILL))
        limit = time.monotonic() + 60
        while sum(path.read_text().count("\n") > 1 for path in self.folder.glob("study/trials/*/metrics.csv")) < trials:
            self.assertIsNone(child.poll())
            self.assertLess(time.monotonic(), limit)
            time.sleep(0.05)
        process = ranks_of(child.pid, program.PROGRAM)[stopped]
        self.addCleanup(lambda: pathlib.Path(f"/proc/{process}").exists() and os.kill(process, signal.SIGKILL))
        os.kill(process, signal.SIGSTOP)
        start = time.monotonic()
        out, err = child.communicate(timeout=60)
        return program.Result(child.returncode, out, err, time.monotonic() - start)


class Studies(StudyTest):
    def test_a_slot_that_is_stopped(self):
        """No rank of its own can say so. It waits for a trial or, with --full, has one: two cores that never wait have starved all else of
        a small machine for a minute."""
        for trials, doing in ((1, "silent between two runs"), *(((2, r"in '[^']+' of step \d+"),) if FULL else ())):
            with self.subTest(trials=trials):
                shutil.rmtree(self.folder / "study", ignore_errors=True)
                result = self.stop_rank(1, trials)
                self.assertEqual(result.status, 76, result)
                self.assertEqual(len(result.errors()), 1, result)
                self.assertRegex(result.errors()[0], rf"rank 1 on \S+ \(process \d+\) has been {doing}.* \(stopped by SIGSTOP or a debugger\)")
                self.assertLess(result.seconds, TIMEOUT + 5, result)

    def test_a_slot_without_a_trial_is_no_hang(self):
        """It waits for a trial of another slot, for longer than any limit."""
        self.deck(run={"steps": 4, "log_every": 1000, "hang_timeout": 1})
        self.write("study.yaml", "base: deck.yaml\noutput_dir: study\nseeds: 1\nbudget: {steps: 900000000}\nevaluations: 1\nwall_time: 16 s\n"
                                 "goal: {metric: validation_loss, best: min}\n")
        self.lockstep("study", "study.yaml", ranks=2, status=75)


class StudiesOnNodes(StudyTest):
    @unittest.skipUnless(FULL, "only --full has four ranks that never wait")
    def test_a_slot_that_is_stopped(self):
        """The other slot of its node says so, and those of the other node end, too."""
        self.launcher = nodes.launcher(self, "nodea:2,nodeb:2")
        result = self.stop_rank(3, 4, ranks=4)
        self.assertNotIn(result.status, (0, 75), result)
        named = [line for line in result.err.splitlines() if "(stopped by SIGSTOP" in line]
        self.assertEqual(len(named), 1, result)
        self.assertLess(result.seconds, TIMEOUT + 8, result)


class Nodes(HangTest):
    """Ranks of different nodes, which cannot see each other's processes: those of the other node end, too."""

    def setUp(self):
        super().setUp()
        self.launcher = nodes.launcher(self, "nodea:2,nodeb:2")

    def test_a_rank_of_one_of_them(self):
        for way, words, limit in (("kill", "has died in", 10), ("stop", "(stopped by SIGSTOP", TIMEOUT + 5),
                                  *((("spin", "has been in", TIMEOUT + 5),) if FULL else ())):
            with self.subTest(way=way):
                result, statuses, errors, seconds = self.hang(3, 62, "forward", way, linger=LINGER if way == "kill" else 0)
                self.assertNotIn(result.status, (0, 75), result)
                named = [line for line in result.err.splitlines() if "rank 3 on nodeb" in line]
                self.assertEqual(len(named), 1, result)
                self.assertIn(words, named[0])
                self.assertLess(seconds, limit, result)

    def test_a_node_that_stands_still(self):
        """No other rank can see the only rank of that node: the other nodes tell each other that they wait, hence which rank is silent."""
        self.launcher = nodes.launcher(self, "nodea:2,nodeb:1,nodec:1")
        result, statuses, errors, seconds = self.hang(3, 62, "forward", "stop")
        self.assertNotIn(result.status, (0, 75), result)
        self.assertEqual(len(errors), 1, result)
        self.assertRegex(errors[0], r"rank [01] on nodea \(process \d+\) has waited for \d+ s in 'reduce' of step 62, .*: no sign of life from rank 3 on nodec \(stopped")
        self.assertLess(seconds, 2 * TIMEOUT + 2 + 5, result)
        # The files that they leave for each other are removed when the run goes on.
        self.assertEqual(sorted(path.name for path in (self.folder / "run/waiting").iterdir()), ["0", "2"])
        self.lockstep("train", "deck.yaml", "run.steps=63")
        self.assertFalse((self.folder / "run/waiting").exists())


if __name__ == "__main__":
    sys.argv = [argument for argument in sys.argv if argument != "--full"]
    program.main()
