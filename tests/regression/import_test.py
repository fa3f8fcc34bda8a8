# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`lockstep import cifar10`, `cifar100` and `npy` as users run them: imported data can be trained on, and bad files are refused."""
import io
import os
import pickle
import re
import subprocess
import tarfile
import unittest

import program
from program import LockstepTest, metrics, summary

try:
    import numpy
except ImportError:
    numpy = None


def record(number, labels):
    """A CIFAR record whose image is bright in a different place and plane for each class."""
    label = labels[-1]
    planes = bytearray((31 * k + 17 * number) % 60 for k in range(3072))
    at = label % 3 * 1024 + label % 16 * 64
    planes[at:at + 64] = bytes([220] * 64)
    return bytes(labels) + planes


def batch(path, first, count, labels=lambda i: [i % 10]):
    path.write_bytes(b"".join(record(i, labels(i)) for i in range(first, first + count)))
    return path


class ImportTest(LockstepTest):
    def leaves_nothing(self, status, words, *arguments, ranks=1):
        before = set(os.listdir(self.folder))
        self.refused(status, words, "import", *arguments, "--output", "new.h5", ranks=ranks)
        self.assertEqual(set(os.listdir(self.folder)), before, "something was left behind")


class Killed(ImportTest):
    def test_what_it_has_left_goes_with_the_next(self):
        """The next import removes the temporary file of a killed one with the same output, and no other file."""
        self.write("text.txt", "to be or not to be " * 100)
        dead = subprocess.Popen(["true"])
        dead.wait()
        host = re.sub(r"[^A-Za-z0-9.]", "_", os.uname().nodename)
        left, other = (self.write(f"{name}.h5.tmp-{host}-{dead.pid}", "half of it") for name in ("text", "other"))
        self.lockstep("import", "text", "--file", "text.txt", "--validation", 0.1, "--output", "text.h5")
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), sorted([other.name, "text.h5", "text.txt"]))
        self.assertFalse(left.exists())


class Cifar(ImportTest):
    def batches(self):
        folder = self.folder / "cifar-10-batches-bin"
        folder.mkdir()
        for i in range(5):
            batch(folder / f"data_batch_{i + 1}.bin", 40 * i, 40)
        batch(folder / "test_batch.bin", 200, 30)
        return folder

    def test_trains(self):
        self.batches()
        out = self.lockstep("import", "cifar10", "--folder", "cifar-10-batches-bin", "--validation", 20, "--output", "cifar.h5", ranks=2).out
        self.assertEqual(out, "cifar.h5: 180 examples to train on, 20 to validate on, 30 to test on\n")
        out = self.lockstep("inspect", "cifar.h5").out
        for words in ("180×32×32×3", "/validation/inputs", "/test/targets", "checksum ok"):
            self.assertIn(words, out)
        self.deck(data={"file": "cifar.h5"}, run={"epochs": 10, "output_dir": "run", "log_every": 5},
                  optimizer={"type": "sgd", "learning_rate": 0.05, "momentum": 0.9})
        self.lockstep("train", "deck.yaml", ranks=2)
        self.assertEqual([row for row in metrics(self.folder / "run") if row["split"] == "validation"][-1]["accuracy"], "1")
        self.assertEqual(summary(self.folder / "run")["test"]["accuracy"], 1)

    def test_a_hundred_classes(self):
        batch(self.folder / "train.bin", 0, 200, lambda i: [i % 20, i % 100])
        out = self.lockstep("import", "cifar100", "--files", "train.bin", "--output", "cifar.h5").out
        self.assertEqual(out, "cifar.h5: 200 examples to train on, 0 to validate on\n")
        self.deck(data={"file": "cifar.h5"})
        self.refused(65, ["cifar.h5", "class 10"], "train", "deck.yaml")

    def test_bad_input(self):
        folder = self.batches()
        self.leaves_nothing(64, ["command line", "--folder", "--files"], "cifar10")
        self.leaves_nothing(64, ["command line", "--folder"], "cifar10", "--folder", folder, "--files", folder / "data_batch_1.bin")
        self.leaves_nothing(64, ["--validation 200: leaves nothing to train on"], "cifar10", "--folder", folder, "--validation", 200)
        self.leaves_nothing(64, ["names no training file"], "cifar10", "--files", folder / "test_batch.bin")
        self.leaves_nothing(66, [".: has no data_batch_1.bin (it is in cifar-10-batches-bin); give --folder ./cifar-10-batches-bin"], "cifar10", "--folder", ".")
        with tarfile.open(self.folder / "archive.tar.gz", "w:gz") as archive:
            archive.add(folder / "test_batch.bin")
        self.leaves_nothing(65, ["archive.tar.gz: is compressed (gzip); unpack it"], "cifar10", "--files", "archive.tar.gz")
        (self.folder / "data_batch_1").write_bytes(pickle.dumps({b"labels": [1]}, protocol=2))
        self.leaves_nothing(65, ["data_batch_1: is from the Python version", "cifar-10-binary.tar.gz"], "cifar10", "--files", "data_batch_1")
        for ranks in (1, 4):
            third = folder / "data_batch_3.bin"
            content = third.read_bytes()
            third.write_bytes(content[:-1000])
            self.leaves_nothing(65, ["data_batch_3.bin: is truncated", "record 39 has 2073 of 3073 bytes"], "cifar10", "--folder", folder, ranks=ranks)
            third.write_bytes(content[:3073 * 7] + b"\x0a" + content[3073 * 7 + 1:])
            self.leaves_nothing(65, ["data_batch_3.bin: record 7 has the label 10"], "cifar10", "--folder", folder, ranks=ranks)
            third.write_bytes(content)


