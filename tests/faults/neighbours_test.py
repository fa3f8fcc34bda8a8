# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Copies in the memory of nodes: a killed run goes on from them, even if the memory of a node is lost."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "regression"))
import program
from processes import ranks_of
from program import LockstepTest, metrics, without_times

try:
    import h5py
except ImportError:
    print("skipped: no h5py here")
    sys.exit(77)

MEMORY = pathlib.Path("/dev/shm")
NODES = ("--emulate-network", "ranks_per_node=2")
STEPS, EVERY = 70, 3
DECK = {
    "run": {"steps": STEPS, "output_dir": "run", "log_every": 7, "seed": 7},
    "data": {"synthetic": {"kind": "glyphs", "train": 500, "validation": 90}},
    "model": {"layers": ["flatten", {"linear": {"features": 300}}, "relu", {"dropout": {"rate": 0.1}}, {"linear": {"features": 10}}]},
    "optimizer": {"type": "adamw", "learning_rate": 0.002, "ema_decay": 0.9},
    "batch": {"global": 33},
    "parallel": {"shard": "parameters", "bucket_mb": 0.2, "unit_mb": 0.2, "deterministic": {"shards": 12}, "sync_batch_norm": False},
    "checkpoint": {"every_steps": 50, "neighbours_every": EVERY},
}


def arrays(checkpoint):
    found = {}
    with h5py.File(checkpoint) as file:
        file.visititems(lambda name, item: found.update({name: item[()].tobytes()}) if getattr(item, "ndim", 0) else None)
    return found


