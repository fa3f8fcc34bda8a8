# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Targets at each pixel: classes, some of which are ignored, and values. Results are the same on any number of ranks."""
import unittest

from program import LockstepTest, metrics, summary

try:
    import h5py
    import numpy
except ImportError:
    h5py = None

LAYERS = [{"conv2d": {"filters": 8, "kernel": 3, "padding": 1}}, "relu", {"conv2d": {"filters": 3, "kernel": 1}}]


@unittest.skipUnless(h5py, "no h5py")
class Pixels(LockstepTest):
    def write_data(self):
        """Writes images whose class at each pixel follows from the brightness of it and its left and right neighbours; 255 on the edges."""
        rng = numpy.random.default_rng(1)
        images = rng.random((80, 10, 12, 1)).astype("f4")
        around = images[:, :, :-2, 0] + images[:, :, 1:-1, 0] + images[:, :, 2:, 0]
        classes = numpy.full((80, 10, 12), 255, "u1")
        classes[:, :, 1:-1] = numpy.digitize(around, [1.2, 1.8])
        values = numpy.repeat(images, 3, axis=3) * numpy.array([1, -2, 0.5], "f4")
        with h5py.File(self.folder / "pixels.h5", "w") as file:
            for split, part in ("train", slice(0, 64)), ("validation", slice(64, 80)):
                file[f"{split}/inputs"] = images[part]
                file[f"{split}/targets"] = classes[part]
        with h5py.File(self.folder / "values.h5", "w") as file:
            file["train/inputs"], file["train/targets"] = images, values
        return classes

    def train(self, name, ranks, status=0, **sections):
        deck = {"run": {"epochs": 12, "output_dir": name}, "data": {"file": "pixels.h5"}, "model": {"layers": LAYERS},
                "loss": {"ignore_class": 255}, "metrics": ["iou", "f1"], "batch": {"global": 16},
                "optimizer": {"type": "adam", "learning_rate": 0.02}}
        self.deck("deck.yaml", **{**deck, **sections})
        return self.lockstep("train", "deck.yaml", ranks=ranks, status=status)

    def test_classes(self):
        classes = self.write_data()
        rows = {}
        for ranks in (1, 3):
            self.train(f"run{ranks}", ranks)
            rows[ranks] = [row for row in metrics(self.folder / f"run{ranks}") if row["split"] == "validation"]
            self.assertGreater(float(rows[ranks][-1]["accuracy"]), 0.8)
            self.assertGreater(float(rows[ranks][-1]["iou"]), 0.6)
        for one, three in zip(rows[1], rows[3]):
            self.assertAlmostEqual(float(one["loss"]), float(three["loss"]), delta=1e-4)
        out = self.lockstep("evaluate", "deck.yaml", "--checkpoint", "run1/checkpoints/latest", "--confusion-matrix", "matrix.csv", ranks=2).out
        matrix = numpy.loadtxt(self.folder / "matrix.csv", delimiter=",", skiprows=1)
        for k in range(3):
            self.assertEqual(matrix[k].sum(), (classes[64:] == k).sum())
        self.assertAlmostEqual(matrix.trace() / matrix.sum(), float(out.split()[3]), delta=1e-8)
        with h5py.File(self.folder / "pixels.h5", "a") as file:
            file["validation/targets"][-1] = 200  # no class, so that an evaluation that begins would end with 65
        for status, words, name in (73, ["matrix.csv", "--overwrite"], "matrix.csv"), (73, ["none"], "none/matrix.csv"), (64, [".csv"], "matrix.txt"):
            self.refused(status, words, "evaluate", "deck.yaml", "--checkpoint", "run1/checkpoints/latest", "--confusion-matrix", name, ranks=2)

    def test_a_number_that_is_no_class(self):
        self.write_data()
        self.train("run", 1, status=65, loss={})
        self.refused(65, ["pixels.h5:/train", "example 0 is of class 255", "loss.ignore_class"], "check", "deck.yaml")

    def test_targets_of_which_none_counts(self):
        """A step or an evaluation without a target that counts has no loss, and decides nothing."""
        self.write_data()
        with h5py.File(self.folder / "pixels.h5", "a") as file:
            file["validation/targets"][:] = 255
            file["train/targets"][:48] = 255
        # In file order, two examples a step, 24 steps have no loss, and then 8 have one.
        result = self.train("run", 1, run={"epochs": 1, "output_dir": "run", "log_every": 1, "evaluate_every": "8 steps",
                                           "patience": {"evaluations": 2}},
                            data={"file": "pixels.h5", "shuffle": False}, batch={"global": 2},
                            loss_watch={"on_anomaly": "stop", "window": 20}, checkpoint={"keep_best": {"count": 1}})
        rows = {split: [row for row in metrics(self.folder / "run") if row["split"] == split] for split in ("train", "validation")}
        for row in rows["train"][:24] + rows["validation"]:
            self.assertEqual((row["loss"], row["accuracy"]), ("nan", "nan"), row)
        for row in rows["train"][24:]:
            self.assertGreater(float(row["loss"]), 0.1, row)
        self.assertEqual((len(rows["train"]), len(rows["validation"])), (32, 4), "patience waits")
        self.assertEqual(summary(self.folder / "run")["validation"]["loss"], None)
        warnings = [line for line in result.err.splitlines() if "validation" in line]
        self.assertEqual(len(warnings), 4, result)
        for line in warnings:
            self.assertIn("pixels.h5:/validation: none of the targets of its 16 examples counts", line)
        result = self.lockstep("evaluate", "deck.yaml", "--checkpoint", "run/checkpoints/latest", ranks=2)
        self.assertIn("loss nan\naccuracy nan\n", result.out)
        self.assertIn("none of the targets of its 16 examples counts", result.err)

    def test_values(self):
        self.write_data()
        self.train("run", 2, data={"file": "values.h5"}, loss={"type": "relative_l2"}, metrics=[])
        loss = [float(row["loss"]) for row in metrics(self.folder / "run") if row["split"] == "train"]
        self.assertLess(loss[-1], 0.1)
        self.train("run", 1, status=65, data={"file": "values.h5"}, loss={"type": "huber"}, metrics=[],
                   model={"layers": LAYERS[:2]})


if __name__ == "__main__":
    unittest.main()
