# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Predictions of a trained network in every kind of file, and text that a language model writes."""
import csv
import unittest

import program
from idx import idx_images, idx_labels
from program import LockstepTest, metrics, summary

try:
    import h5py
    import numpy
except ImportError:
    h5py = None

CHECKPOINT = "run/checkpoints/latest"


@unittest.skipUnless(h5py, "no h5py")
class Predict(LockstepTest):
    def setUp(self):
        super().setUp()
        self.once(self.train)

    def train(self):
        images, labels = idx_images(self.folder / "images", 130), idx_labels(self.folder / "labels", 130)
        self.lockstep("import", "idx", "--images", images, "--labels", labels, "--validation", 33, "--output", "data.h5")
        self.deck("deck.yaml", data={"file": "data.h5", "normalize": {"mean": [0.3], "std": [0.4]}}, run={"epochs": 3, "output_dir": "run"},
                  batch={"global": 16, "micro": 5}, model={"layers": ["flatten", {"linear": 16}, {"batch_norm": {}}, "relu", {"linear": 10}]})
        self.lockstep("train", "deck.yaml")
        (self.folder / "deck.yaml").unlink()  # the checkpoint has the deck, too

    def predict(self, output, *arguments, data="data.h5:/validation", ranks=1):
        out = self.lockstep("predict", CHECKPOINT, "--data", data, "--output", output, *arguments, ranks=ranks).out
        self.assertIn(f"{output}: ", out)
        return self.read(output)

    def read(self, output):
        path = self.folder / output
        if path.suffix == ".npy":
            return numpy.load(path)
        if path.suffix == ".csv":
            with open(path, newline="") as file:
                rows = list(csv.reader(file))
            return rows[0], numpy.array([[float(value) for value in row] for row in rows[1:]])
        with h5py.File(path) as file:
            (name, values), = file.items()
            return name, values[()]

    def test_crops_of_a_size_of_their_own(self):
        """Training crops images to 24×24 at random; the run's evaluations, later ones and predictions take the middle."""
        self.deck("deck.yaml", data={"file": "data.h5", "augment": {"random_resized_crop": {"size": 24}}}, run={"epochs": 2, "output_dir": "run", "overwrite": True,
                  "resume": "never"}, batch={"global": 16}, model={"layers": ["flatten", {"linear": 10}]})
        self.assertIn("input                24×24×1", self.lockstep("check", "deck.yaml").out)
        self.lockstep("train", "deck.yaml")
        with h5py.File(self.folder / "data.h5") as file, h5py.File(self.folder / "middles.h5", "w") as middles:
            middles["inputs"], middles["targets"] = file["validation/inputs"][:, 2:26, 2:26], file["validation/targets"][()]
        _, outputs = self.predict("y.h5", ranks=2)
        self.assertTrue((self.predict("z.h5", data="middles.h5")[1] == outputs).all())
        losses = [self.lockstep("evaluate", "deck.yaml", "--checkpoint", CHECKPOINT, *data).out.split()[1] for data in ([], ["--data", "middles.h5"])]
        self.assertAlmostEqual(float(losses[0]), summary(self.folder / "run")["validation"]["loss"], places=6)
        self.assertEqual(*losses)

    def test_every_kind_of_file_holds_the_same(self):
        name, outputs = self.predict("y.h5")
        self.assertEqual((name, outputs.shape, outputs.dtype), ("outputs", (33, 10), "f4"))
        self.assertTrue((self.predict("y.npy") == outputs).all())
        columns, values = self.predict("y.csv")
        self.assertEqual(columns, [f"outputs_{i}" for i in range(10)])
        self.assertTrue((values.astype("f4") == outputs).all())
        name, classes = self.predict("c.h5", "--classes")
        self.assertEqual((name, classes.shape, classes.dtype), ("class", (33,), "i4"))
        self.assertTrue((classes == outputs.argmax(1)).all())
        columns, classes = self.predict("c.csv", "--classes")
        self.assertEqual((columns, classes.shape), (["class"], (33, 1)))
        _, probabilities = self.predict("p.h5", "--probabilities")
        wanted = numpy.exp(outputs - outputs.max(1, keepdims=True), dtype="f8")
        self.assertLess(abs(probabilities - wanted / wanted.sum(1, keepdims=True)).max(), 1e-6)

    def test_it_is_what_was_evaluated(self):
        _, outputs = self.predict("y.h5")
        with h5py.File(self.folder / "data.h5") as file:
            targets = file["validation/targets"][()].astype(int)
        losses = numpy.log(numpy.exp(outputs.astype("f8")).sum(1)) - outputs[numpy.arange(33), targets]
        last = [row for row in metrics(self.folder / "run") if row["split"] == "validation"][-1]
        self.assertAlmostEqual(losses.mean() / float(last["loss"]), 1, delta=1e-5)
        self.assertAlmostEqual((outputs.argmax(1) == targets).mean(), float(last["accuracy"]))

    def test_the_same_bits_on_any_number_of_ranks(self):
        files = {}
        for ranks in (1, 2, 3):
            for kind in ("h5", "npy", "csv"):
                self.predict(f"y{ranks}.{kind}", data="data.h5:/train", ranks=ranks)
                files.setdefault(kind, set()).add((self.folder / f"y{ranks}.{kind}").read_bytes())
        self.assertEqual({kind: len(found) for kind, found in files.items()}, {"h5": 1, "npy": 1, "csv": 1})

    def test_inputs_that_are_no_numbers(self):
        """Outputs for a NaN are NaN, whatever libraries make of it in between."""
        inputs = numpy.random.default_rng(1).random((5, 28, 28, 1), "f4")
        whole = inputs.copy()
        inputs[1, 3, 3], inputs[4, 9, 9] = numpy.nan, numpy.inf
        for name, values in (("bad", inputs), ("good", whole)):
            with h5py.File(self.folder / f"{name}.h5", "w") as file:
                file["x"] = values
        wanted = self.predict("good.npy", data="good.h5")
        outputs = self.predict("bad.npy", data="bad.h5")
        self.assertEqual(numpy.isnan(outputs).any(1).tolist(), [False, True, False, False, True])
        self.assertTrue((outputs[[0, 2, 3]] == wanted[[0, 2, 3]]).all())
        self.assertEqual(self.predict("bad.csv", "--classes", data="bad.h5")[1].flatten()[[1, 4]].tolist(), [-1, -1])

    def test_inputs_in_another_type(self):
        """8-bit images are divided by 255, and others are not: the same numbers in fp32 are another picture."""
        with h5py.File(self.folder / "data.h5") as file, h5py.File(self.folder / "f32.h5", "w") as other:
            other["inputs"], other["targets"] = file["validation/inputs"][()].astype("f4"), file["validation/targets"][()]
        self.deck("deck.yaml", data={"file": "data.h5", "normalize": {"mean": [0.3], "std": [0.4]}},
                  model={"layers": ["flatten", {"linear": 16}, {"batch_norm": {}}, "relu", {"linear": 10}]})
        for arguments in (("predict", CHECKPOINT, "--output", "y.npy"), ("evaluate", "deck.yaml", "--checkpoint", CHECKPOINT)):
            for data, warns in (("f32.h5", True), ("data.h5:/validation", False)):
                err = self.lockstep(*arguments, "--data", data, *(["--overwrite"] if arguments[0] == "predict" else [])).err
                self.assertEqual("has inputs in f32 (read as they are), but " in err, warns, err)

    def test_inputs_alone(self):
        _, wanted = self.predict("y.h5")
        self.assertTrue((self.predict("s.npy", "--split", "validation", data="data.h5") == wanted).all())
        with h5py.File(self.folder / "data.h5") as file:
            inputs = file["validation/inputs"][()]
        for name, places in (("x", ("only.h5", "only.h5:/x", "only.h5:/link")), ("new/inputs", ("only.h5", "only.h5:/new", "only.h5:/new/inputs", "only.h5:/link"))):
            with h5py.File(self.folder / "only.h5", "w") as file:
                file[name] = inputs
                file["link"] = h5py.SoftLink("/" + name.split("/")[0])
            for place in places:
                self.assertTrue((self.predict("z.npy", "--overwrite", data=place) == wanted).all(), place)

    def test_what_is_wrong_is_said(self):
        with h5py.File(self.folder / "two.h5", "w") as file:
            file["a"] = file["b"] = numpy.zeros((3, 28, 28, 1), "u1")
            file["small"] = numpy.zeros((3, 14, 14, 1), "u1")
        with h5py.File(self.folder / "only.h5", "w") as file:
            file["x/inputs"] = numpy.zeros((3, 28, 28, 1), "u1")
        self.write("text.txt", "to be or not to be " * 20)
        self.lockstep("import", "text", "--file", "text.txt", "--validation", 0.2, "--output", "text.h5")
        self.deck("words.yaml", data={"file": "text.h5", "sequence_length": 8}, run={"steps": 1, "output_dir": "words"},
                  model={"layers": [{"embedding": {"vocabulary": 16, "features": 4}}, {"linear": 16}]})
        self.lockstep("train", "words.yaml")
        self.write("taken.npy", "mine")
        self.deck("deck.yaml", data={"file": "data.h5"}, run={"epochs": 3},
                  model={"layers": ["flatten", {"linear": 16}, {"batch_norm": {}}, "relu", {"linear": 10}]})
        newest = max(path.relative_to(self.folder) for path in self.folder.glob("run/checkpoints/step-*.h5"))
        run = ["predict", CHECKPOINT, "--data", "data.h5"]
        for status, words, arguments in (
                (64, ["end it with .h5, .npy or .csv"], ["predict", CHECKPOINT, "--data", "data.h5:/train", "--output", "y.txt"]),
                (73, ["taken.npy: exists already", "--overwrite"], [*run, "--output", "taken.npy"]),
                (64, ["--split validation: --data data.h5:/train already names another group; leave out one of them"],
                 ["predict", CHECKPOINT, "--data", "data.h5:/train", "--split", "validation", "--output", "y.npy"]),
                (64, ["--split train: --data data.h5:/validation already names another group"],
                 ["evaluate", "deck.yaml", "--checkpoint", CHECKPOINT, "--data", "data.h5:/validation", "--split", "train"]),
                (64, ["data.h5: is data.h5, which is an input"], [*run[:3], "data.h5:/train", "--output", "data.h5", "--overwrite"]),
                (64, ["run/checkpoints/step-", "which is an input"], [*run[:3], "data.h5:/train", "--output", newest, "--overwrite"]),
                (64, ["data.h5: is data.h5, which is an input"], ["evaluate", "deck.yaml", "--checkpoint", CHECKPOINT, "--confusion-matrix", "data.h5", "--overwrite"]),
                (64, ["matrix.txt: ", "end it with .h5, .npy or .csv"], ["evaluate", "deck.yaml", "--checkpoint", "gone.h5", "--confusion-matrix", "matrix.txt"]),
                (73, ["no/matrix.npy: cannot be created"], ["evaluate", "deck.yaml", "--checkpoint", "gone.h5", "--confusion-matrix", "no/matrix.npy"]),
                (65, ["has examples in /train, /validation", "say which"], [*run, "--output", "y.npy"]),
                (65, ["data.h5: has no examples in /night"], [*run, "--split", "night", "--output", "y.npy"]),
                (65, ["data.h5: has no examples in /night"], ["evaluate", "deck.yaml", "--checkpoint", CHECKPOINT, "--data", "data.h5", "--split", "night"]),
                (65, ["two.h5: is not a dataset", "it has /a, /b, /small)", "two.h5:/DATASET"], ["predict", CHECKPOINT, "--data", "two.h5", "--output", "y.npy"]),
                (65, ["run: is a folder", "name the file in it, as run/checkpoints/latest"], ["predict", "run", "--data", "data.h5:/train", "--output", "y.npy"]),
                (65, ["two.h5:/small: its examples are 14×14×1", "was trained on examples of another shape"], ["predict", CHECKPOINT, "--data", "two.h5:/small", "--output", "y.npy"]),
                (65, ["text.h5:/validation: holds tokens, but the network of the checkpoint reads 28×28×1; give inputs of that shape"],
                 ["predict", CHECKPOINT, "--data", "text.h5:/validation", "--output", "y.npy"]),
                (65, ["data.h5:/validation: holds no tokens, but the network of the checkpoint reads 8 tokens; give inputs of that kind, as `lockstep import text`"],
                 ["predict", "words/checkpoints/latest", "--data", "data.h5:/validation", "--output", "y.npy"]),
                (65, ["only.h5:/x/inputs: holds no tokens, but the network of the checkpoint reads 8 tokens"],
                 ["predict", "words/checkpoints/latest", "--data", "only.h5:/x", "--output", "y.npy"]),
                (66, ["gone.h5"], ["predict", CHECKPOINT, "--data", "gone.h5", "--output", "y.npy"]),
                (66, ["data.h5:train: no such file; the path in data.h5 must begin with a /: write data.h5:/train"],
                 ["predict", CHECKPOINT, "--data", "data.h5:train", "--output", "y.npy"]),
                (66, ["run/checkpoints/best: no such file; this run keeps no best checkpoint (checkpoint.keep_best); use run/checkpoints/latest"],
                 ["predict", "run/checkpoints/best", "--data", "data.h5", "--output", "y.npy"]),
                (66, ["gone.h5"], ["predict", "gone.h5", "--data", "data.h5", "--output", "y.npy"]),
                (65, ["holds no parameters"], ["predict", "data.h5", "--data", "data.h5", "--output", "y.npy"]),
                (73, ["no/y.npy"], [*run[:3], "data.h5:/train", "--output", "no/y.npy"]),
                (64, ["--data"], ["predict", CHECKPOINT]),
                (64, ["--output"], run),
                (64, ["is not a language model"], ["predict", CHECKPOINT, "--generate", 3, "--prompt", "a"])):
            self.refused(status, words, *arguments)
        for status, words, arguments in ((65, ["has examples in /train, /validation"], [*run, "--output", "y.npy"]), (73, ["no/y.npy"], [*run[:3], "data.h5:/train", "--output", "no/y.npy"])):
            self.refused(status, words, *arguments, ranks=2)
        self.assertEqual(sorted(path.name for path in self.folder.glob("*.npy*")), ["taken.npy"])
        self.assertEqual((self.folder / "taken.npy").read_text(), "mine")

    def test_values_have_no_classes(self):
        self.deck("deck.yaml", data={"synthetic": {"kind": "linear", "features": 4, "outputs": 2, "train": 40}}, run={"steps": 1, "output_dir": "values"},
                  model={"layers": [{"linear": 2}]}, loss={"type": "mse"})
        self.lockstep("train", "deck.yaml")
        with h5py.File(self.folder / "x.h5", "w") as file:
            file["x"] = numpy.ones((3, 4), "f4")
        arguments = ["predict", "values/checkpoints/latest", "--data", "x.h5", "--output", "y.csv"]
        self.refused(64, ["outputs values (loss mse)"], *arguments, "--classes")
        self.refused(64, ["outputs values (loss mse), not probabilities"], *arguments, "--probabilities")
        self.lockstep(*arguments)
        self.lockstep("train", "deck.yaml", "loss.type=mae", "run.output_dir=absolute")
        self.refused(64, ["outputs values (loss mae)"], "predict", "absolute/checkpoints/latest", *arguments[2:], "--overwrite", "--classes")

    def test_probabilities_of_single_outputs(self):
        inputs = 30 * numpy.random.default_rng(3).standard_normal((40, 4)).astype("f4")
        with h5py.File(self.folder / "x.h5", "w") as file:
            file["train/inputs"] = inputs
            file["train/targets"] = (inputs[:, :2] > 0).astype("f4")
        self.deck("deck.yaml", data={"file": "x.h5"}, run={"steps": 3, "output_dir": "clicks"}, model={"layers": [{"linear": 2}]},
                  loss={"type": "binary_cross_entropy"})
        self.lockstep("train", "deck.yaml")
        values = {}
        for name, options in (("outputs", []), ("probabilities", ["--probabilities"])):
            self.lockstep("predict", "clicks/checkpoints/latest", "--data", "x.h5", "--output", f"{name}.npy", *options)
            values[name] = numpy.load(self.folder / f"{name}.npy").astype("f8")
        self.assertLess(abs(values["probabilities"] - 1 / (1 + numpy.exp(-values["outputs"]))).max(), 1e-7)
        self.refused(64, ["not classes; leave out --classes"], "predict", "clicks/checkpoints/latest", "--data", "x.h5", "--output", "c.npy", "--classes")


