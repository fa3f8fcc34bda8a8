# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""kill -9 of random ranks at random moments in runs with parallel.survive: the remaining ranks go on in the same processes, report the
lost ones, and end as so many ranks do that start from the same checkpoint. Arguments: the number of runs [6] and a seed [1]."""
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "regression"))
import program
from processes import ranks_of
from program import LockstepTest, metrics, summary, without_times

try:
    import h5py
except ImportError:
    print("skipped: no h5py here")
    sys.exit(77)

NUMBERS = [int(argument) for argument in sys.argv[1:] if argument.isdigit()]
RUNS = NUMBERS[0] if NUMBERS else 6
SEED = NUMBERS[1] if len(NUMBERS) > 1 else 1
LAUNCHER = [program.MPIEXEC[0], "--with-ft", "ulfm", *program.MPIEXEC[1:]]
STEPS, LIMIT = 120, 100  # LIMIT: seconds after which a run counts as hanging
LOST = re.compile(r"^warning: (rank .*) (?:is|are) lost(?: in step \d+)?; (\d+) ranks? (?:is|are) left", re.MULTILINE)
# A line may also begin with the checkpoint: "… is already at step N: nothing is left to do."
GOES_ON = re.compile(r"(?:resumes from |^)run/checkpoints/step-(\d+)\.h5", re.MULTILINE)

# The nodes, in which ranks share memory; and the ways of training.
NODES = {"one node": [], "nodes of 2": ["--emulate-network", "ranks_per_node=2"], "nodes of 1": ["--emulate-network", "ranks_per_node=1"]}
WAYS = {
    "synchronous": {},
    "divided": {"shard": "optimizer", "bucket_mb": 0.2},
    "local": {"local": {"every": 5, "outer": "nesterov", "learning_rate": 0.7, "momentum": 0.9}},
    "asynchronous": {"asynchronous": {"collect": 2, "bound": 5, "staleness": "divide", "schedule": {"free": True}}},
}


def deck(way):
    return {
        "run": {"steps": STEPS, "output_dir": "run", "log_every": 20, "seed": 7},
        "data": {"drop_last": True, "synthetic": {"kind": "glyphs", "train": 500, "validation": 90}},
        "model": {"layers": ["flatten", {"linear": {"features": 64}}, "relu", {"dropout": {"rate": 0.1}}, {"linear": {"features": 10}}]},
        "optimizer": {"type": "adamw", "learning_rate": 0.002},
        "batch": {"global": 32},
        "checkpoint": {"every_steps": 10, "keep": 0},
        "parallel": {"survive": True, **WAYS[way]},
    }


def files(folder):
    return sorted(path.name for path in (folder / "run/checkpoints").glob("step-*.h5"))


class Survive(LockstepTest):
    def setUp(self):
        super().setUp()
        found = subprocess.run([*LAUNCHER, "2", "true"], capture_output=True, text=True, timeout=60)
        self.deck("probe.yaml", **{**deck("synchronous"), "run": {"steps": 1, "output_dir": "probe"}})
        self.survives = found.returncode == 0 and self.train(self.folder, "probe.yaml", 2).returncode == 0

    def train(self, folder, name, ranks, *more, launcher=LAUNCHER):
        return subprocess.run([*launcher, str(ranks), program.PROGRAM, "train", name, *more], cwd=folder, capture_output=True, text=True,
                              timeout=LIMIT)

    def test_refused_where_ranks_cannot(self):
        self.deck("deck.yaml", **deck("synchronous"))
        self.refused(78, ["deck.yaml:", "parallel.survive", "leave survive out"], "train", "deck.yaml", ranks=2)
        self.assertFalse((self.folder / "run").exists())
        self.lockstep("train", "deck.yaml", "run.steps=2")  # a single rank has no other to outlive

    def test_killed_at_any_moment(self):
        if not self.survives:
            self.skipTest("no launcher and MPI library whose ranks outlive each other (Open MPI 5 with ULFM)")
        chance = random.Random(SEED)
        cases = [(way, nodes) for way in ("synchronous", "local", "asynchronous", "divided") for nodes in NODES]
        chance.shuffle(cases)
        kills = in_set_up = resumed = alone = longest = runs = 0
        while runs < RUNS:
            way, nodes = cases[runs % len(cases)]
            ranks, victims = chance.choice([(2, 1), (3, 1), (3, 1), (3, 2), (4, 2), (4, 1)])
            folder = self.folder / "killed"
            self.deck("killed/deck.yaml", **deck(way))
            start = time.monotonic()
            status, out, err, killed, there = self.train_and_kill(folder, ranks, victims, NODES[nodes], chance)
            seconds = time.monotonic() - start
            what = f"{way}, {nodes}, {killed} of {ranks} ranks\n{out}{err}"
            if killed == 0:  # the run had ended before
                shutil.rmtree(folder)
                continue
            runs += 1
            self.assertEqual(status, 0, what)
            self.assertNotRegex(err, "fault of Lockstep|terminate called|Segmentation|corrupt|has died|damaged", what)
            kills, longest, alone = kills + killed, max(longest, seconds), alone + (ranks - killed == 1)
            left = self.expect_named(folder, ranks, killed, err, what)
            found = GOES_ON.findall(out)
            if there and LOST.search(err):
                self.assertTrue(found and f"step-{found[0]}.h5" >= there[-1], f"after {there[-1]}: {what}")
            resumed, in_set_up = resumed + bool(found), in_set_up + (not found)
            if way != "asynchronous":
                self.expect_as_started_anew(folder, left, NODES[nodes], int(found[-1]) if found else None, what)
            shutil.rmtree(folder)
        print(f"{kills} kills in {runs} runs: {resumed} went on from a checkpoint, {in_set_up} from the beginning, {alone} on one rank; "
              f"the longest run took {longest:.1f} s; all ended, and those of steps in a known order as a start on so many ranks ends")

    def expect_named(self, folder, ranks, killed, err, what):
        """Expects the lost ranks to be named; returns how many ranks are left. A rank that is killed as the run ends need not be missed."""
        lines = LOST.findall(err)
        named = [int(number) for who, _ in lines for number in re.findall(r"rank (\d+) on", who)]
        result = summary(folder / "run")
        self.assertEqual(result["steps"], STEPS, what)
        self.assertEqual(result["status"], "done", what)
        lost = result.get("lost_ranks", [])  # a rank may have been lost after the summary was written
        self.assertEqual(named[:len(lost)], lost, what)
        self.assertGreaterEqual(len(lost), len(named) - 1, what)
        self.assertEqual(result["ranks"], ranks - len(lost), what)
        self.assertEqual(len(set(named)), len(named), what)
        self.assertIn(len(named), (killed, killed - 1), what)
        if lines:
            self.assertEqual(int(lines[-1][1]), ranks - len(named), what)
        return ranks - len(named)

    def expect_as_started_anew(self, folder, ranks, network, step, what):
        anew = self.folder / "anew"
        anew.mkdir()
        shutil.copy(folder / "deck.yaml", anew)
        if step is not None:
            (anew / "run/checkpoints").mkdir(parents=True)
            for name in files(folder):
                if name <= f"step-{step:08}.h5":
                    shutil.copy(folder / "run/checkpoints" / name, anew / "run/checkpoints")
        done = self.train(anew, "deck.yaml", ranks, *network)
        self.assertEqual(done.returncode, 0, done)
        states = []
        for each in (folder, anew):
            with h5py.File(each / f"run/checkpoints/step-{STEPS:08}.h5") as file:
                state = {}
                file.visititems(lambda name, item: state.update({name: item[()].tobytes()})
                                if isinstance(item, h5py.Dataset) and item.dtype.kind == "f" else None)
                states.append(state)
        self.assertGreaterEqual(len(states[0]), 12)  # parameters, and two optimizer states for each
        self.assertEqual(states[0].keys(), states[1].keys())
        for name in states[0]:
            self.assertEqual(states[0][name], states[1][name], f"{name}\n{what}")
        if step != STEPS:  # else nothing was left to do, and the new start has no earlier rows
            self.assertEqual(without_times(metrics(folder / "run"))[-2:], without_times(metrics(anew / "run"))[-2:], what)
        shutil.rmtree(anew)

    def train_and_kill(self, folder, ranks, victims, network, chance):
        """Trains, and kills `victims` of the ranks: the first in set-up, or a moment after a new checkpoint; a second one soon after that, or
        when the others have gone on. Also returns the names of the checkpoints at the first kill."""
        child = subprocess.Popen([*LAUNCHER, str(ranks), program.PROGRAM, "train", "deck.yaml", *network], cwd=folder, text=True,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        killed, there = 0, []
        try:
            after = chance.choice([-1, 0, 1, 2, 4])
            until = time.monotonic() + LIMIT
            while child.poll() is None and time.monotonic() < until:
                if (folder / "run/lock").exists() and len(files(folder)) > after:
                    break
                time.sleep(0.002)
            for _ in range(victims):
                time.sleep(chance.uniform(0, 0.15))
                alive = ranks_of(child.pid, program.PROGRAM)
                if len(alive) != ranks - killed or (folder / "run/summary.json").exists():
                    break  # the run is ending
                there = files(folder) if killed == 0 else there
                os.kill(chance.choice(alive), signal.SIGKILL)
                killed += 1
            out, err = child.communicate(timeout=LIMIT)
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.communicate()
        return child.returncode, out, err.replace("\0", ""), killed, there


if __name__ == "__main__":
    sys.argv = sys.argv[:1]
    program.main()
