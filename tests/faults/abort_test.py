# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A rank that aborts, as Kokkos does when a device fails, reports where it was; all ranks end with status 70."""
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "regression"))
import program
from processes import ranks_of
from program import LockstepTest

DECK = {
    "run": {"steps": 1000000, "output_dir": "run"},
    "data": {"synthetic": {"kind": "glyphs", "train": 500, "validation": 90}},
    "model": {"layers": ["flatten", {"linear": {"features": 10}}]},
    "batch": {"global": 32},
}


class Abort(LockstepTest):
    def test_a_rank_that_aborts(self):
        for ranks in 1, 3:
            with self.subTest(ranks=ranks):
                self.deck("deck.yaml", **DECK)
                child = subprocess.Popen([*program.MPIEXEC, str(ranks), program.PROGRAM, "train", "deck.yaml", "run.overwrite=true"],
                                         cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                self.addCleanup(lambda child=child: child.poll() is None and child.kill())
                limit = time.monotonic() + 60
                while not (self.folder / "run/metrics.csv").exists():  # until it trains
                    self.assertIsNone(child.poll())
                    self.assertLess(time.monotonic(), limit)
                    time.sleep(0.05)
                time.sleep(0.3)
                os.kill(ranks_of(child.pid, program.PROGRAM)[-1], signal.SIGABRT)
                _, err = child.communicate(timeout=30)
                self.assertEqual(child.returncode, 70, err)
                said = [line for line in err.replace("\0", "").splitlines() if " aborts in " in line]
                self.assertEqual(len(said), 1, err)
                self.assertRegex(said[0], rf"^error: rank [0-{ranks - 1}] on \S+ aborts in '[a-z -]+' of step \d+")
                (self.folder / "run/metrics.csv").unlink()


if __name__ == "__main__":
    program.main()