@unittest.skipUnless(h5py, "no h5py")
class Generate(LockstepTest):
    def setUp(self):
        super().setUp()
        self.write("text.txt", "die Katze läuft. " * 300)
        self.lockstep("import", "text", "--file", "text.txt", "--validation", 0.1, "--output", "text.h5")

    def train(self, preset, folder, *overrides, data=None):
        self.deck(f"{folder}.yaml", data=data or {"file": "text.h5", "sequence_length": 16}, run={"steps": 100, "output_dir": folder},
                  model=preset, optimizer={"type": "adamw", "learning_rate": 0.01})
        self.lockstep("train", f"{folder}.yaml", *overrides)
        return f"{folder}/checkpoints/latest"

    def generate(self, checkpoint, *arguments, prompt="die ", count=40, ranks=1):
        return self.lockstep("predict", checkpoint, "--generate", count, "--prompt", prompt, *arguments, ranks=ranks).out.removesuffix("\n")

    def test_it_writes_what_it_has_learned(self):
        transformer = {"preset": "transformer", "vocabulary": 13, "sequence": 16, "d_model": 32, "depth": 1, "heads": 2}
        lstm = {"preset": "lstm", "vocabulary": 13, "sequence": 16, "embedding": 12, "units": 32}
        for folder, preset in (("transformer", transformer), ("lstm", lstm)):
            checkpoint = self.train(preset, folder)
            text = self.generate(checkpoint, "--temperature", 0)
            self.assertTrue(("die Katze läuft. " * 4).startswith(text), text)
            self.assertEqual(len(text), 44)
            self.assertEqual(self.generate(checkpoint, "--temperature", 0, ranks=2), text)
            self.assertEqual(self.generate(checkpoint, "--top-k", 1), text)
            hot = [self.generate(checkpoint, "--temperature", 5, "--seed", seed) for seed in (1, 1, 2)]
            self.assertEqual(hot[0], hot[1])
            self.assertNotEqual(hot[0], hot[2])
            # A prompt may be longer than the sequences that the network reads.
            self.assertTrue(self.generate(checkpoint, "--temperature", 0, prompt="die Katze läuft. die Katze läuft. d", count=5).endswith(" die Ka"))
        self.refused(64, ["--prompt: '#' is not one of the 13 characters"], "predict", checkpoint, "--generate", 2, "--prompt", "a#")
        self.refused(64, ["--prompt is empty"], "predict", checkpoint, "--generate", 2, "--prompt", "")
        self.refused(64, ["--prompt"], "predict", checkpoint, "--generate", 2)
        self.refused(64, ["--data"], "predict", checkpoint, "--generate", 2, "--prompt", "a", "--data", "text.h5", "--output", "y.npy")

    def test_characters_are_known_where_a_part_is_held_out(self):
        lstm = {"preset": "lstm", "vocabulary": 20, "sequence": 16, "embedding": 4, "units": 8}  # a larger vocabulary than the text has characters
        with h5py.File(self.folder / "text.h5", "a") as file:
            del file["validation"]
        checkpoint = self.train(lstm, "run", data={"file": "text.h5", "sequence_length": 16, "validation": 0.2})
        for seed in range(3):
            self.assertEqual(len(self.generate(checkpoint, "--temperature", 100, "--seed", seed, count=30)), 34)

    def test_classes_are_the_tokens_that_follow(self):
        checkpoint = self.train({"preset": "lstm", "vocabulary": 13, "sequence": 16, "embedding": 12, "units": 32}, "run")
        self.lockstep("predict", checkpoint, "--data", "text.h5:/validation", "--output", "y.npy", "--classes")
        self.lockstep("predict", checkpoint, "--data", "text.h5:/validation/tokens", "--output", "z.npy", "--classes")
        classes = numpy.load(self.folder / "y.npy")
        self.assertTrue((classes == numpy.load(self.folder / "z.npy")).all())
        with h5py.File(self.folder / "text.h5") as file:
            tokens = file["validation/tokens"][()].astype(int)
        following = tokens[1:classes.size + 1].reshape(classes.shape)
        self.assertGreater((classes == following)[:, 8:].mean(), 0.95)

    def test_tokens_without_characters_are_numbers(self):
        checkpoint = self.train({"preset": "lstm", "vocabulary": 7, "sequence": 5, "embedding": 4, "units": 8}, "run",
                                data={"synthetic": {"kind": "random", "vocabulary": 7, "sequence_length": 5, "train": 32}})
        text = self.generate(checkpoint, prompt="3 1", count=4).split()
        self.assertEqual((text[:2], len(text)), (["3", "1"], 6))
        self.refused(64, ["--prompt: '7' is not a token from 0 to 6"], "predict", checkpoint, "--generate", 2, "--prompt", "7")

    def test_tokens_of_another_vocabulary(self):
        """As many characters, but others: all numbers would be in range, and wrong."""
        self.write("other.txt", "der Hund bellt. " * 300)
        self.lockstep("import", "text", "--file", "other.txt", "--validation", 0.1, "--output", "other.h5")
        lstm = {"preset": "lstm", "vocabulary": 13, "sequence": 16, "embedding": 4, "units": 8}
        checkpoint = self.train(lstm, "run", "run.steps=1")
        advice = "; import it again with the vocabulary of the latter (`lockstep import text --vocabulary`)"
        for split in ("validation", "test"):
            words = ["other.h5:/validation/tokens: its tokens stand for other characters than those of text.h5:/train/tokens (their vocabularies differ)" + advice]
            arguments = [f"data.{split}_file=other.h5:/validation", "run.output_dir=new"]
            self.refused(65, words, "train", "run.yaml", *arguments, ranks=2)
            self.refused(65, words, "check", "run.yaml", *arguments)
        words = [f"its tokens stand for other characters than those of {checkpoint} (", advice]
        for ranks in (1, 2):
            self.refused(65, ["other.h5:/validation/tokens: ", *words], "evaluate", "run.yaml", "--checkpoint", checkpoint, "--data", "other.h5", ranks=ranks)
            self.refused(65, ["other.h5:/train/tokens: ", *words], "predict", checkpoint, "--data", "other.h5:/train", "--output", "y.npy", ranks=ranks)
        with h5py.File(self.folder / "other.h5", "a") as file:
            del file["vocabulary"]  # then the user has to know
        self.lockstep("evaluate", "run.yaml", "--checkpoint", checkpoint, "--data", "other.h5")

    def test_another_text_in_the_vocabulary_of_a_checkpoint(self):
        lstm = {"preset": "lstm", "vocabulary": 13, "sequence": 16, "embedding": 4, "units": 8}
        checkpoint = self.train(lstm, "run", "run.steps=1")
        with h5py.File(self.folder / "text.h5") as file:
            characters = file["vocabulary"][()].decode()
        self.write("other.txt", characters[:5] * 20)
        for source in (checkpoint, "text.h5"):
            self.lockstep("import", "text", "--file", "other.txt", "--vocabulary", source, "--output", "other.h5", "--overwrite")
            with h5py.File(self.folder / "other.h5") as file:
                self.assertEqual(file["vocabulary"][()].decode(), characters)
                self.assertEqual(file["train/tokens"][:10].tolist(), [0, 1, 2, 3, 4] * 2)
            self.lockstep("evaluate", "run.yaml", "--checkpoint", checkpoint, "--data", "other.h5")
            self.lockstep("predict", checkpoint, "--data", "other.h5:/train", "--output", "y.npy", "--overwrite")
            self.lockstep("check", "run.yaml", "data.validation_file=other.h5")

    def test_evaluation_by_a_deck_whose_data_are_no_file(self):
        """How many tokens a window has is then the examples' own."""
        lstm = {"preset": "lstm", "vocabulary": 13, "sequence": 16, "embedding": 4, "units": 8}
        checkpoint = self.train(lstm, "run", "run.steps=1")
        arguments = ["evaluate", "run.yaml", "--checkpoint", checkpoint, "--data", "text.h5"]
        loss = self.lockstep(*arguments).out
        for name, data in (("memory", {"inputs": [16], "input_type": "tokens"}), ("synthetic", {"kind": "random", "vocabulary": 13, "sequence_length": 16})):
            self.deck("run.yaml", data={name: data}, model=lstm)
            self.assertEqual(self.lockstep(*arguments).out, loss)

    def test_networks_that_look_ahead_write_nothing(self):
        layers = [{"embedding": {"vocabulary": 13, "features": 8}}, {"attention": {"heads": 2, "causal": False}}, {"linear": 13}]
        checkpoint = self.train({"layers": layers}, "run")
        self.refused(64, ["reads the tokens that follow"], "predict", checkpoint, "--generate", 2, "--prompt", "d")


if __name__ == "__main__":
    program.main()
