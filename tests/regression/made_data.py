# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests that write a data file with h5py, and train on it by deck.yaml."""
import unittest

from program import LockstepTest, metrics

try:
    import h5py
    import numpy
except ImportError:
    h5py = numpy = None


@unittest.skipUnless(h5py, "Python's h5py is not here")
class MadeDataTest(LockstepTest):
    def h5(self, name="data.h5", **sets):
        """h5(train_inputs=x): the first _ in a name is written as /."""
        with h5py.File(self.folder / name, "w") as file:
            for key, value in sets.items():
                file[key.replace("_", "/", 1)] = value

    def train(self, *overrides, ranks=1):
        return self.lockstep("train", "deck.yaml", "run.overwrite=true", "run.resume=never", *overrides, ranks=ranks)

    def losses(self):
        return [float(row["loss"]) for row in metrics(self.folder / "run") if row["split"] == "train"]

    def warnings(self, *overrides, ranks=1):
        return [line[9:] for line in self.train(*overrides, ranks=ranks).err.splitlines() if line.startswith("warning: ")]
