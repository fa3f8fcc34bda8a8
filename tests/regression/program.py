# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the lockstep program as users do, on any number of ranks, with a time limit."""
import csv
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = os.environ["LOCKSTEP_PROGRAM"]
MPIEXEC = os.environ["LOCKSTEP_MPIEXEC"].split("|")
SOURCE = pathlib.Path(os.environ["LOCKSTEP_SOURCE_DIR"])
# Columns of metrics.csv that differ from run to run.
TIMES = ("examples_per_s", "step_ms", "reduce_exposed_ms")


class Result:
    def __init__(self, status, out, err, seconds):
        # Open MPI ends its own messages with a NUL, which may precede a line of ours.
        self.status, self.out, self.err, self.seconds = status, out, err.replace("\0", ""), seconds

    def errors(self):
        return [line for line in self.err.splitlines() if line.startswith("error:")]

    def __str__(self):
        return f"status {self.status} after {self.seconds:.1f} s\n--- out\n{self.out}--- err\n{self.err}"


def run(*arguments, ranks=1, cwd=None, limit=180):
    """Runs the program to its end. `ranks`: a number; 1 or None: without mpirun. Fails if it takes longer than `limit` seconds."""
    prefix = [] if ranks is None or ranks == 1 else [*MPIEXEC, str(ranks)]
    start = time.monotonic()
    child = subprocess.Popen([*prefix, PROGRAM, *map(str, arguments)], cwd=cwd, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        out, err = child.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        child.terminate()  # mpirun then ends its ranks
        try:
            out, err = child.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            out, err = child.communicate()
        raise AssertionError(f"still running after {limit} s: {arguments} on {ranks} ranks\n{out}{err}") from None
    return Result(child.returncode, out, err, time.monotonic() - start)


class LockstepTest(unittest.TestCase):
    """A test in a folder of its own, which is removed after it."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def once(self, make, folder=None, name="made"):
        """Calls make(), which fills `folder` (the test's); the other tests of the class get a copy of the files."""
        folder = folder or self.folder
        cls = type(self)
        if "made_once" not in vars(cls):
            cls.made_once = tempfile.TemporaryDirectory(prefix="lockstep-test-")
            cls.addClassCleanup(cls.made_once.cleanup)
        made = pathlib.Path(cls.made_once.name) / name
        if made.exists():
            shutil.copytree(made, folder, symlinks=True, dirs_exist_ok=True)
        else:
            make()
            shutil.copytree(folder, made, symlinks=True)

    def lockstep(self, *arguments, ranks=1, cwd=None, limit=180, status=0):
        result = run(*arguments, ranks=ranks, cwd=cwd or self.folder, limit=limit)
        self.assertEqual(result.status, status, f"{arguments} on {ranks} ranks: {result}")
        return result

    def refused(self, status, words, *arguments, ranks=1, cwd=None):
        """Expects the program to end with this status, and with one error line that contains these words."""
        result = self.lockstep(*arguments, ranks=ranks, cwd=cwd, status=status)
        self.expect_refusal(result, status, words)
        return result

    def expect_refusal(self, result, status, words):
        self.assertEqual(result.status, status, result)
        self.assertEqual(len(result.errors()), 1, result)
        for word in words:
            self.assertIn(word, result.errors()[0])
        self.assertNotIn("fault of Lockstep", result.err)
        self.assertNotRegex(result.err, "terminate called|Segmentation|Assertion")

    def on_each_rank(self, script, ranks, limit=180):
        """Runs a shell script on every rank; $rank says which one it is, and $0 is the program."""
        command = [*MPIEXEC, str(ranks), "bash", "-c", f"rank=${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}; {script}", PROGRAM]
        start = time.monotonic()
        done = subprocess.run(["timeout", "--kill-after=10", str(limit), *command], cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        return Result(done.returncode, done.stdout, done.stderr, time.monotonic() - start)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def deck(self, name="deck.yaml", **sections):
        """A small deck; keyword arguments replace its sections (None: leaves one out)."""
        deck = {
            "run": {"steps": 4, "output_dir": "run", "log_every": 1, "seed": 7},
            "data": {"synthetic": {"kind": "glyphs", "train": 64, "validation": 20}},
            "model": {"layers": ["flatten", {"linear": {"features": 16}}, "relu", {"linear": {"features": 10}}]},
            "optimizer": {"type": "sgd", "learning_rate": 0.1, "momentum": 0.9},
            "batch": {"global": 16},
        }
        deck.update(sections)
        text = "".join(f"{key}: {json.dumps(value)}\n" for key, value in deck.items() if value is not None)
        return self.write(name, text)


def metrics(folder):
    with open(pathlib.Path(folder) / "metrics.csv", newline="") as file:
        return list(csv.DictReader(file))


def without_times(rows):
    return [{key: value for key, value in row.items() if key not in TIMES} for row in rows]


def summary(folder):
    return json.loads((pathlib.Path(folder) / "summary.json").read_text())


def snapshot(folder):
    """The content and the time of change of every file below the folder."""
    return {str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes())
            for path in sorted(pathlib.Path(folder).rglob("*")) if path.is_file()}


def data_dir():
    named = os.environ.get("LOCKSTEP_DATA_DIR")
    path = pathlib.Path(named) if named else SOURCE.parent / "shared" / "data"
    return path if path.is_dir() else None


def runs_on_device():
    """True if this build's kernels run on a device, or the build treats its memory as a device's (fake_device)."""
    cache = (pathlib.Path(os.environ["LOCKSTEP_BUILD_DIR"]) / "CMakeCache.txt").read_text()
    return re.search(r"^LOCKSTEP_FAKE_DEVICE:BOOL=ON$|^LOCKSTEP_BACKEND:\w+=(?!SERIAL|OPENMP|THREADS|$)", cache, re.MULTILINE) is not None


def main():
    """Runs the tests. Exit status 77, ctest's "skipped", if all were skipped."""
    # Killed launchers and ranks leave files of Open MPI behind, which disturb a later launcher with the same process
    # number: they are put into folders that are removed after the tests.
    shm = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with (tempfile.TemporaryDirectory(prefix="lockstep-mpi-") as launchers,
          tempfile.TemporaryDirectory(prefix="lockstep-mpi-", dir=shm) as memory):
        os.environ.update(TMPDIR=launchers, OMPI_MCA_btl_sm_backing_directory=memory)
        program = unittest.main(verbosity=2, exit=False)
    result = program.result
    if result.wasSuccessful() and result.testsRun and len(result.skipped) == result.testsRun:
        sys.exit(77)
    sys.exit(0 if result.wasSuccessful() else 1)