@unittest.skipUnless(numpy, "Python's numpy is not here")
class Npy(ImportTest):
    def save(self, name, array, **options):
        numpy.save(self.folder / name, array, **options)
        return name

    def imports(self, inputs, targets, *options):
        self.save("X.npy", inputs)
        self.save("y.npy", targets)
        return self.lockstep("import", "npy", "--inputs", "X.npy", "--targets", "y.npy", *options, "--output", "data.h5", "--overwrite")

    def refuses(self, status, words, inputs, targets, *options):
        self.save("X.npy", inputs)
        self.save("y.npy", targets)
        self.leaves_nothing(status, words, "npy", "--inputs", "X.npy", "--targets", "y.npy", *options)

    def test_images_and_classes(self):
        rng = numpy.random.default_rng(0)
        classes = numpy.arange(120) % 10
        images = rng.integers(0, 60, (120, 28, 28, 1)).astype("u1")
        images[numpy.arange(120), 2 * classes] = 220
        result = self.imports(images, classes, "--validation-last", 20)
        self.assertEqual(result.out, "data.h5: 100 examples to train on, 20 to validate on\n")
        self.assertEqual(result.err, "")
        self.deck(data={"file": "data.h5"}, run={"epochs": 8, "output_dir": "run", "log_every": 5})
        self.lockstep("train", "deck.yaml", ranks=2)
        self.assertEqual([row for row in metrics(self.folder / "run") if row["split"] == "validation"][-1]["accuracy"], "1")

    def test_values(self):
        """f64 arrays of numpy.save are stored as f32, and can be trained on; outputs of `predict` can be imported again."""
        inputs = numpy.random.default_rng(1).normal(size=(128, 8))
        values = inputs @ numpy.arange(16).reshape(8, 2) / 8
        self.assertIn("X.npy: f64, stored as f32", self.imports(inputs, values, "--validation", 28).out)
        self.deck(data={"file": "data.h5"}, run={"epochs": 40, "output_dir": "run", "log_every": 5}, model={"layers": [{"linear": {"features": 2}}]},
                  loss={"type": "mse"})
        self.lockstep("train", "deck.yaml")
        self.assertLess(summary(self.folder / "run")["validation"]["loss"], 1e-3)
        self.lockstep("predict", "run/checkpoints/latest", "--data", "data.h5:/train", "--output", "outputs.npy")
        self.save("X.npy", inputs[:100].astype("f4"))
        self.lockstep("import", "npy", "--inputs", "X.npy", "--targets", "outputs.npy", "--output", "again.h5")
        self.assertIn("/train/targets", self.lockstep("inspect", "again.h5").out)

    def test_every_version_and_type(self):
        inputs, classes = numpy.arange(20, dtype="f4").reshape(10, 2), numpy.arange(10)
        for version in (1, 0), (2, 0), (3, 0):
            content = io.BytesIO()
            numpy.lib.format.write_array(content, inputs, version=version)
            (self.folder / "X.npy").write_bytes(content.getvalue())
            self.save("y.npy", classes)
            self.lockstep("import", "npy", "--inputs", "X.npy", "--targets", "y.npy", "--output", "data.h5", "--overwrite")
        for kind in ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"):
            self.imports(inputs, classes.astype(kind))
            self.assertIn(f"{kind[0]}{8 * int(kind[1])}", self.lockstep("inspect", "data.h5").out)

    def test_channels_first(self):
        result = self.imports(numpy.zeros((8, 3, 32, 32), "u1"), numpy.arange(8))
        self.assertIn("X.npy: its examples are 3×32×32", result.err)
        self.assertIn("numpy.transpose(inputs, (0, 2, 3, 1))", result.err)

    def test_bad_input(self):
        inputs, classes = numpy.ones((10, 4), "f4"), numpy.arange(10)
        for words, bad in ((["X.npy: is in Fortran order", "numpy.ascontiguousarray(X)"], numpy.asfortranarray(inputs)),
                           (["X.npy: holds bool", 'X.astype("f4")'], inputs > 0),
                           (["X.npy: holds '>f4'", "whose byte order is not this machine's", 'X.astype("<f4")'], inputs.astype(">f4")),
                           (["X.npy: holds '<f2'"], inputs.astype("f2")),
                           (["X.npy: holds '<c8'"], inputs.astype("c8")),
                           (["X.npy: holds i64", "store tokens as one long row"], inputs.astype("i8")),
                           (["X.npy: holds Python objects (unpickling"], inputs.astype(object)),
                           (["X.npy: holds records of several fields"], numpy.zeros(10, [("a", "f4"), ("b", "i4")])),
                           (["X.npy: holds no numbers (0×4 f32)"], inputs[:0]),
                           (["y.npy: has 10 targets", "has 9 examples"], inputs[:9])):
            self.refuses(65, words, bad, classes)
        for words, bad in ((["y.npy: holds bool", 'y.astype("u1")'], classes > 4), (["y.npy: example 9 is of class -1"], numpy.where(classes < 9, classes, -1)),
                           (["y.npy: has the shape 10×1", "y.ravel()"], classes[:, None]), (["y.npy: has the shape 10 ", "y[:, None]"], classes / 2)):
            self.refuses(65, words, inputs, bad)
        self.refuses(64, ["--validation 10: leaves nothing to train on"], inputs, classes, "--validation", 10)
        self.leaves_nothing(66, ["no.npy: no such file"], "npy", "--inputs", "no.npy", "--targets", "y.npy")
        self.leaves_nothing(64, ["command line", "--targets"], "npy", "--inputs", "X.npy")
        numpy.savez(self.folder / "both.npz", x=inputs, y=classes)
        self.leaves_nothing(65, ["both.npz: is an archive of arrays (.npz); unpack it"], "npy", "--inputs", "both.npz", "--targets", "y.npy", ranks=4)
        content = (self.folder / "y.npy").read_bytes()
        (self.folder / "y.npy").write_bytes(content[:-1])
        self.leaves_nothing(65, ["y.npy: is truncated"], "npy", "--inputs", "X.npy", "--targets", "y.npy")
        (self.folder / "y.npy").write_bytes(content + b"x")
        self.leaves_nothing(65, ["y.npy: has bytes after its numbers"], "npy", "--inputs", "X.npy", "--targets", "y.npy")
        (self.folder / "y.npy").write_bytes(content.replace(b"'shape'", b"'shap\x1b'"))
        self.leaves_nothing(65, ["y.npy: its header is damaged"], "npy", "--inputs", "X.npy", "--targets", "y.npy")


if __name__ == "__main__":
    program.main()
