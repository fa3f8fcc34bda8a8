# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What runs say before the first step of a machine that gives less than they want."""
import os
import subprocess
import unittest

import program
from program import LockstepTest, runs_on_device


class Machine(LockstepTest):
    def warnings(self, *overrides, ranks=1):
        err = self.lockstep("train", "deck.yaml", "run.overwrite=true", "run.resume=never", *overrides, ranks=ranks).err
        return [line for line in err.splitlines() if line.startswith("warning: ")]

    @unittest.skipIf(runs_on_device(), "kernels run on devices")
    def test_processors(self):
        self.deck()
        self.assertEqual(self.warnings(ranks=2), [])
        allowed = os.sched_getaffinity(0)
        threads = int(os.environ.get("OMP_NUM_THREADS", "1")) if "OpenMP" in self.lockstep("info").out else 1
        try:
            os.sched_setaffinity(0, {min(allowed)})
            alone, pinned = self.warnings(), self.warnings(ranks=2)
        finally:
            os.sched_setaffinity(0, allowed)
        too_many = [f"has {threads} threads, but its affinity lets it run on 1 processor"] if threads > 1 else []
        for found, words in ((alone, too_many), (pinned, [*too_many, "the 2 ranks on "])):
            self.assertEqual(len(found), len(words), found)
            for line, word in zip(found, words):
                self.assertIn(word, line)

    def test_memory(self):
        """More than any machine has, in memory that is never touched: the model is not made."""
        self.deck(model={"layers": ["flatten", {"linear": {"features": 1000000000}}, {"linear": {"features": 10}}]})
        result = program.run("train", "deck.yaml", cwd=self.folder, limit=60)
        self.assertRegex(result.err, r"warning: 1 rank on \S+ will need about [\d.]+ TB for the model and a step, but [\d.]+ GB can be had there")
        self.assertEqual(result.status, 70, result)

    def test_disk(self):
        self.deck(run={"steps": 2, "output_dir": "disk/run", "log_every": 1}, checkpoint={"every_steps": 1, "keep": 3})
        (self.folder / "disk").mkdir()
        inside = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=300k tmpfs disk && "$@"', "sh"]
        if subprocess.run([*inside, "true"], cwd=self.folder, capture_output=True).returncode:
            self.skipTest("file systems cannot be mounted here")
        done = subprocess.run([*inside, program.PROGRAM, "train", "deck.yaml"], cwd=self.folder, capture_output=True, text=True, timeout=60)
        self.assertRegex(done.stderr, r"warning: disk/run/checkpoints: its disk has room for [\d.]+ KB, but 4 checkpoints of [\d.]+ KB each will be written")
        self.lockstep("train", "deck.yaml", "run.output_dir=run")


if __name__ == "__main__":
    program.main()
