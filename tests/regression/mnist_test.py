# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains on real data: of MNIST's 10,000 test images, 9,000 to train on and 1,000 to validate on. Arguments: the tests to run."""
import unittest

import program
from program import SOURCE, LockstepTest, data_dir, metrics, summary

MNIST = data_dir() and data_dir() / "mnist"


@unittest.skipUnless(MNIST and (MNIST / "t10k-images-idx3-ubyte.gz").exists(),
                     "no MNIST: neither LOCKSTEP_DATA_DIR nor ../shared/data has mnist/t10k-images-idx3-ubyte.gz")
class Mnist(LockstepTest):
    def setUp(self):
        super().setUp()
        self.lockstep("import", "idx", "--images", MNIST / "t10k-images-idx3-ubyte.gz", "--labels", MNIST / "t10k-labels-idx1-ubyte.gz",
                      "--validation", 1000, "--output", "mnist.h5")

    def train(self, deck, target, *overrides, ranks, limit, epochs=10):
        """Trains to the target accuracy, which must be reached within `epochs`."""
        self.lockstep("train", SOURCE / "inputs" / deck, "run.output_dir=run", f"run.target.value={target}", *overrides, ranks=ranks, limit=limit)
        report = summary(self.folder / "run")
        self.assertGreaterEqual(report["validation"]["accuracy"], target, report)
        self.assertLessEqual(report["epochs"], epochs)
        return report

    def test_short(self):
        self.assertIn("9000×28×28×1", self.lockstep("inspect", "mnist.h5").out)
        self.train("mnist_fc.yaml", 0.9, "model.features=[128, 10]", "run.epochs=3", ranks=2, limit=180)


    def test_same_curve_in_16_bits(self):
        """After 200 steps, the mean losses of the last 50 agree."""
        curves = {}
        for compute in ("fp32", "bf16", "fp16"):
            self.lockstep("train", SOURCE / "inputs/mnist_fc.yaml", f"run.output_dir={compute}", f"precision.compute={compute}", "run.steps=200",
                          "run.log_every=1", "model.features=[256, 10]", limit=120)
            losses = [float(row["loss"]) for row in metrics(self.folder / compute) if row["split"] == "train"]
            curves[compute] = sum(losses[-50:]) / 50
        for compute in ("bf16", "fp16"):
            self.assertAlmostEqual(curves[compute] / curves["fp32"], 1, delta=0.02, msg=str(curves))


class MnistAccuracy(Mnist):
    """The accuracies that the decks promise; each test takes a minute or more."""

    test_short = test_same_curve_in_16_bits = None

    def test_fc(self):
        self.train("mnist_fc.yaml", 0.95, ranks=1, limit=300)

    def test_simple_cnn_on_1_rank(self):
        self.train("mnist_simple_cnn.yaml", 0.98, ranks=1, limit=600)

    def test_simple_cnn_on_2_ranks(self):
        self.train("mnist_simple_cnn.yaml", 0.98, ranks=2, limit=600)

    def test_resnet8(self):
        for compute, ranks in (("fp32", 1), ("bf16", 2)):
            self.train("mnist_resnet8.yaml", 0.987, f"precision.compute={compute}", "run.overwrite=true", "run.resume=never", ranks=ranks, limit=600)

    def test_large_batches_on_2_ranks(self):
        for deck, target in ("mnist_cnn_sgd_512.yaml", 0.985), ("mnist_cnn_lars.yaml", 0.983):
            self.train(deck, target, "run.overwrite=true", "run.resume=never", ranks=2, limit=600, epochs=20)

    def test_lamb(self):
        self.train("mnist_cnn_lamb.yaml", 0.983, ranks=2, limit=600)


if __name__ == "__main__":
    program.main()
