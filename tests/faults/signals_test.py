# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ctrl-C, SIGTERM, SIGHUP and SIGUSR1 to any part of a job of scripts/lockstep (the script, all of its processes, mpirun, a rank): it stops
at a checkpoint, reports it, and ends with status 75. Argument: the number of rounds (9)."""
import os
import pathlib
import pty
import random
import select
import shutil
import signal
import subprocess
import sys
import termios
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "regression"))
import program
from processes import ranks_of
from program import LockstepTest, summary

LAUNCH = program.SOURCE / "scripts/toolchain/launch"
ROUNDS = int(sys.argv.pop(1)) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 9
CTRL_C = "Ctrl-C"  # SIGINT to all processes of the terminal's group
CHANCE = random.Random(3)


def children_of(process):
    try:
        return [int(number) for number in pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []


def name_of(process):
    try:
        return pathlib.Path(f"/proc/{process}/comm").read_text().strip()
    except OSError:
        return ""


def takes_signals(process):
    """True if the process handles SIGUSR1."""
    try:
        lines = pathlib.Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return False
    return any(line.startswith("SigCgt:") and int(line.split()[1], 16) >> 9 & 1 for line in lines)


class Signals(LockstepTest):
    def start(self, *overrides, ranks=2):
        child = subprocess.Popen([LAUNCH, str(ranks), "serial", program.PROGRAM, "train", "deck.yaml", *overrides], cwd=self.folder,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.addCleanup(lambda: child.poll() is None and os.killpg(child.pid, signal.SIGKILL))
        return child

    def wait_for(self, child, condition):
        limit = time.monotonic() + 60
        while not (found := condition()):
            self.assertIsNone(child.poll(), "it has ended")
            self.assertLess(time.monotonic(), limit)
            time.sleep(0.005)
        return found

    def stop(self, child, target, number):
        """Sends a signal once its target can handle it. (scripts/lockstep itself waits for its ranks.)"""
        mpirun = self.wait_for(child, lambda: next((each for each in children_of(child.pid) if name_of(each) in ("prterun", "mpirun", "orterun")), None))
        if target in ("mpirun", "rank"):
            ranks = self.wait_for(child, lambda: len(found := ranks_of(mpirun, program.PROGRAM)) == 2 and all(map(takes_signals, found)) and found)
        if number == CTRL_C:
            os.killpg(child.pid, signal.SIGINT)
        else:
            os.kill({"script": child.pid, "mpirun": mpirun, "rank": ranks[CHANCE.randrange(2)] if target == "rank" else 0}[target], number)

    def expect_stopped(self, child, what):
        out, err = child.communicate(timeout=60)
        self.assertEqual(child.returncode, 75, f"{what}: {out}{err}")
        report = summary(self.folder / "run")
        self.assertEqual(report["status"], "stopped", what)
        self.assertIn(f"stopped at step {report['steps']} of", out, what)
        self.lockstep("inspect", f"run/checkpoints/step-{report['steps']:08}.h5")
        self.assertFalse((self.folder / "run/lock").exists(), what)
        return report["steps"], out

    def test_wherever_they_arrive(self):
        self.deck(run={"steps": 10000000, "output_dir": "run", "log_every": 1000, "seed": 7})
        targets, numbers = ("script", "mpirun", "rank"), (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP)
        # The order covers each signal and each target soon, and all pairs in thirteen rounds.
        ways = [("script", CTRL_C), *((targets[(place + shift) % 3], number) for shift in range(3) for place, number in enumerate(numbers))]
        before = 0
        for number in range(ROUNDS):
            target, which = ways[number % len(ways)]
            what = f"round {number}: {which} at {target}"
            child = self.start()
            # The signal comes while the job starts, in its first steps, or later.
            time.sleep(CHANCE.choice((0, CHANCE.uniform(0, 0.5), CHANCE.uniform(0.5, 2))))
            self.stop(child, target, which)
            steps, out = self.expect_stopped(child, what)
            self.assertGreaterEqual(steps, before, what)  # the signal may have come in an evaluation, which is made up for
            self.assertEqual("resumes from run/checkpoints/" in out, before > 0, what)
            before = steps
        print(f"{ROUNDS} rounds: stopped each time, after {before} steps in all")

    def test_the_end_of_the_script(self):
        """If the script is killed, nobody passes signals on, but the ranks notice."""
        self.deck(run={"steps": 10000000, "output_dir": "run", "log_every": 1, "seed": 7})
        child = self.start()
        self.wait_for(child, lambda: (self.folder / "run/metrics.csv").exists())
        mpirun = next(each for each in children_of(child.pid) if name_of(each) in ("prterun", "mpirun", "orterun"))
        child.kill()
        child.wait()
        limit = time.monotonic() + 30
        while pathlib.Path(f"/proc/{mpirun}").exists() and time.monotonic() < limit:
            time.sleep(0.05)
        self.assertEqual(summary(self.folder / "run")["status"], "stopped")

    def test_on_a_terminal(self):
        """A terminal stops processes in the background when they read, and (stty tostop) when they write."""
        self.deck(run={"steps": 10000000, "output_dir": "run", "log_every": 1000, "seed": 7})
        child, terminal = pty.fork()
        if child == 0:
            modes = termios.tcgetattr(0)
            modes[3] |= termios.TOSTOP
            termios.tcsetattr(0, termios.TCSANOW, modes)
            os.chdir(self.folder)
            os.execv(LAUNCH, [str(LAUNCH), "2", "serial", str(program.PROGRAM), "train", "deck.yaml"])
        out, typed, limit = b"", False, time.monotonic() + 60
        while time.monotonic() < limit:
            if not typed and b"examples/s" in out:
                typed = os.write(terminal, b"words\n\x03")  # Ctrl-C
            if not select.select([terminal], [], [], 0.1)[0]:
                continue
            try:
                out += os.read(terminal, 65536)
            except OSError:  # no process has the terminal open any more
                break
        else:
            os.kill(child, signal.SIGKILL)  # the ranks notice that
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        self.assertEqual(status, 75, out.decode())
        self.assertIn("stopped at step", out.decode())
        self.assertEqual(summary(self.folder / "run")["status"], "stopped")

    def test_one_rank(self):
        self.deck(run={"steps": 10000000, "output_dir": "run", "log_every": 1, "seed": 7})
        for number in (signal.SIGTERM, signal.SIGHUP):
            child = self.start("run.overwrite=true", "run.resume=never", ranks=1)
            self.wait_for(child, lambda: takes_signals(child.pid) and name_of(child.pid) == "lockstep")
            child.send_signal(number)
            self.expect_stopped(child, number.name)

    def test_a_study(self):
        self.deck(run={"steps": 4, "log_every": 1000})
        self.write("study.yaml", "base: deck.yaml\noutput_dir: study\nseeds: 2\nbudget: {steps: 10000000}\nevaluations: 1\n"
                                 "goal: {metric: validation_loss, best: min}\n")
        for number in (CTRL_C, signal.SIGTERM):
            child = subprocess.Popen([LAUNCH, "2", "serial", program.PROGRAM, "study", "study.yaml"], cwd=self.folder, stdin=subprocess.DEVNULL,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
            self.addCleanup(lambda child=child: child.poll() is None and os.killpg(child.pid, signal.SIGKILL))
            self.wait_for(child, lambda: len(list(self.folder.glob("study/trials/*/metrics.csv"))) == 2)
            self.stop(child, "script", number)
            out, err = child.communicate(timeout=60)
            self.assertEqual(child.returncode, 75, f"{number}: {out}{err}")
            self.assertIn("the same command continues from there", out)

    def test_other_commands_just_end(self):
        child = subprocess.Popen([LAUNCH, "2", "serial", program.PROGRAM, "bench", "allreduce", "--rounds", "1000"], cwd=self.folder,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        self.addCleanup(lambda: child.poll() is None and os.killpg(child.pid, signal.SIGKILL))
        time.sleep(1)
        child.send_signal(signal.SIGTERM)
        self.assertNotEqual(child.wait(timeout=20), 0)


if __name__ == "__main__":
    if not shutil.which("setpriv") or "Open MPI" not in subprocess.run([program.MPIEXEC[0], "--version"], capture_output=True, text=True).stdout:
        print("skipped: scripts/lockstep passes signals on through Open MPI's mpirun, with setpriv")
        sys.exit(77)
    program.main()
