# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Data as they come, with the values that are right: batches of one row, numbers in 8 bits, parts that were never written, other files' storage."""
import os
import re

import program
from made_data import MadeDataTest, h5py, numpy


class DataCases(MadeDataTest):
    def weights(self, name, **layers):
        with h5py.File(self.folder / name, "w") as file:
            for layer, parameters in layers.items():
                for parameter, value in parameters.items():
                    file[f"model/{layer}/{parameter}"] = numpy.asarray(value, "f4")

    # Batches of a few rows

    def normalized(self, **batch):
        random = numpy.random.default_rng(1)
        inputs = (random.normal(size=(65, 4)) * [1, 2, 5, 10] + [0, 1, -3, 7]).astype("f4")
        self.h5(train_inputs=inputs, train_targets=random.integers(0, 2, 65).astype("i4"))
        self.deck(run={"epochs": 60, "output_dir": "run", "log_every": 1}, data={"file": "data.h5", "shuffle": False}, batch=batch,
                  model={"layers": [{"batch_norm": {}, "name": "bn"}, {"linear": 2}]}, optimizer={"type": "sgd", "learning_rate": 0})
        return inputs

    def test_a_last_batch_of_one_row_leaves_the_running_variance(self):
        inputs = self.normalized(**{"global": 64})
        said = ("model: layer 'bn' takes mean and variance of one value per channel in the last step of an epoch, of 1 example, so that its output in training does not "
                "depend on its input; set data.drop_last: true, or a batch.global that leaves more examples for that step, or use layer_norm")
        for ranks in (1, 3):
            self.assertEqual(self.warnings(ranks=ranks), [said])
            with h5py.File(self.folder / "run/checkpoints/latest") as file:
                found = file["model/bn/running_var"][:]
            wanted = 1 + (1 - 0.9**60) * (inputs[:64].astype("f8").var(0, ddof=1) - 1)  # as if there were no other steps
            numpy.testing.assert_allclose(found, wanted, rtol=1e-5)
        self.assertEqual(self.warnings("data.drop_last=true"), [])

    def test_micro_batches_are_alike(self):
        inputs = self.normalized(**{"global": 65, "micro": 64})
        losses = []
        for value in (0, 1000):
            inputs[64] = value
            with h5py.File(self.folder / "data.h5", "a") as file:
                file["train/inputs"][:] = inputs
            self.train("run.epochs=1")
            losses += self.losses()
        self.assertGreater(abs(losses[0] - losses[1]), 0.01, "the last row has been normalized alone")

    def test_few_rows_are_warned_of(self):
        self.normalized(**{"global": 65})
        for overrides, values in ((["batch.micro=7"], 6), (["batch.micro=8"], 7), (["batch.micro=9"], None), (["batch.global=58"], 7), (["batch.global=57"], None)):
            said = self.warnings("run.epochs=1", *overrides)
            self.assertEqual(len(said), 1 if values else 0, said)
            if values:
                self.assertIn(f"takes mean and variance of only {values} values per channel", said[0])

    # Numbers in 8 bits

    def test_category_numbers_are_not_scaled(self):
        """Row r of the table is r, so that the loss is 0 if the rows are those of the file."""
        ids = (numpy.arange(200) % 100)[:, None]
        self.weights("weights.h5", t={"weight": numpy.arange(100.0)[:, None]}, fc={"weight": [[1.0]], "bias": [0.0]})
        layers = [{"embedding_tables": {"vocabularies": [100], "features": 1}, "name": "t"}, "flatten", {"linear": 1, "name": "fc"}]
        self.deck(run={"steps": 1, "output_dir": "run", "log_every": 1}, data={"file": "data.h5", "shuffle": False}, loss={"type": "mse"},
                  model={"layers": layers, "weights": {"file": "weights.h5"}}, optimizer={"type": "sgd", "learning_rate": 0}, batch={"global": 200})
        for kind in ("u1", "i2", "u2", "i4", "i8", "f4", "f8"):
            self.h5(train_inputs=ids.astype(kind), train_targets=ids.astype("f4"))
            for ranks in (1, 3):
                self.train(ranks=ranks)
                self.assertEqual(self.losses(), [0], kind)
        over = ids.astype("u1")
        over[7] = 200
        self.h5(train_inputs=over, train_targets=ids.astype("f4"))
        result = self.lockstep("check", "deck.yaml", "--data", "run.output_dir=other", status=65)
        self.assertIn("data.h5:/train: 200 examples; row numbers outside their tables of 1 example: 7", result.out)
        self.assertIn("the inputs of example 7 of data.h5:/train are not finite, or name rows that the tables do not have",
                      self.lockstep("train", "deck.yaml", "run.output_dir=other", status=70).err)

    def test_scale(self):
        """One-hot columns: all outputs are 1 as they are, and 1/255 as colours."""
        random = numpy.random.default_rng(2)
        labels = random.integers(0, 20, 512)
        self.weights("weights.h5", fc={"weight": numpy.ones((1, 20)), "bias": [0.0]})
        self.h5(train_inputs=numpy.eye(20, dtype="u1")[labels], train_targets=numpy.zeros((512, 1), "f4"))
        self.deck(run={"steps": 1, "output_dir": "run", "log_every": 1}, data={"file": "data.h5"}, loss={"type": "mse"}, batch={"global": 512},
                  model={"layers": [{"linear": 1, "name": "fc"}], "weights": {"file": "weights.h5"}}, optimizer={"type": "sgd", "learning_rate": 0})
        said = ("data.h5:/train: inputs of u8 are divided by 255, as colours are, but the largest of the first 256 examples is 1; set data.scale: none if they are numbers to "
                "be read as they are, or 255 if they are colours")
        for overrides, loss, warns in (([], 255**-2, [said]), (["data.scale=auto"], 255**-2, [said]), (["data.scale=255"], 255**-2, []), (["data.scale=none"], 1, [])):
            self.assertEqual(self.warnings(*overrides), warns)
            self.assertAlmostEqual(self.losses()[0] / loss, 1, places=5)
        # A network keeps the scale of its deck.
        self.train("data.scale=none")
        self.lockstep("predict", "run/checkpoints/latest", "--data", "data.h5:/train", "--output", "outputs.npy")
        self.assertEqual(numpy.load(self.folder / "outputs.npy").tolist(), [[1]] * 512)
        self.h5(train_inputs=numpy.eye(20, dtype="f4")[labels], train_targets=numpy.zeros((512, 1), "f4"))
        self.refused(78, ["data.scale: 255 divides inputs of u8, but these are f32"], "check", "deck.yaml", "data.scale=255", "run.output_dir=other")

    def test_means_in_grey_levels(self):
        random = numpy.random.default_rng(3)
        labels = random.integers(0, 2, 64)
        self.h5(train_inputs=(random.integers(0, 120, (64, 4, 4, 3)) + 120 * labels[:, None, None, None]).astype("u1"), train_targets=labels.astype("i4"))
        self.deck(run={"steps": 1, "output_dir": "run", "log_every": 1}, data={"file": "data.h5"}, model={"layers": ["flatten", {"linear": 2}]})
        grey = "data.normalize={mean: [123.675, 116.28, 103.53], std: [58.395, 57.12, 57.375]}"
        self.assertEqual(self.warnings(grey), ["data.normalize: a mean of 123.675 is in units of 0 to 255, but inputs of u8 are divided by 255 before it is subtracted; write "
                                               "{mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]}, or set data.scale: none"])
        self.assertEqual(self.warnings(grey, "data.scale=none"), [])
        loss = self.losses()
        self.assertEqual(self.warnings("data.normalize={mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]}"), [])
        self.assertAlmostEqual(loss[0], self.losses()[0], places=5)

    # Types

    def test_types_of_inputs(self):
        random = numpy.random.default_rng(7)
        x, y = random.integers(0, 100, (32, 6)), random.integers(0, 3, 32).astype("i4")
        self.deck(run={"steps": 2, "output_dir": "run", "log_every": 1}, data={"file": "data.h5"}, model={"layers": [{"linear": 3}]}, batch={"global": 32},
                  optimizer={"type": "sgd", "learning_rate": 0.001})
        losses = {}
        for kind in ("f4", "f8", "f2", ">f4", ">f8", "i1", "i2", ">i2", "u2", "i4", "u4", "i8", "u8"):
            self.h5(train_inputs=x.astype(kind), train_targets=y)
            self.train()
            losses[kind] = self.losses()
        self.assertEqual({kind for kind, loss in losses.items() if loss != losses["f4"]}, set(), losses)
        self.h5(train_inputs=x > 50, train_targets=y)
        self.train()
        of_bool = self.losses()
        self.h5(train_inputs=(x > 50).astype("f4"), train_targets=y)
        self.train()
        self.assertEqual(self.losses(), of_bool)
        self.h5(train_inputs=numpy.full((32, 6), 2**24 + 1), train_targets=y)
        self.refused(65, ["data.h5:/train/inputs", "16,777,216"], "check", "deck.yaml", "--data", "run.output_dir=other")
        with h5py.File(self.folder / "data.h5", "w") as file:
            inputs = file.create_dataset("train/inputs", (32,), dtype=h5py.vlen_dtype("f4"))
            for i in range(32):
                inputs[i] = x[i]
            file["train/targets"] = y
        self.refused(65, ["holds arrays of variable length", 'numpy.stack(x).astype("f4")'], "check", "deck.yaml", "run.output_dir=other")

    def test_doubles_are_read_unrounded(self):
        """A difference of 1e-9 between two inputs is what the output is made of."""
        self.h5(train_inputs=numpy.array([[1.0, 1 + 1e-9]]), train_targets=numpy.array([[2e-9]]))
        self.weights("weights.h5", fc={"weight": [[-1.0, 1.0]], "bias": [0.0]})
        self.deck(run={"steps": 1, "output_dir": "run", "log_every": 1}, data={"file": "data.h5"}, loss={"type": "mae"}, batch={"global": 1}, precision={"compute": "fp64"},
                  model={"layers": [{"linear": 1, "name": "fc"}], "weights": {"file": "weights.h5"}}, optimizer={"type": "sgd", "learning_rate": 0})
        self.train()
        self.assertAlmostEqual(self.losses()[0] / 1e-9, 1, places=5)

    def test_types_of_targets(self):
        random = numpy.random.default_rng(8)
        x, y = random.normal(size=(32, 6)).astype("f4"), random.integers(0, 2, 32)
        self.deck(run={"steps": 2, "output_dir": "run", "log_every": 1}, data={"file": "data.h5"}, model={"layers": [{"linear": 2}]}, batch={"global": 32})
        losses = {}
        for kind in ("i4", "i8", "u1", ">i4", "?"):
            self.h5(train_inputs=x, train_targets=y.astype(kind))
            self.train()
            losses[kind] = self.losses()
        self.h5(train_inputs=x, train_targets=y[:, None])
        self.train()
        losses["N×1"] = self.losses()
        self.assertEqual({kind for kind, loss in losses.items() if loss != losses["i4"]}, set(), losses)
        self.h5(train_inputs=x, train_targets=numpy.array(["cat", "dog"])[y].astype("S3"))
        self.refused(65, ["holds text", "numpy.unique(y, return_inverse=True)"], "check", "deck.yaml", "run.output_dir=other")

    def test_channels_first(self):
        y = numpy.zeros(4, "i4")
        layers = ["flatten", {"linear": 2}]
        for shape, order in (((3, 8, 8), "(0, 2, 3, 1)"), ((16, 32, 32), "(0, 2, 3, 1)"), ((1, 8, 8, 8), "(0, 2, 3, 4, 1)"), ((8, 8, 3), ""), ((32, 32, 16), ""), ((8, 8, 8, 1), "")):
            self.h5(train_inputs=numpy.zeros((4, *shape), "f4"), train_targets=y)
            self.deck(run={"steps": 1, "output_dir": "run", "log_every": 1}, data={"file": "data.h5"}, model={"layers": layers})
            said = [line for line in self.warnings() if "channels come first" in line]
            self.assertEqual(len(said), 1 if order else 0, shape)
            if order:
                self.assertIn(f"numpy.transpose(inputs, {order})", said[0])

    # What HDF5 can do

    def test_storage_in_other_files(self):
        numbers = numpy.arange(24, dtype="f4").reshape(4, 6)
        numbers.tofile(self.folder / "secret.bin")
        with h5py.File(self.folder / "data.h5", "w") as file:
            file.create_dataset("train/inputs", shape=(4, 6), dtype="f4", external=[(str(self.folder / "secret.bin"), 0, numbers.nbytes)])
            file["train/targets"] = numpy.zeros(4, "i4")
        self.deck(run={"steps": 1, "output_dir": "run", "log_every": 1}, data={"file": "data.h5"}, model={"layers": [{"linear": 2}]}, batch={"global": 4})
        words = ["data.h5:/train/inputs: its numbers lie outside the HDF5 file", "secret.bin", "data.allow_external: true"]
        for ranks in (1, 3):
            self.refused(65, words, "train", "deck.yaml", ranks=ranks)
        self.refused(65, words[:1], "inspect", "data.h5")
        self.train("data.allow_external=true")
        loss = self.losses()
        with h5py.File(self.folder / "weights.h5", "w") as file:
            file.create_dataset("model/linear1/weight", shape=(2, 6), dtype="f4", external=[(str(self.folder / "secret.bin"), 0, 48)])
        self.refused(65, ["weights.h5:/model/linear1/weight: its numbers lie outside the HDF5 file"], "train", "deck.yaml", "model.weights={file: weights.h5}",
                     "data.allow_external=true", "run.output_dir=other")
        os.truncate(self.folder / "secret.bin", 50)
        self.refused(65, ["data.h5:/train/inputs: needs 96 bytes of", "but that file has 50"], "train", "deck.yaml", "data.allow_external=true", "run.output_dir=other")
        self.h5(train_inputs=numbers, train_targets=numpy.zeros(4, "i4"))
        self.train()
        self.assertEqual(self.losses(), loss)

    def test_unwritten_chunks_stand_for_the_fill_value(self):
        y = numpy.zeros((64, 16, 16), "i4")
        y[3, 2:5, 2:5] = 1
        x = numpy.random.default_rng(6).random((64, 16, 16, 1), dtype="f4")
        self.deck(run={"steps": 8, "output_dir": "run", "log_every": 1}, data={"file": "data.h5"}, model={"layers": [{"conv2d": {"filters": 2, "kernel": 1}}]})
        with h5py.File(self.folder / "data.h5", "w") as file:
            file["train/inputs"] = x
            targets = file.create_dataset("train/targets", shape=y.shape, dtype="i4", chunks=(1, 16, 16), fillvalue=0, compression="gzip")
            targets[3] = y[3]
        self.assertIn("data.h5:/train/targets: 63 chunks were never written, and are read as its fill value\n", self.train().out)
        sparse = self.losses()
        self.h5(train_inputs=x, train_targets=y)
        self.train()
        self.assertEqual(self.losses(), sparse)

    def test_high_compression(self):
        x = numpy.zeros((64, 256, 256, 1), "u1")
        x[0, 0, 0, 0] = 1
        with h5py.File(self.folder / "data.h5", "w") as file:
            inputs = file.create_dataset("train/inputs", data=x, chunks=(64, 256, 256, 1), scaleoffset=1, compression="gzip")
            self.assertGreater(x.nbytes / inputs.id.get_storage_size(), 1032)
            file["train/targets"] = numpy.zeros(64, "i4")
        self.deck(data={"file": "data.h5"}, model={"layers": ["global_avg_pool", {"linear": 2}]})
        self.assertIn("data.h5:/train: 64 examples, all usable", self.lockstep("check", "deck.yaml", "--data").out)

    def test_virtual_datasets_are_called_so(self):
        self.h5("part.h5", x=numpy.zeros((4, 6), "f4"))
        layout = h5py.VirtualLayout(shape=(4, 6), dtype="f4")
        layout[:] = h5py.VirtualSource(str(self.folder / "part.h5"), "x", shape=(4, 6))
        with h5py.File(self.folder / "data.h5", "w", libver="latest") as file:
            file.create_virtual_dataset("train/inputs", layout)
            file["train/targets"] = numpy.zeros(4, "i4")
        self.deck(data={"file": "data.h5"}, model={"layers": [{"linear": 2}]})
        self.refused(65, ["data.h5:/train/inputs: is a virtual dataset, made of datasets in other files"], "check", "deck.yaml")

    def test_a_file_that_is_being_written(self):
        file = h5py.File(self.folder / "data.h5", "w", libver="latest")
        file["train/inputs"], file["train/targets"] = numpy.zeros((4, 6), "f4"), numpy.zeros(4, "i4")
        file.swmr_mode = True  # marks the file as open, and flushes it
        self.deck(data={"file": "data.h5"}, model={"layers": [{"linear": 2}]})
        try:
            self.refused(65, ["data.h5: another program has it open for writing", "wait until it is closed"], "check", "deck.yaml")
        finally:
            file.close()
        self.lockstep("check", "deck.yaml")

    def test_dimensions_without_numbers_are_inspected(self):
        """As netCDF-4 writes a dimension that has no variable."""
        with h5py.File(self.folder / "data.h5", "w") as file:
            file["t"] = numpy.zeros((3, 2), "f4")
            file.create_dataset("lat", shape=(3,), dtype=">f4")
        out = self.lockstep("inspect", "data.h5").out
        self.assertRegex(out, r"/lat +f32 +3 ")

    # Numbers that stand for missing ones

    def test_fill_values(self):
        random = numpy.random.default_rng(5)
        x = random.normal(280, 10, (64, 8)).astype("f4")
        self.deck(run={"steps": 4, "output_dir": "run", "log_every": 1}, data={"file": "data.h5", "shuffle": False}, loss={"type": "mse"}, batch={"global": 16},
                  model={"layers": [{"linear": 1}]}, optimizer={"type": "sgd", "learning_rate": 0.1})
        for fill, attribute in ((9.96921e36, True), (9.96921e36, False), (1e20, False), (-9999, False), (-1, True)):
            z = x.copy()
            z[3, 2] = z[40, 1] = fill
            self.h5(train_inputs=z, train_targets=x.mean(1, keepdims=True))
            if attribute:
                with h5py.File(self.folder / "data.h5", "a") as file:
                    file["train/inputs"].attrs["_FillValue"] = numpy.float32(fill)
            out = self.lockstep("check", "deck.yaml", "--data", status=65).out
            self.assertRegex(out, rf"data.h5:/train: 64 examples; numbers that stand for missing ones, as {re.escape(f'{fill:g}')} of 2 examples: 3, 40")
        z[3, 2] = 9.96921e36
        self.h5(train_inputs=z, train_targets=x.mean(1, keepdims=True))
        for ranks in (1, 3):
            result = self.lockstep("train", "deck.yaml", "run.overwrite=true", ranks=ranks, status=70)
            self.assertIn("in its batch, example 3 (9.96921e+36) of data.h5:/train hold numbers that stand for missing ones", result.err)


if __name__ == "__main__":
    program.main()