class Neighbours(LockstepTest):
    def setUp(self):
        super().setUp()
        self.others = set(MEMORY.glob("lockstep-*-step-*"))
        self.addCleanup(lambda: [file.unlink(missing_ok=True) for file in self.files("*-step-*")])
        self.whole = self.folder / "whole"
        self.once(self.train_whole, self.whole)
        self.deck(**DECK)

    def train_whole(self):
        self.deck("whole/deck.yaml", **DECK)
        self.lockstep("train", "deck.yaml", *NODES, ranks=4, cwd=self.whole)
        self.assertEqual(self.files("*-step-*"), [], "a run that has ended leaves nothing in memory")

    def files(self, pattern):
        return sorted(set(MEMORY.glob(f"lockstep-{pattern}")) - self.others)

    def steps(self):
        """The steps of which all copies exist: each rank's, in its own node and in the other one."""
        steps = [int(file.name.rsplit("-", 1)[1]) for file in self.files("*-step-*") if file.suffix != ".part"]
        return sorted(step for step in set(steps) if steps.count(step) == 8)

    def train_and_kill(self, rank, beyond=0):
        """Trains, and kills a rank once there are two sets of copies of steps after `beyond`; returns the step of the newest set."""
        child = subprocess.Popen([*program.MPIEXEC, "4", program.PROGRAM, "train", "deck.yaml", *NODES], cwd=self.folder,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 start_new_session=True)
        try:
            while child.poll() is None and len([step for step in self.steps() if step > beyond]) < 2:
                time.sleep(0.005)
            ranks = ranks_of(child.pid, program.PROGRAM)
            if rank < len(ranks):
                os.kill(ranks[rank], signal.SIGKILL)
            out, err = child.communicate(timeout=120)
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.communicate()
        self.assertTrue(rank < len(ranks) and child.returncode != 0, f"it has ended before it was killed\n{out}{err}")
        return self.steps()[-1]

    def goes_on(self, step, *options, ranks=4, warning=None):
        """The run goes on to its end from this step, which has copies, but no checkpoint."""
        result = self.lockstep("train", "deck.yaml", *options, ranks=ranks)
        name = f"run/checkpoints/step-{step:08}.h5"
        self.assertIn(f"{name}: made from the copies in the nodes' memory", result.out)
        self.assertIn(f"resumes from {name} at step {step}\n", result.out)
        if warning:
            self.assertIn(warning, result.err)
        last = f"run/checkpoints/step-{STEPS:08}.h5"
        self.assertEqual(arrays(self.whole / last), arrays(self.folder / last))
        self.assertEqual(without_times(metrics(self.whole / "run")), without_times(metrics(self.folder / "run")))
        self.assertEqual(self.files("*-step-*"), [])

    def test_a_node_is_lost(self):
        self.train_and_kill(1)
        step = self.train_and_kill(2, beyond=5)
        for file in self.files("*-node1-*"):
            file.unlink()
        self.goes_on(step, *NODES)

    def test_offloaded_states_are_in_the_copies(self):
        if "stand-in" in self.lockstep("info").out:
            self.skipTest("states are offloaded to files on hosts")
        (self.folder / "states").mkdir()
        self.deck(**{**DECK, "parallel": {**DECK["parallel"], "offload": {"optimizer": "states", "parameters": "states", "block_mb": 0.1}}})
        if program.run("check", "deck.yaml", cwd=self.folder).status == 73:
            self.skipTest("the disk of this test has no O_DIRECT")
        step = self.train_and_kill(1)
        for file in self.files("*-node1-*"):
            file.unlink()
        self.goes_on(step, *NODES)

    def test_fewer_ranks_go_on(self):
        step = self.train_and_kill(3)
        for file in self.files("*-node0-*"):
            file.unlink()
        self.goes_on(step, ranks=2)

    def test_copies_are_wanted_no_more(self):
        """Existing copies still count, and are removed."""
        step = self.train_and_kill(1)
        copies = {file: file.read_bytes() for file in self.files("*-step-*")}
        self.goes_on(step, "checkpoint.neighbours_every=0", *NODES)
        for file, content in copies.items():  # they are removed, too, if the run begins anew
            file.write_bytes(content)
        self.lockstep("train", "deck.yaml", "checkpoint.neighbours_every=0", "run.steps=2", "run.resume=never", "run.overwrite=true", *NODES, ranks=4)
        self.assertEqual(self.files("*-step-*"), [])

    def test_a_copy_is_damaged(self):
        step = self.train_and_kill(0)
        damaged, = self.files(f"*-node0-rank0-step-{step}")
        data = bytearray(damaged.read_bytes())
        data[len(data) // 2] ^= 1
        damaged.write_bytes(data)
        # The other node has another copy.
        mark = self.folder / "run/copies"
        copies = {file: file.read_bytes() for file in [mark, *self.files("*-step-*")]}
        self.goes_on(step, *NODES, warning=f"{damaged}: is damaged (its checksum does not match)")
        # Without that one, the previous set is used.
        shutil.rmtree(self.folder / "run/checkpoints")
        (self.folder / "run/summary.json").unlink()
        for file, content in copies.items():
            if not file.match(f"*-node1-rank0-step-{step}"):
                file.write_bytes(content)
        self.goes_on(step - EVERY, *NODES, warning="is damaged")

    def test_copies_of_a_branch_that_was_left(self):
        """A run that has gone on on other nodes does not take up what the first ones have kept."""
        self.deck(**{**DECK, "checkpoint": {"every_steps": 10, "keep": 0, "neighbours_every": EVERY}})
        self.assertGreater(self.train_and_kill(1, beyond=12), 12)
        copies = {file: file.read_bytes() for file in self.files("*-step-*")}
        for number, keeps in enumerate((EVERY, 0)):
            for file in [*self.files("*-step-*"), *(self.folder / "run/checkpoints").glob("*-000000[2-9]*")]:
                file.unlink()
            self.lockstep("train", "deck.yaml", f"run.steps={11 + number}", f"checkpoint.neighbours_every={keeps}", *NODES, ranks=4)
            for file, content in copies.items():
                file.write_bytes(content)
            result = self.lockstep("train", "deck.yaml", f"run.steps={12 + number}", *NODES, ranks=4)
            self.assertIn(f"resumes from run/checkpoints/step-000000{11 + number}.h5 at step {11 + number}\n", result.out)
            self.assertEqual(self.files("*-step-*"), [])

    def test_memory_is_full(self):
        disk = shutil.copy(os.environ["LOCKSTEP_FAILING_DISK"], self.folder)
        os.environ.update(LD_PRELOAD=str(disk), LOCKSTEP_DISK="node0-rank2 write -1 ENOSPC")
        try:
            result = self.lockstep("train", "deck.yaml", "run.steps=12", *NODES, ranks=4)
        finally:
            del os.environ["LD_PRELOAD"], os.environ["LOCKSTEP_DISK"]
        self.assertRegex(result.err, r"warning: step 3 was not copied to the memory of nodes: rank 0: \S*-node0-rank2-step-3.part: cannot be written \(No space left on device\)")
        self.assertEqual(self.files("*-step-*"), [])


if __name__ == "__main__":
    program.main()
