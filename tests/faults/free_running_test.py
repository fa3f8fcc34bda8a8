# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Free-running asynchronous ranks, or groups of ranks, one of which is killed now and then: none of the others hangs, restarts go on, and
the record of all of it can be replayed to the same bits on any number of ranks."""
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "regression"))
import program
from processes import ranks_of
from program import LockstepTest, summary

try:
    import h5py
except ImportError:
    print("skipped: no h5py here")
    sys.exit(77)

RANKS, COLLECT = 4, 4


def deck(steps, schedule, **more):
    return {
        "run": {"steps": steps, "log_every": 20, "seed": 7},
        "data": {"drop_last": True, "synthetic": {"kind": "glyphs", "train": 500}},
        "model": {"layers": ["flatten", {"linear": {"features": 64}}, "relu", {"dropout": {"rate": 0.1}}, {"linear": {"features": 10}}]},
        "optimizer": {"type": "adamw", "learning_rate": 0.002},
        "batch": {"global": 32},
        "checkpoint": {"every_steps": 20, "keep": 2},
        "parallel": {"asynchronous": {"collect": COLLECT, "bound": 5, "staleness": "divide", "schedule": schedule, **more}},
    }


class FreeRunning(LockstepTest):
    def test_killed_gone_on_with_and_played_again(self):
        self.kill_go_on_and_play(240, 3, (1, 2, 4))

    def test_groups_killed_gone_on_with_and_played_again(self):
        self.kill_go_on_and_play(100, 1, (1, 4), groups=2)

    def test_a_record_that_cannot_be_written_ends_the_run_before_its_first_step(self):
        free = deck(8, {"free": True, "record": "none/order.txt"})
        backup = {**free, "parallel": {"backup": {"ranks": 1, "mode": "drop", "record": "none/order.txt"}}}
        for each in (free, backup):
            self.deck("free.yaml", **each)
            result = self.refused(73, ["none/order.txt"], "train", "free.yaml", "run.overwrite=true", ranks=RANKS)
            self.assertNotIn("training examples", result.out, "it has begun")

    def kill_go_on_and_play(self, steps, kills, played_on, **more):
        self.deck("free.yaml", **deck(steps, {"free": True, "record": "order.txt"}, **more))
        chance = random.Random(1)
        for _ in range(kills):
            status, err = self.train_and_kill(chance)
            self.assertNotEqual(status, 0)
            self.assertNotRegex(err, "fault of Lockstep|terminate called|Segmentation", err)
        self.lockstep("train", "free.yaml", "run.output_dir=free", ranks=RANKS, limit=60)
        staleness = summary(self.folder / "free")["staleness"]
        self.assertEqual(sum(staleness["counts"]), steps * COLLECT)
        self.assertEqual(staleness.get("groups"), more.get("groups"))
        self.deck("simulated.yaml", **deck(steps, {"replay": "order.txt"}, **more))
        for ranks in played_on:
            self.lockstep("train", "simulated.yaml", f"run.output_dir=on{ranks}", ranks=ranks, limit=60)
            self.expect_same_state("free", f"on{ranks}", steps)
            self.assertEqual(summary(self.folder / f"on{ranks}")["staleness"], staleness)

    def train_and_kill(self, chance):
        """Trains, and kills a rank a moment after a new checkpoint."""
        child = subprocess.Popen([*program.MPIEXEC, str(RANKS), program.PROGRAM, "train", "free.yaml", "run.output_dir=free"],
                                 cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 start_new_session=True)
        before = self.newest()
        try:
            while child.poll() is None and self.newest() <= before:
                time.sleep(0.005)
            time.sleep(chance.uniform(0, 0.02))
            ranks = ranks_of(child.pid, program.PROGRAM)
            self.assertEqual(len(ranks), RANKS, "it has ended already")
            os.kill(chance.choice(ranks), signal.SIGKILL)
            _, err = child.communicate(timeout=60)
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.communicate()
        return child.returncode, err

    def newest(self):
        return max((path.name for path in (self.folder / "free/checkpoints").glob("step-*.h5")), default="")

    def expect_same_state(self, a, b, step):
        files = [h5py.File(self.folder / name / f"checkpoints/step-{step:08}.h5") for name in (a, b)]
        names = []
        files[0].visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) and name.split("/")[0] in ("model", "optimizer") else None)
        self.assertGreater(len(names), 8)
        for name in names:
            self.assertEqual(files[0][name][()].tobytes(), files[1][name][()].tobytes(), name)


if __name__ == "__main__":
    program.main()
