# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""compare_numbers.py finds no difference between a build and itself, and finds one that is there."""
import shlex
import subprocess
import sys
import unittest

import program
from program import MPIEXEC, PROGRAM, SOURCE, LockstepTest

try:
    import h5py  # noqa: F401
except ImportError:
    h5py = None


@unittest.skipUnless(h5py, "Python has no h5py here")
class CompareNumbers(LockstepTest):
    def compare(self, other):
        return subprocess.run([sys.executable, "-B", SOURCE / "tests/regression/compare_numbers.py", PROGRAM, other, "--ranks", "1,2", "--only",
                               "linear_regression,fp16", "--mpiexec", shlex.join(MPIEXEC)], capture_output=True, text=True, timeout=200)

    def test_itself(self):
        done = self.compare(PROGRAM)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("4 runs compared: all are the same", done.stdout)

    def test_a_difference(self):
        """A difference in the last bits of the learning rate of one of the two builds is found."""
        other = self.write("other", f'#!/bin/sh\n[ "$1" != train ] || set -- "$@" optimizer.learning_rate=0.0500001\nexec {PROGRAM} "$@"\n')
        other.chmod(0o755)
        done = self.compare(other)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("4 runs compared: 4 DIFFER", done.stdout)

    def test_a_run_that_fails(self):
        other = self.write("other", "#!/bin/sh\nexit 3\n")
        other.chmod(0o755)
        done = self.compare(other)
        self.assertEqual(done.returncode, 70, done.stdout + done.stderr)
        self.assertIn("ended with 3", done.stderr)


if __name__ == "__main__":
    program.main()
