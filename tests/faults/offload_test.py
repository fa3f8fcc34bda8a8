# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Optimizer states on an unsuitable disk are refused before the first step; if the disk fails later, the run ends on all ranks with
status 74, and goes on from its last checkpoint to the same end. --full: failures at more calls."""
import os
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "regression"))
import program
from program import LockstepTest, metrics, without_times

FULL = "--full" in sys.argv
PARAMETERS = ("parallel.shard=parameters", "parallel.offload.parameters=states")
ADAMW = {"type": "adamw", "learning_rate": 0.003, "ema_decay": 0.9}


class OffloadFaults(LockstepTest):
    def setUp(self):
        super().setUp()
        if "stand-in" in self.lockstep("info").out:
            self.skipTest("for hosts")
        # A path in LD_PRELOAD cannot have a space.
        self.disk = shutil.copy(os.environ["LOCKSTEP_FAILING_DISK"], self.folder)
        (self.folder / "states").mkdir()
        self.configure("states")
        found = program.run("train", "deck.yaml", "run.steps=1", "run.output_dir=first", cwd=self.folder)
        if found.status == 73:
            self.skipTest(found.err)
        self.assertEqual(found.status, 0, found)

    def configure(self, folder, **sections):
        self.deck(**{"optimizer": ADAMW, "checkpoint": {"every_steps": 2}, "run": {"steps": 6, "output_dir": "run", "log_every": 1, "seed": 7},
                     "model": {"layers": ["flatten", {"linear": {"features": 64}}, "relu", {"linear": {"features": 10}}]},
                     "parallel": {"offload": {"optimizer": folder, "block_mb": 0.001}}, **sections})

    def with_disk(self, plan, *overrides, ranks=1, rank=None, status=74, counts=None):
        environment = {"LD_PRELOAD": self.disk, "LOCKSTEP_DISK": plan}
        if rank is not None:
            environment["LOCKSTEP_DISK_RANK"] = str(rank)
        if counts:
            environment["LOCKSTEP_DISK_COUNTS"] = str(counts)
        os.environ.update(environment)
        try:
            result = program.run("train", "deck.yaml", *overrides, ranks=ranks, cwd=self.folder, limit=60)
        finally:
            for name in environment:
                del os.environ[name]
        self.assertEqual(result.status, status, f"{plan}: {result}")
        self.assertNotRegex(result.err, "fault of Lockstep|terminate called|Segmentation", plan)
        return result

    def refused_by_disk(self, plan, status, words, *overrides, **options):
        result = self.with_disk(plan, *overrides, status=status, **options)
        self.assertEqual(len(result.errors()), 1, result)
        for word in words:
            self.assertIn(word, result.errors()[0])
        self.assertNotIn("step 1 ", result.out)

    def test_folders_of_no_use(self):
        self.write("file", "")
        for ranks in (1, 2) if FULL else (2,):
            for folder, status, words in (("none", 66, ["none: no such folder", "create it"]), ("file", 73, ["file: no file can be created there"]),
                                          *([("/dev/shm", 73, ["/dev/shm: is in memory (tmpfs)"])] if os.path.ismount("/dev/shm") else [])):
                self.configure(folder)
                self.refused(status, words, "train", "deck.yaml", ranks=ranks)
            self.configure("states")
            rank = ranks - 1
            self.refused_by_disk("states/lockstep open 0 EINVAL", 73, ["states: its file system cannot bypass the page cache (O_DIRECT)"], ranks=ranks, rank=rank)
            self.refused_by_disk("states/lockstep open 0 EACCES", 73, ["states: no file can be created there (Permission denied)"], ranks=ranks, rank=rank)
            self.refused_by_disk("states/lockstep reserve 1 ENOSPC", 74, ["states: ", "there is no room for", "bytes (No space left on device)"], ranks=ranks, rank=rank)
            # For checkpoints in the background, each rank holds a second copy of what it gives, beside the states of the steps.
            self.refused_by_disk("states/lockstep reserve 2 ENOSPC", 74, ["states: ", "there is no room for", "bytes (No space left on device)"], "parallel.shard=optimizer",
                                 ranks=ranks, rank=rank)
            for overrides in ((), PARAMETERS):
                self.refused_by_disk("states/lockstep write 1 EIO", 74, ["states: cannot be written (Input/output error)"], *overrides, ranks=ranks, rank=rank)
        self.assertEqual(list((self.folder / "states").iterdir()), [])

    def test_optimizers_of_no_use(self):
        self.configure("states", optimizer={"type": "sgd"})
        self.refused(78, ["deck.yaml:7:", "parallel.offload: needs an optimizer with a state", "optimizer.type: sgd (line "], "check", "deck.yaml")
        self.configure("states", optimizer={"type": "adafactor"})
        self.refused(78, ["parallel.offload: needs an optimizer whose state can be divided", "optimizer.type: adafactor (line "], "check", "deck.yaml")
        self.configure("states", parallel={"offload": {"optimizer": "states"}, "local": {"every": 2}}, optimizer={"type": "lion"})
        self.refused(78, ["parallel.local: needs the optimizer's state in memory", "parallel.offload (line "], "check", "deck.yaml")
        for words, parallel in (("parallel.offload.parameters: must be in the same place as the optimizer's state", {"shard": "parameters", "offload": {"optimizer": "states", "parameters": "other"}}),
                                ("parallel.offload.parameters: needs parallel.shard: parameters, also on one rank", {"shard": "gradients", "offload": {"optimizer": "states", "parameters": "states"}})):
            self.configure("states", parallel=parallel)
            for ranks in (1, 2):
                self.refused(78, ["deck.yaml:", words], "train", "deck.yaml", ranks=ranks)
        self.configure("states", parallel={"offload": {"block_mb": 3}})
        self.refused(78, ["parallel.offload", "optimizer"], "check", "deck.yaml")

    def test_what_fails_in_a_step_ends_all_ranks(self):
        for ranks, shard, *overrides in ((1, "none", "parallel.shard=none"), (2, "optimizer", "parallel.shard=optimizer"), (2, "parameters", *PARAMETERS)):
            rank, counts = ranks - 1, self.folder / f"counts-{ranks}-{shard}"
            self.with_disk("states/lockstep read 1000000 EIO", *overrides, f"run.output_dir=whole-{ranks}-{shard}", ranks=ranks, rank=rank, status=0, counts=counts)
            for call, part in (("read", 0.5), ("write", 0.8), *((("read", 0.8), ("write", 0.5)) if FULL else ())):
                most = counts.read_text().split().count(call)
                self.assertGreater(most, 60)
                number = int(most * part)
                output = f"{ranks}-{shard}-{call}-{number}"
                result = self.with_disk(f"states/lockstep {call} -{number} EIO", *overrides, f"run.output_dir={output}", ranks=ranks, rank=rank)
                self.assertEqual(len(result.errors()), 1, result)
                self.assertRegex(result.errors()[0], r"states: cannot be (read|written) \(Input/output error\)|cannot read its part of the optimizer's state")
                self.lockstep("train", "deck.yaml", *overrides, f"run.output_dir={output}", ranks=ranks)
                self.assertEqual(without_times(metrics(self.folder / f"whole-{ranks}-{shard}")), without_times(metrics(self.folder / output)))


if __name__ == "__main__":
    sys.argv = [argument for argument in sys.argv if argument != "--full"]
    program.main()
