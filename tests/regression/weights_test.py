# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""model.weights: parameters of another network or framework, and frozen layers."""
import unittest

import program
from program import LockstepTest, metrics, without_times

try:
    import h5py
    import numpy
except ImportError:
    h5py = None

CNN = {
    "run": {"steps": 6, "output_dir": "run", "log_every": 1},
    "data": {"synthetic": {"kind": "glyphs", "train": 64, "validation": 40}},
    "model": {"layers": [{"conv2d": {"filters": 4, "kernel": 3, "stride": 4}, "name": "body1"}, {"batch_norm": {}, "name": "body2"}, "relu",
                         {"max_pool": 2}, "flatten", {"dropout": 0.1}, {"linear": 12, "name": "fc1"}, "relu", {"linear": 10, "name": "fc2"}]},
    "optimizer": {"type": "sgd", "learning_rate": 0.05, "momentum": 0.9},
    "batch": {"global": 16},
}
IMAGE = (3, 3, 4)  # the shape that the flatten reads


@unittest.skipUnless(h5py, "no h5py")
class Weights(LockstepTest):
    def setUp(self):
        super().setUp()
        self.deck("deck.yaml", **CNN)
        self.lockstep("train", "deck.yaml", "run.output_dir=first")
        self.checkpoint = self.folder / "first/checkpoints/latest"

    def arrays(self, file, group="model"):
        with h5py.File(file) as f:
            found = {}
            f[group].visititems(lambda name, item: found.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None)
            return found

    def weights(self, name, arrays):
        with h5py.File(self.folder / name, "w") as f:
            for key, values in arrays.items():
                f["model/" + key] = values

    def evaluate(self, file, *overrides, ranks=1):
        return self.lockstep("evaluate", "deck.yaml", *overrides, "--checkpoint", file, ranks=ranks).out

    def same(self, a, b):
        return a.shape == b.shape and (a == b).all()

    def test_what_fits_is_taken_and_the_rest_is_listed(self):
        arrays = self.arrays(self.checkpoint)
        foreign = {name.replace("body", "encoder"): values for name, values in arrays.items() if not name.startswith("fc2")}
        foreign["fc2/weight"], foreign["aux/weight"] = numpy.zeros((7, 12), "f4"), numpy.zeros(3, "f4")
        foreign["encoder2/num_batches_tracked"] = numpy.int64(5)
        self.weights("w.h5", foreign)
        weights = 'model.weights={file: w.h5, match: shapes, rename: {"encoder*": "body*"}, layout: NHWC}'
        for ranks in (1, 2):
            out = self.lockstep("train", "deck.yaml", weights, f"run.output_dir=run{ranks}", "run.steps=1", "optimizer.learning_rate=1e-30", ranks=ranks).out
            self.assertIn("w.h5: 8 of 10 parameters loaded\n", out)
            self.assertIn("left at their initial values: fc2/weight (10×12; 7×12 in the file), fc2/bias", out)
            self.assertIn("unused in the file: aux/weight", out)
            found = self.arrays(self.folder / f"run{ranks}/checkpoints/latest")
            for name, values in found.items():
                if "running" not in name:
                    self.assertEqual(self.same(values, arrays[name]), not name.startswith("fc2"), name)
        self.assertIn("8 of 10 parameters loaded", self.lockstep("check", "deck.yaml", weights).out)
        self.refused(65, ["/model/fc2/weight: its shape is 7×12"], "check", "deck.yaml", weights.replace("match: shapes, ", ""))
        self.refused(65, ["none of its parameters has the name and shape"], "check", "deck.yaml",
                     "model={layers: [flatten, {linear: 10}]}", "model.weights={file: w.h5, match: shapes, layout: NHWC}")
        self.refused(78, ["model.weights.rename", "must have one * each, or none"], "check", "deck.yaml", 'model.weights={file: w.h5, rename: {"a*": "b"}}')

    def test_a_file_alone_is_meant_strictly(self):
        self.lockstep("train", "deck.yaml", f"model.weights={self.checkpoint}", "run.steps=1")
        self.assertIn(f'  weights:\n    file: "{self.checkpoint}"\n    match: strict', (self.folder / "run/deck.yaml").read_text())

    def test_channels_first(self):
        arrays = self.arrays(self.checkpoint)
        rows, columns, channels = IMAGE
        last = arrays["fc1/weight"]
        first = last.reshape(12, rows, columns, channels).transpose(0, 3, 1, 2).reshape(12, -1)
        self.weights("hwc.h5", arrays)
        self.weights("chw.h5", {**arrays, "fc1/weight": first})
        wanted = self.evaluate(self.checkpoint)
        self.assertEqual(self.evaluate("hwc.h5", "model.weights={file: x, layout: NHWC}"), wanted)
        for ranks in (1, 2):
            self.assertEqual(self.evaluate("chw.h5", "model.weights={file: x, layout: NCHW}", ranks=ranks), self.evaluate(self.checkpoint, ranks=ranks))
        self.assertNotEqual(self.evaluate("chw.h5", "model.weights={file: x, layout: NHWC}"), wanted)
        reshape = "model.layers.4={reshape: {shape: [36]}}"  # in place of the flatten
        self.assertEqual(self.evaluate("chw.h5", reshape, "model.weights={file: x, layout: NCHW}"), wanted)
        for command in (["train", "deck.yaml", "model.weights=chw.h5"], ["check", "deck.yaml", "model.weights=chw.h5"], ["check", "deck.yaml", reshape, "model.weights=chw.h5"]):
            self.refused(78, ["model.weights.layout: must be given", "layer 'fc1' reads a flatten of 3×3×4", "give NCHW"], *command)
        # The layout of a file that Lockstep has written is known, whatever the deck says of the file that the network began with.
        self.assertEqual(self.evaluate(self.checkpoint, "model.weights={file: x, layout: NCHW}"), wanted)

    def test_where_the_order_cannot_be_followed(self):
        layers = [{"conv2d": {"filters": 4, "kernel": 3, "stride": 4}, "name": "c"}, {"flatten": {}, "name": "f"}, {"linear": 5, "name": "l", "from": "f"},
                  {"concat": {}, "from": ["f", "l"]}, {"linear": 10, "name": "last"}]
        self.deck("mixed.yaml", **{**CNN, "model": {"layers": layers}})
        self.lockstep("train", "mixed.yaml", "run.output_dir=mixed", "run.steps=1")
        self.weights("w.h5", self.arrays(self.folder / "mixed/checkpoints/latest"))
        self.refused(78, ["model.weights.layout: must be given", "layer 'last' reads values of a flatten or reshape, whose order"], "check", "mixed.yaml", "model.weights=w.h5")
        self.refused(78, ["model.weights.layout: NCHW cannot be followed to layer 'last'"], "check", "mixed.yaml", "model.weights={file: w.h5, layout: NCHW}")
        self.lockstep("check", "mixed.yaml", "model.weights={file: w.h5, layout: NHWC}")

    def layout_of(self, layers, arrays, layout="auto"):
        """Writes a deck of an image of 3×3×4 and `layers`, and a file of these parameters; returns the arguments that check both."""
        self.deck("layout.yaml", **{**CNN, "model": {"layers": [{"conv2d": {"filters": 4, "kernel": 3, "stride": 4}, "name": "c"}, {"max_pool": 2, "name": "image"}, *layers]}})
        self.weights("w.h5", {name: numpy.ones(shape, "f4") for name, shape in {"c/weight": (4, 1, 3, 3), "c/bias": 4, **arrays}.items()})
        return "check", "layout.yaml", f"model.weights={{file: w.h5, layout: {layout}}}"

    def test_a_flatten_of_another_shape_is_not_followed(self):
        linear, last = {"linear": 10, "name": "l"}, {"linear": 10, "name": "last"}
        conv, conv_shapes = {"conv1d": {"filters": 2, "kernel": 3}, "name": "l"}, {"l/weight": (2, 1, 3), "l/bias": 2, "last/weight": (10, 2), "last/bias": 10}
        for layers, arrays in (
                (["flatten", {"slice": {"end": 31}}, linear], {"l/weight": (10, 31), "l/bias": 10}),
                (["flatten", {"sum": {"axes": [0]}}, linear], {"l/weight": (10, 1), "l/bias": 10}),
                (["flatten", {"reshape": {"shape": [4, 9]}}, {"linear": 3, "name": "l"}, "flatten", last],
                 {"l/weight": (3, 9), "l/bias": 3, "last/weight": (10, 12), "last/bias": 10}),
                (["flatten", {"reshape": {"shape": [36, 1]}}, conv, "global_avg_pool", last], conv_shapes),
                # a sum of two flattens: of 3×3×4 and of 2×2×9
                ([{"flatten": {}, "name": "a"}, {"conv2d": {"filters": 9, "kernel": 2}, "name": "d", "from": "image"}, {"flatten": {}, "name": "b"},
                  {"add": {}, "from": ["a", "b"]}, linear],
                 {"d/weight": (9, 4, 2, 2), "d/bias": 9, "l/weight": (10, 36), "l/bias": 10})):
            with self.subTest(layers):
                self.refused(78, ["model.weights.layout: NCHW cannot be followed to layer 'l"], *self.layout_of(layers, arrays, "NCHW"))
                self.refused(78, ["model.weights.layout: must be given"], *self.layout_of(layers, arrays))
                self.lockstep(*self.layout_of(layers, arrays, "NHWC"))
        vector = {"l/weight": (10, 36), "l/bias": 10}
        self.refused(78, ["layer 'l' reads a flatten of 3×3×4"], *self.layout_of(["flatten", "relu", "flatten", linear], vector))

    def test_advice_about_sequences_is_of_their_layers(self):
        layers, arrays = ["sequence", {"lstm": 5, "name": "r"}, "flatten", {"linear": 10, "name": "l"}], {"l/weight": (10, 45), "l/bias": 10}
        arrays.update({"r/weight_ih": (20, 4), "r/weight_hh": (20, 5), "r/bias_ih": 20, "r/bias_hh": 20})
        self.refused(78, ["layer 'l' reads a flatten of 9×5", "NCHW after PyTorch's Conv1d (N×C×T), or NHWC after its LSTM, Embedding or attention (N×T×C)"],
                     *self.layout_of(layers, arrays))

    def test_a_flatten_behind_moved_channels_is_not_followed(self):
        linear, of_linear = {"linear": 10, "name": "l"}, {"l/weight": (10, 36), "l/bias": 10}
        for layers, arrays in (
                ([{"permute": {"order": [2, 0, 1]}}, "flatten", linear], of_linear),
                ([{"permute": {"order": [2, 0, 1]}, "name": "p"}, {"add": {}, "from": ["p", "p"]}, {"reshape": {"shape": [36]}}, linear], of_linear),
                ([{"mean": {"axes": [2]}}, "flatten", linear], {**of_linear, "l/weight": (10, 9)}),
                (["flatten", {"group_norm": {"groups": 2}, "name": "l"}, {"linear": 10, "name": "last"}],
                 {"l/weight": 36, "l/bias": 36, "last/weight": (10, 36), "last/bias": 10})):
            with self.subTest(layers):
                self.refused(78, ["model.weights.layout: NCHW cannot be followed to layer 'l"], *self.layout_of(layers, arrays, "NCHW"))
                self.refused(78, ["model.weights.layout: must be given"], *self.layout_of(layers, arrays))
                self.lockstep(*self.layout_of(layers, arrays, "NHWC"))
        # Without a flatten after them, the order does not matter.
        self.lockstep(*self.layout_of([{"permute": {"order": [2, 0, 1]}}, {"mean": {"axes": [1, 2]}}, linear], {**of_linear, "l/weight": (10, 4)}))

    def test_a_reshape_across_channels_is_not_followed(self):
        linear, last = {"linear": 3, "name": "l"}, {"linear": 10, "name": "last"}
        pooled = ["global_avg_pool", last]
        of_linear = {"l/bias": 3, "last/weight": (10, 3), "last/bias": 10}
        for layers, arrays in (
                ([{"reshape": {"shape": [4, 9]}}, linear, *pooled], {**of_linear, "l/weight": (3, 9)}),
                # a decoder, which reshapes a vector to an image
                (["global_avg_pool", {"linear": 36, "name": "d"}, {"reshape": {"shape": [3, 3, 4]}}, {"conv2d": {"filters": 3, "kernel": 2}, "name": "l"}, *pooled],
                 {**of_linear, "l/weight": (3, 4, 2, 2), "d/weight": (36, 4), "d/bias": 36}),
                ([{"patchify": 3}, linear, *pooled], {**of_linear, "l/weight": (3, 36)})):
            with self.subTest(layers):
                self.refused(78, ["model.weights.layout: NCHW cannot be followed to layer 'l"], *self.layout_of(layers, arrays, "NCHW"))
                self.refused(78, ["model.weights.layout: must be given", "reads values of a flatten or reshape"], *self.layout_of(layers, arrays))
                self.lockstep(*self.layout_of(layers, arrays, "NHWC"))
        # A reshape that keeps the channels has the same values in either order.
        self.lockstep(*self.layout_of([{"reshape": {"shape": [9, 4]}}, linear, *pooled], {**of_linear, "l/weight": (3, 4)}))

    def test_frozen_layers_stay_as_they_are(self):
        weights = f"model.weights={{file: {self.checkpoint}, freeze: [\"body*\"]}}"
        before = self.arrays(self.checkpoint)
        for ranks in (1, 2, 3):
            for compute in ("fp32", "bf16"):
                folder = f"run{ranks}{compute}"
                out = self.lockstep("train", "deck.yaml", weights, f"run.output_dir={folder}", f"precision.compute={compute}", ranks=ranks).out
                self.assertIn("10 of 10 parameters loaded; 2 layers frozen", out)
                after = self.arrays(self.folder / folder / "checkpoints/latest")
                for name, values in after.items():
                    self.assertEqual(self.same(values, before[name]), name.startswith("body"), name)
                with h5py.File(self.folder / folder / "checkpoints/latest") as file:
                    states = {layer for state in file["optimizer"].values() for layer in state}
                self.assertEqual(states, {"fc1", "fc2"})
            a, b = metrics(self.folder / f"run{ranks}fp32"), metrics(self.folder / "run1fp32")
            for x, y in zip(a, b, strict=True):
                self.assertAlmostEqual(float(x["loss"]) / float(y["loss"]), 1, delta=1e-5)

    def test_a_frozen_run_goes_on(self):
        weights = f"model.weights={{file: {self.checkpoint}, freeze: [body1, body2]}}"
        self.lockstep("train", "deck.yaml", weights, "run.output_dir=whole", ranks=2)
        self.lockstep("train", "deck.yaml", weights, "run.output_dir=parts", "run.steps=3", ranks=2)
        self.lockstep("train", "deck.yaml", weights, "run.output_dir=parts", ranks=2)
        self.assertEqual(without_times(metrics(self.folder / "parts")), without_times(metrics(self.folder / "whole")))
        for freeze, words in (("[body1]", "body2/weight was frozen in the run that wrote parts"), ("[body1, body2, fc1]", "fc1/weight was trained in the run that wrote parts")):
            self.refused(78, ["model.weights.freeze: ", words], "train", "deck.yaml", f"model.weights={{file: {self.checkpoint}, freeze: {freeze}}}",
                         "run.output_dir=parts", "run.steps=8")
        self.refused(78, ["model.weights.freeze: 'body7' matches no layer"], "check", "deck.yaml", f"model.weights={{file: {self.checkpoint}, freeze: [body7]}}")

    def test_a_frozen_network_is_what_is_evaluated(self):
        """Frozen norms use their running values in training: at a learning rate of almost 0, the loss is that of an evaluation."""
        overrides = ["optimizer.learning_rate=1e-30", "batch.global=64", "run.steps=1", "data.shuffle=false", "model.layers.5.dropout=0"]
        train = self.lockstep("evaluate", "deck.yaml", "--checkpoint", self.checkpoint, "--split", "train").out.split()
        self.lockstep("train", "deck.yaml", f"model.weights={{file: {self.checkpoint}, freeze: [body2]}}", *overrides)
        self.assertAlmostEqual(float(metrics(self.folder / "run")[0]["loss"]) / float(train[1]), 1, delta=1e-5)


if __name__ == "__main__":
    program.main()
