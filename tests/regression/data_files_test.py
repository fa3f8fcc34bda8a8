# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Data files that other programs have made: half written, damaged, in chunks of any shape, with numbers of any type."""
import itertools
import math
import unittest
import zlib

import program
from program import LockstepTest

try:
    import h5py
    import numpy
except ImportError:
    h5py = None


@unittest.skipUnless(h5py, "Python's h5py is not here")
class DataFiles(LockstepTest):
    def file(self, **options):
        """Forty examples with eight values, of three classes. `options`: how the inputs are stored."""
        with h5py.File(self.folder / "data.h5", "w") as file:
            inputs = numpy.random.default_rng(0).normal(size=(40, 8)).astype("f4")
            file.create_dataset("train/inputs", data=inputs, **options)
            file["train/targets"] = (numpy.arange(40) % 3).astype("i4")
        self.deck(data={"file": "data.h5"}, model={"layers": [{"linear": 3}]})

    def test_half_written(self):
        """As a program leaves it that was to write all rows, one after the other."""
        for name, shape, options, rows, words in (
                ("inputs", (40, 8), {"chunks": (10, 8)}, 20, "needs 1280 bytes, but the file holds 640 for it (part of it was never written"),
                ("inputs", (40, 8), {"chunks": (10, 8), "compression": "gzip"}, 20, "has 2 of its 4 chunks (the others were never written, and would be read as zeros)"),
                ("inputs", (40, 8), {"chunks": (32, 8)}, 32, "needs 1280 bytes, but the file holds 1024 for it"),
                ("inputs", (40, 8), {"chunks": (32, 7)}, 32, "has 2 of its 4 chunks"),  # which have room for all numbers
                ("targets", (40,), {}, 0, "needs 160 bytes, but the file holds 0 for it")):
            with self.subTest(words):
                self.file()
                with h5py.File(self.folder / "data.h5", "a") as file:
                    del file[f"train/{name}"]
                    dataset = file.create_dataset(f"train/{name}", shape, "i4" if name == "targets" else "f4", **options)
                    if rows:
                        dataset[:rows] = 1
                self.refused(65, [f"data.h5:/train/{name}: {words}", "make or copy"], "check", "deck.yaml", "--data")
                for ranks in (1, 2):
                    self.refused(65, [f"data.h5:/train/{name}: {words}"], "train", "deck.yaml", ranks=ranks)
        for options in ({"chunks": (32, 7)}, {"chunks": (32, 7), "compression": "gzip"}, {"maxshape": (None, 8)}, {"chunks": (40, 8), "fletcher32": True}):
            self.file(**options)
            self.assertIn("data.h5:/train: 40 examples, all usable", self.lockstep("check", "deck.yaml", "--data").out)

    def test_rows_that_cannot_be_read(self):
        self.file(chunks=(10, 8), fletcher32=True)
        with h5py.File(self.folder / "data.h5") as file:
            chunk = file["train/inputs"].id.get_chunk_info(2)
        path = self.folder / "data.h5"
        content = bytearray(path.read_bytes())
        content[chunk.byte_offset] ^= 0xFF
        path.write_bytes(content)
        for ranks in (1, 2):
            self.refused(65, ["data.h5:/train/inputs, rows 0 to 39: cannot be read ("], "train", "deck.yaml", ranks=ranks)

    def test_shapes_of_too_many_dimensions(self):
        for name, kind in (("inputs", "f4"), ("targets", "f4"), ("targets", "i4")):
            for rank in (7, 8, 9):
                self.file()
                with h5py.File(self.folder / "data.h5", "a") as file:
                    del file[f"train/{name}"]
                    file[f"train/{name}"] = numpy.ones((40, *[2] * (rank - 1)), kind)
                self.refused(65, [f"data.h5:/train/{name}: has the shape 40×2×2×", "reshape it"], "check", "deck.yaml")

    def test_checksums_of_numbers_of_any_type(self):
        """They are of the numbers as the file has them: those of the same bytes under another type."""
        numpy.save(self.folder / "x.npy", numpy.arange(96, dtype="u1").reshape(6, 16))
        numpy.save(self.folder / "y.npy", numpy.zeros(6, "i4"))
        self.lockstep("import", "npy", "--inputs", "x.npy", "--targets", "y.npy", "--output", "data.h5")
        with h5py.File(self.folder / "data.h5", "a") as file:
            inputs = file["train/inputs"]
            for kind in ("f2", "f4", "f8", "i2", "g"):
                file[f"as/{kind}"] = inputs[()].view(kind)
                file[f"as/{kind}"].attrs["xxh3"] = numpy.bytes_(inputs.attrs["xxh3"])
        out = self.lockstep("inspect", "data.h5").out
        for kind in ("f2", "f4", "f8", "i2", "g"):
            self.assertRegex(out, f"/as/{kind} .*checksum ok")
        with h5py.File(self.folder / "data.h5", "a") as file:
            file["as/f2"][5, 7] = 1
        self.refused(65, ["1 of 7 datasets are damaged (/as/f2)"], "inspect", "data.h5")

    def test_chunks_across_many_examples(self):
        """Of more than 2 GiB, which stay in the file, and of zeros, so that all chunks are written as the same few bytes."""
        shape, chunk = (15000, 224, 224, 3), (938, 14, 14, 1)  # those that h5py chooses
        packed = zlib.compress(bytes(math.prod(chunk)))
        with h5py.File(self.folder / "data.h5", "w") as file:
            inputs = file.create_dataset("train/inputs", shape, "u1", chunks=chunk, compression="gzip")
            for corner in itertools.product(*map(range, [0] * 4, shape, chunk)):
                inputs.id.write_direct_chunk(corner, packed)
            file["train/targets"] = numpy.zeros(15000, "i4")
        self.deck(run={"steps": 1, "output_dir": "run"}, data={"file": "data.h5", "scale": "255"}, model={"layers": ["global_avg_pool", {"linear": 2}]}, batch={"global": 2})
        for ranks in (1, 2):
            result = self.lockstep("train", "deck.yaml", "run.overwrite=true", "run.resume=never", ranks=ranks, limit=60)  # not for each of 400 examples of the fingerprint
            self.assertEqual(result.err.count("warning: "), 1, result)
            self.assertIn("data.h5:/train/inputs: is stored in chunks of 938×14×14×1: for each example, 938 times its bytes are read and unpacked, and steps wait; "
                          "store it without chunks, or in chunks of one example: chunks=(1, 224, 224, 3)\n", result.err)

    def test_targets_far_from_zero(self):
        """The explained share of a variance that is 4·10⁻¹² of the mean's square, on any number of ranks."""
        random = numpy.random.default_rng(0)
        with h5py.File(self.folder / "data.h5", "w") as file:
            inputs = random.normal(size=(20000, 1)).astype("f4")
            targets = (1e5 + 0.2 * inputs + 0.1 * random.normal(size=inputs.shape)).astype("f4")
            for split in ("train", "validation"):
                file[f"{split}/inputs"], file[f"{split}/targets"] = inputs, targets
        with h5py.File(self.folder / "weights.h5", "w") as file:
            file["model/linear_1/weight"], file["model/linear_1/bias"] = numpy.full((1, 1), 0.2), numpy.full(1, 1e5)
        errors = targets.astype("f8") - (1e5 + 0.2 * inputs.astype("f8"))
        expected = 1 - (errors ** 2).sum() / ((targets.astype("f8") - targets.mean(dtype="f8")) ** 2).sum()
        self.deck(data={"file": "data.h5"}, model={"layers": [{"linear": 1}], "weights": "weights.h5"}, loss={"type": "mse"}, metrics=["r_squared"],
                  batch={"global": 300}, optimizer={"learning_rate": 0}, precision={"compute": "fp64"}, run={"steps": 1, "output_dir": "run", "overwrite": True, "resume": "never"})
        for ranks in (1, 2, 3):
            self.lockstep("train", "deck.yaml", ranks=ranks)
            self.assertAlmostEqual(program.summary(self.folder / "run")["validation"]["r_squared"], expected, delta=1e-8)


if __name__ == "__main__":
    program.main()
