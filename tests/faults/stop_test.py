# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs that are asked to stop: all ranks do, at a checkpoint of the same step, with status 75, and resuming it gives the bits of a run
that was never stopped. Argument: about how many times one run is stopped again and again [5]."""
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "regression"))
import program
from processes import ranks_of
from program import LockstepTest, metrics, summary, without_times

HANGING_RANK = os.environ["LOCKSTEP_HANGING_RANK"]  # see hang_test.py
STOPS = int(sys.argv.pop(1)) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 5
RUN = {"steps": 400, "output_dir": "run", "log_every": 1, "seed": 7}
DECK = {
    "data": {"synthetic": {"kind": "glyphs", "train": 500, "validation": 90}},
    "model": {"layers": ["flatten", {"linear": {"features": 512}}, "relu", {"dropout": {"rate": 0.1}}, {"linear": {"features": 10}}]},
    "optimizer": {"type": "adamw", "learning_rate": 0.0005},
    "batch": {"global": 36},
}
ENDLESS = {**RUN, "steps": 10000000, "log_every": 1000}


class Stop(LockstepTest):
    def start(self, *overrides, ranks=1, environment=None, command=(program.PROGRAM, "train", "deck.yaml")):
        prefix = [] if ranks == 1 else [*program.MPIEXEC, str(ranks)]
        child = subprocess.Popen([*prefix, *command, *overrides], cwd=self.folder, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                                 env={**os.environ, **(environment or {})})
        self.addCleanup(lambda: child.poll() is None and os.killpg(child.pid, signal.SIGKILL))
        return child

    def wait_for_steps(self, child, steps, folder="run"):
        """Waits until the run's curve has so many rows."""
        limit = time.monotonic() + 60
        path = self.folder / folder / "metrics.csv"
        while time.monotonic() < limit and child.poll() is None:
            if path.exists() and len(path.read_text().splitlines()) > steps:
                return
            time.sleep(0.01)
        self.fail(f"no {steps} steps: {child.communicate()}")

    def finish(self, child, status=75):
        out, err = child.communicate(timeout=60)
        self.assertEqual(child.returncode, status, out + err)
        return out, err

    def process_of(self, child, rank, ranks):
        return child.pid if ranks == 1 else ranks_of(child.pid, program.PROGRAM)[rank]

    def expect_stopped(self, out, reason, folder="run"):
        steps = summary(self.folder / folder)["steps"]
        self.assertEqual(summary(self.folder / folder)["status"], "stopped")
        self.assertIn(f"stopped at step {steps} of ", out)
        self.assertIn(reason, out)
        newest = sorted((self.folder / folder / "checkpoints").glob("step-*.h5"))[-1]
        self.assertEqual(newest.name, f"step-{steps:08}.h5")
        self.assertEqual(os.readlink(newest.parent / "latest"), newest.name)
        return steps

    def test_one_rank_of_four(self):
        """On whatever number of ranks the run goes on, its curve is the same."""
        for deterministic, others in ((False, (1, 3)), (True, (1, 2))):
            parallel = {"parallel": {"deterministic": {"shards": 12}}} if deterministic else {}
            sections = {**DECK, "optimizer": {"type": "sgd", "learning_rate": 0.002, "momentum": 0.9}, **parallel}
            whole, stopped = f"whole{deterministic}", f"stopped{deterministic}"
            self.deck(run={**RUN, "steps": 100, "output_dir": stopped}, **sections)
            self.lockstep("train", "deck.yaml", f"run.output_dir={whole}", ranks=4)
            out, _ = self.finish(self.start(ranks=4, command=(HANGING_RANK, "2", "30", "forward", "signal", "deck.yaml")))
            self.assertEqual(self.expect_stopped(out, "SIGUSR1 (rank 2 on ", stopped), 30)
            for ranks in others:
                again = f"{stopped}-{ranks}"
                subprocess.run(["cp", "-r", self.folder / stopped, self.folder / again], check=True)
                self.lockstep("train", "deck.yaml", f"run.output_dir={again}", ranks=ranks)
                a, b = without_times(metrics(self.folder / whole)), without_times(metrics(self.folder / again))
                if deterministic:
                    self.assertEqual([(row["step"], row["loss"]) for row in a], [(row["step"], row["loss"]) for row in b])
                    continue
                for x, y in zip(a, b, strict=True):
                    self.assertEqual((x["step"], x["split"]), (y["step"], y["split"]))
                    self.assertAlmostEqual(float(x["loss"]) / float(y["loss"]), 1, delta=1e-5)

    def test_in_an_evaluation(self):
        """An evaluation is broken off and made up for: in the middle of a run, at its end, and after its last checkpoint; repeatedly, if need be."""
        data = {"synthetic": {"kind": "glyphs", "train": 72, "validation": 20000}}
        for run, stops in (({"steps": 4, "evaluate_every": 1}, ((2, 2), (2, 2), (4, 5))), ({"steps": 3, "log_every": 2, "evaluate_every": 0}, ((3, 2), (3, 2)))):
            with self.subTest(run):
                self.deck(run={**RUN, **run, "output_dir": "whole"}, **{**DECK, "data": data})
                self.lockstep("train", "deck.yaml", ranks=2)
                self.deck(run={**RUN, **run}, **{**DECK, "data": data})
                for step, rows in stops:
                    out, _ = self.finish(self.start(ranks=2, command=(HANGING_RANK, "1", str(step + 1), "evaluation", "signal", "deck.yaml")))
                    self.assertEqual(self.expect_stopped(out, "SIGUSR1 (rank 1 on "), step)
                    self.assertEqual(len(metrics(self.folder / "run")), rows, "the evaluation has gone on to its end")
                self.lockstep("train", "deck.yaml", ranks=2)
                self.assertEqual(without_times(metrics(self.folder / "whole")), without_times(metrics(self.folder / "run")))
                shutil.rmtree(self.folder / "run")
                shutil.rmtree(self.folder / "whole")

    def test_each_signal(self):
        self.deck(run=ENDLESS, **DECK)
        for number, ranks in ((signal.SIGTERM, 1), (signal.SIGINT, 2), (signal.SIGUSR1, 2), (signal.SIGUSR2, 1)):
            with self.subTest(signal=number.name, ranks=ranks):
                folder = f"{number.name}{ranks}"
                child = self.start(f"run.output_dir={folder}", "run.log_every=1", ranks=ranks)
                self.wait_for_steps(child, 5, folder)
                os.kill(self.process_of(child, ranks - 1, ranks), number)
                out, _ = self.finish(child)
                self.expect_stopped(out, f"{number.name} (rank ", folder)

    def test_stopped_again_and_again(self):
        """Stopped at any moment, also in evaluations: every step and every evaluation is in the curve exactly once."""
        self.deck(run={**RUN, "steps": 60 * STOPS}, **DECK)
        self.lockstep("train", "deck.yaml", "run.output_dir=whole", ranks=2)
        curve, chance, stops = self.folder / "run/metrics.csv", random.Random(5), 0
        for _ in range(12 * STOPS):
            child = self.start(ranks=2)
            rows = (len(curve.read_text().splitlines()) if curve.exists() else 0) + chance.randrange(60)
            while child.poll() is None and not (curve.exists() and len(curve.read_text().splitlines()) > rows):
                time.sleep(0.01)
            ranks = ranks_of(child.pid, program.PROGRAM)
            if child.poll() is None and ranks:
                try:
                    os.kill(chance.choice(ranks), signal.SIGTERM)
                except ProcessLookupError:
                    pass
            out, err = child.communicate(timeout=60)
            if child.returncode == 0:
                break
            # A signal that comes before the program handles it ends it, like any other program.
            self.assertIn(child.returncode, (75, 128 + signal.SIGTERM), out + err)
            stops += child.returncode == 75
        self.assertEqual(child.returncode, 0, out + err)
        self.assertGreater(stops, 1)
        self.assertEqual(without_times(metrics(self.folder / "whole")), without_times(metrics(self.folder / "run")))

    def test_a_file(self):
        self.deck(run=ENDLESS, **DECK)
        child = self.start("run.log_every=1", ranks=2)
        self.wait_for_steps(child, 5)
        (self.folder / "run/stop").touch()
        out, _ = self.finish(child)
        self.expect_stopped(out, "the file run/stop (rank 0 on ")
        self.assertFalse((self.folder / "run/stop").exists(), "the next run would stop as well")

    def test_time(self):
        self.deck(run=ENDLESS, **DECK)
        now = time.time()
        cases = ((["run.wall_time=5 s", "checkpoint={every_minutes: 0.005, keep: 0}"], {}), (["run.wall_time=2:00:00"], {"PBS_WALLTIME": "5", "SLURM_JOB_END_TIME": f"{now - 1000:.0f}"}),
                 ([], {"SLURM_JOB_END_TIME": f"{now + 6:.0f}"}), ([], {"LOCKSTEP_JOB_END_TIME": f"{now + 7:.0f}"}))
        # All run at the same time, since they mostly wait for their ends; the last one of the list ends last.
        started = [(time.time(), self.start(f"run.output_dir=run{i}", *overrides, ranks=2, environment=environment))
                   for i, (overrides, environment) in enumerate(cases)]
        for i, ((overrides, environment), (start, child)) in enumerate(zip(cases, started)):
            with self.subTest(overrides=overrides, environment=environment):
                out, _ = self.finish(child)
                self.expect_stopped(out, "its time is up (rank 0 on ", f"run{i}")
                end = float(environment.get("SLURM_JOB_END_TIME", environment.get("LOCKSTEP_JOB_END_TIME", 0)))
                self.assertLess(time.time(), end if end > start else start + 5.5)
                self.assertGreater(summary(self.folder / f"run{i}")["steps"], 5)
                if "checkpoint" in "".join(overrides):  # besides the last one, there are those by time
                    self.assertGreater(len(list((self.folder / f"run{i}/checkpoints").glob("step-*.h5"))), 1)

    def test_time_that_is_too_short_for_the_first_evaluation(self):
        """The duration of the first evaluation is not known yet, and is estimated from that of steps."""
        self.deck(run=ENDLESS, **{**DECK, "data": {"synthetic": {"kind": "glyphs", "train": 360, "validation": 36000}}, "model": {"preset": "fc"}})
        start = time.time()
        out, _ = self.finish(self.start("run.wall_time=3 s"))
        self.assertLess(time.time(), start + 3.5)
        self.expect_stopped(out, "its time is up (rank 0 on ")

    def test_a_second_signal_ends_at_once(self):
        # A rank sleeps in a step, for the end of which the first signal has to wait.
        self.deck(run={**RUN, "hang_timeout": 0}, **DECK, checkpoint={"every_steps": 5})
        child = self.start(ranks=2, command=(HANGING_RANK, "1", "13", "forward", "sleep", "deck.yaml"))
        while "misbehaves at" not in (line := child.stderr.readline()):
            self.assertTrue(line, "it has ended without")
        first = ranks_of(child.pid, HANGING_RANK)[0]
        os.kill(first, signal.SIGTERM)
        os.kill(first, signal.SIGTERM)  # counts as the same signal, passed on twice
        time.sleep(1.05)
        self.assertIsNone(child.poll(), "it has stopped already")
        os.kill(first, signal.SIGTERM)
        start = time.monotonic()
        # The status is not 75, which tells job scripts that there is a checkpoint.
        out, _ = self.finish(child, 128 + signal.SIGTERM)
        self.assertLess(time.monotonic() - start, 2)
        self.assertNotIn("stopped at step", out)
        said = "SIGTERM at rank 0: the run stops at a checkpoint after this step; a second signal ends it at once, without one"
        self.assertEqual(out.count(said), 1, "while the rank sleeps in its step")
        self.lockstep("inspect", self.folder / "run/checkpoints/step-00000010.h5")
        self.assertIn("resumes from", self.lockstep("train", "deck.yaml", "run.steps=15", ranks=2).out)

    def test_a_rank_of_a_study_that_has_no_trial(self):
        self.deck(run={"steps": 4, "log_every": 1000})
        self.write("study.yaml", "base: deck.yaml\nseeds: 1\nbudget: {steps: 900000000}\nevaluations: 1\n"
                                 "goal: {metric: validation_loss, best: min}\n")
        for ranks, per_trial, asked in ((2, 1, 1), (4, 2, 3)):
            with self.subTest(ranks=ranks):
                folder = f"study{ranks}"
                child = self.start(f"output_dir={folder}", f"ranks_per_trial={per_trial}", ranks=ranks, command=(program.PROGRAM, "study", "study.yaml"))
                self.wait_for_steps(child, 1, f"{folder}/trials/00-0000")
                os.kill(self.process_of(child, asked, ranks), signal.SIGUSR1)
                out, _ = self.finish(child)
                self.assertRegex(out, rf"(?m)^SIGUSR1 \(rank {asked} on \S+\): the study stops, each trial at a checkpoint$")
                self.assertRegex(out, rf"stopped: SIGUSR1 \(rank {asked} on \S+\); the same command continues from there")

    def test_durations(self):
        self.deck(run=ENDLESS, **DECK)
        for wrong in ("90", "1:30", "2:00:00:00", "one hour", "-3 h", "3 weeks", "1-2", "25:61:00"):
            self.refused(78, ["run.wall_time", wrong, "write"], "train", "deck.yaml", f"run.wall_time='{wrong}'")
        for right in ("2:00:00", "1-12:00:00", "90 min", "1.5h", "45 s", "2 d"):
            self.lockstep("check", "deck.yaml", f"run.wall_time='{right}'")


if __name__ == "__main__":
    program.main()
