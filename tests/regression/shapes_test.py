# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Examples that are sequences of numbers (T×C) or volumes (D×H×W×C), from files and synthetic."""
import unittest

import program
from program import LockstepTest, metrics

try:
    import h5py
    import numpy
except ImportError:
    h5py = None

LSTM = [{"lstm": 8}, "global_avg_pool", {"linear": 2}]
CONV1D = [{"conv1d": {"filters": 8, "kernel": 5}}, "relu", "global_avg_pool", {"linear": 2}]
CONV3D = [{"conv3d": {"filters": 4, "kernel": 3, "padding": "same"}}, "relu", "flatten", {"linear": 2}]


class Shapes(LockstepTest):
    def train(self, data, layers, ranks=1, status=0, **sections):
        deck = {"run": {"epochs": 15, "output_dir": "run", "overwrite": True, "resume": "never"}, "data": data, "model": {"layers": layers},
                "batch": {"global": 16}, "optimizer": {"type": "adam", "learning_rate": 0.02}}
        self.deck("deck.yaml", **{**deck, **sections})
        return self.lockstep("train", "deck.yaml", ranks=ranks, status=status)

    def accuracy(self):
        return float([row for row in metrics(self.folder / "run") if row["split"] == "validation"][-1]["accuracy"])

    def test_computed_ones(self):
        for shape, layers in ([9, 3], LSTM), ([9, 3], CONV1D), ([3, 4, 5, 2], CONV3D):
            data = {"synthetic": {"kind": "random", "shape": shape, "classes": 2, "train": 64, "validation": 16}}
            self.train(data, layers, run={"steps": 3, "output_dir": "run", "overwrite": True, "resume": "never"})
            self.assertEqual(len([row for row in metrics(self.folder / "run") if row["split"] == "validation"]), 1)

    def write_data(self, inputs, targets):
        with h5py.File(self.folder / "data.h5", "w") as file:
            for split, part in ("train", slice(0, 192)), ("validation", slice(192, 256)):
                file[f"{split}/inputs"], file[f"{split}/targets"] = inputs[part], targets[part]

    @unittest.skipUnless(h5py, "no h5py")
    def test_slow_and_fast_waves(self):
        rng = numpy.random.default_rng(1)
        targets = rng.integers(0, 2, 256)
        phase, time = rng.random((256, 1)) * 6, numpy.arange(20)
        wave = numpy.sin(phase + time * numpy.where(targets, 1.5, 0.5)[:, None])
        self.write_data(numpy.stack([wave, 0.1 * rng.random((256, 20))], 2).astype("f4"), targets)
        for layers in LSTM, CONV1D:
            self.train({"file": "data.h5", "normalize": {"mean": [0, 0.5], "std": [1, 0.3]}}, layers, ranks=2)
            self.assertGreater(self.accuracy(), 0.9)

    @unittest.skipUnless(h5py, "no h5py")
    def test_volumes(self):
        rng = numpy.random.default_rng(1)
        targets = rng.integers(0, 2, 256)
        volumes = rng.integers(0, 100, (256, 4, 5, 3, 1)).astype("u1")
        volumes[targets == 1, 1:3, 1:4] += 100
        self.write_data(volumes, targets)
        self.train({"file": "data.h5"}, CONV3D, ranks=2)
        self.assertGreater(self.accuracy(), 0.9)

    @unittest.skipUnless(h5py, "no h5py")
    def test_grey_images_without_a_channel(self):
        self.write_data(numpy.zeros((256, 6, 6), "f4"), numpy.zeros(256, "i4"))
        for status, model in (78, {}), (65, {"input": [6, 6, 1]}):
            self.deck("deck.yaml", run={"steps": 1, "output_dir": "run"}, data={"file": "data.h5"}, batch={"global": 16},
                      model={"layers": [{"conv2d": {"filters": 2, "kernel": 3}}, "flatten", {"linear": 2}], **model},
                      optimizer={"type": "sgd", "learning_rate": 0.1})
            self.assertIn("C = 1 for greyscale", self.lockstep("check", "deck.yaml", status=status).err)


if __name__ == "__main__":
    program.main()
