# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A deck in a situation (a number of ranks on emulated nodes), and its runs, each in a folder of its own."""
import collections
import csv
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

import h5py

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "tests" / folder) for folder in ("regression", "faults")]
import decks
import files
import program
from decks import changed
from processes import ranks_of
from values import chance_of

LIMIT = 120  # seconds that a run may take
CRASHES = re.compile(r"fault of Lockstep|terminate called|Segmentation|Assertion|signal 11|signal 6")


class Failure(Exception):
    """What an oracle has found. `kind` is the same for a deck and for a smaller one that fails in the same way."""

    def __init__(self, kind, text):
        super().__init__(text)
        self.kind = kind


class Run:
    """What a run has left."""

    def __init__(self, command, folder, status, out, err):
        self.command, self.folder, self.status, self.out, self.err = command, folder, status, out, err.replace("\0", "")
        self.output = folder / "run"

    def errors(self):
        return [line for line in self.err.splitlines() if line.startswith("error:")]

    def rows(self):
        with open(self.output / "metrics.csv", newline="") as file:
            return list(csv.DictReader(file))

    def summary(self):
        return json.loads((self.output / "summary.json").read_text())

    def checkpoints(self):
        return sorted((self.output / "checkpoints").glob("step-*.h5"))

    def __str__(self):
        return f"{self.command}\nstatus {self.status}\n{self.err[-2000:]}"


def numbers(checkpoint):
    """Everything of a checkpoint that a run goes on from: {path: array}, without the deck and its provenance."""
    found = {}
    with h5py.File(checkpoint) as file:
        file.visititems(lambda name, item: found.update({name: item[()]}) if isinstance(item, h5py.Dataset)
                        and name not in ("deck", "provenance", "state", "manifest") else None)
    return found


class Case:
    """`file` is the content of data.h5, if the deck reads one; `per_node` the number of ranks of an emulated node, 0 for one node."""

    def __init__(self, seed, deck, file, ranks, per_node, folder):
        self.seed, self.deck, self.file, self.ranks, self.per_node, self.folder = seed, deck, file, ranks, per_node, pathlib.Path(folder)
        self.counts = collections.Counter()
        self.drafts = []     # decks that `check` has refused while this one was drawn
        self.killed = []     # process ids
        self._trained = {}

    def chance(self, name):
        """A source of chance for an oracle: the same for the case and for smaller ones with its seed."""
        return chance_of(self.seed, name)

    def get(self, name, default=None):
        return decks.get(self.deck, name, default)

    def place(self, deck):
        """A new folder with a deck, and the file that it reads."""
        folder = self.folder / f"run{len(list(self.folder.iterdir()))}"
        folder.mkdir()
        (folder / "deck.yaml").write_text(as_text(deck))
        if self.file:
            files.write(folder / "data.h5", self.file)
        return folder

    def train(self, changes=None, ranks=None, per_node=None, deck=None):
        """Trains the deck with some changes, from the start to the end. The same run is not done twice."""
        deck, ranks = changed(self.deck if deck is None else deck, changes or {}), ranks or self.ranks
        per_node = self.per_node if per_node is None else per_node
        key = (json.dumps(deck), ranks, per_node)
        if key not in self._trained:
            self._trained[key] = self.run(self.place(deck), "train", "deck.yaml", ranks=ranks, per_node=per_node)
        return self._trained[key]

    def again(self, run, changes):
        """Trains once more what has made this run, with some changes; None if it was no run from the start to the end."""
        for (deck, ranks, per_node), trained in self._trained.items():
            if trained is run:
                return self.train(changes, ranks, per_node, json.loads(deck))
        return None

    def run(self, folder, *arguments, ranks=1, per_node=0, around=(), meanwhile=None):
        """Runs the program. `around`: a command before it; `meanwhile`: called with the launcher while it runs, and may kill it."""
        nodes = ["--emulate-network", f"ranks_per_node={per_node}"] if per_node and arguments[0] == "train" else []
        launcher = [] if ranks == 1 else [*program.MPIEXEC, str(ranks)]
        command = [*launcher, *around, program.PROGRAM, *map(str, arguments), *nodes]
        shown = " ".join([*(["mpirun", "-n", str(ranks)] if ranks > 1 else []), "lockstep", *map(str, arguments), *nodes])
        self.counts["runs"] += 1
        # Open MPI names its files by process numbers, which come again: a launcher must not find those of a killed one.
        with (open(folder / "out", "w+") as out, open(folder / "err", "w+", errors="replace") as err,
              tempfile.TemporaryDirectory(dir=os.environ["OMPI_MCA_btl_sm_backing_directory"], ignore_cleanup_errors=True) as own):
            child = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True,
                                     env={**os.environ, "TMPDIR": own, "OMPI_MCA_btl_sm_backing_directory": own})
            try:
                if meanwhile:
                    meanwhile(child)
                status = child.wait(LIMIT)
            except subprocess.TimeoutExpired:
                status = None
            finally:
                self.end(child)
            texts = [(file.seek(0), file.read())[1] for file in (out, err)]
        run = Run(shown, folder, status, *texts)
        if status is None:
            raise Failure("hang", f"still running after {LIMIT} s: {run}")
        if CRASHES.search(run.err) or not meanwhile and (status < 0 or status > 128):
            raise Failure("crash", str(run))
        return run

    @staticmethod
    def end(child):
        """Ends a launcher and its ranks, if they still run."""
        if child.poll() is None:
            child.terminate()  # mpirun then ends its ranks
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                for rank in ranks_of(child.pid, program.PROGRAM):
                    os.kill(rank, signal.SIGKILL)
                child.kill()
                child.wait()

    def __str__(self):
        """The case as text that can be pasted into a file, and given to `run --deck`."""
        nodes = f" --per-node {self.per_node}" if self.per_node else ""
        content = f"# data.h5: {json.dumps(self.file)}\n" if self.file else ""
        return f"# --ranks {self.ranks}{nodes} --seed {self.seed}\n{content}{as_text(self.deck)}"


def as_text(deck):
    """A deck as YAML, a line for each section."""
    return "".join(f"{key}: {json.dumps(value)}\n" for key, value in deck.items())
