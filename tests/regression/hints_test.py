# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mistakes of people who are new to Lockstep, and what to do that they are told: where it is, by name, and in one line."""
import unittest

from program import LockstepTest

try:
    import h5py
    import numpy
except ImportError:
    h5py = None


class Hints(LockstepTest):
    def setUp(self):
        super().setUp()
        self.deck()

    def both(self, status, words, *arguments):
        """Of a plan, and of a run on several ranks."""
        self.refused(status, words, "check", *arguments)
        self.refused(status, words, "train", *arguments, ranks=2)

    def test_missing_files_of_keys(self):
        """The key that names one, and its place."""
        no_such = "nothing.h5: no such file; check the path (relative paths start at the working folder)"
        self.deck("bad.yaml", data={"file": "nothing.h5"})
        self.both(66, [f"bad.yaml:2:16: data.file: {no_such}"], "bad.yaml")
        self.deck("bad.yaml", model={"preset": "fc", "weights": "nothing.h5"})
        self.both(66, ["bad.yaml:3:", f"model.weights.file: {no_such}"], "bad.yaml")
        self.both(66, [f"run.branch_from: {no_such}"], "deck.yaml", "run.branch_from=nothing.h5")
        self.both(66, [f"run.resume: {no_such}"], "deck.yaml", "run.resume=nothing.h5")
        for word in ("true", "latest", "no"):
            self.both(66, [f"run.resume: '{word}' is neither auto nor never, and there is no such file; write auto to go on"], "deck.yaml", f"run.resume={word}")
        self.write("text.txt", "to be or not to be " * 20)
        self.lockstep("import", "text", "--file", "text.txt", "--output", "text.h5")
        for key in ("validation_file", "test_file"):
            self.both(66, [f"data.{key}: {no_such}"], "deck.yaml", f"data={{file: text.h5, sequence_length: 4, {key}: 'nothing.h5:/group'}}")

    def test_targets_that_are_never_reached(self):
        for metric, value, words in (("accuracy", 98, "98 is out of range (validation_accuracy is a share, 0 to 1); write 0.98"), ("accuracy", -1, "give a value in it"),
                                     ("top_5", 250, "250 is out of range (validation_top_5 is a share, 0 to 1); give a value in it"),
                                     ("auc", 1.5, "write 0.015"), ("perplexity", 0.5, "0.5 is out of range (validation_perplexity is at least 1); give"),
                                     ("r_squared", 1.25, "1.25 is out of range (validation_r_squared is at most 1); give")):
            self.both(78, [f"run.target.value: {words}" if words[0].isdigit() else words], "deck.yaml",
                      f"run.target={{metric: validation_{metric}, value: {value}}}")
        self.write("study.yaml", "base: deck.yaml\nbudget: {steps: 4}\ngoal: {metric: validation_accuracy, value: 98}\nspace: {optimizer.learning_rate: {log: [0.01, 3]}}\n")
        self.refused(78, ["study.yaml:3:", "goal.value: 98 is out of range", "write 0.98"], "study", "study.yaml")

    @unittest.skipUnless(h5py, "no h5py")
    def test_one_hot_labels(self):
        advice = "; if they are one-hot, store labels.argmax(axis=1)"
        for outputs, one_hot in ((10, True), (7, False)):
            for kind, words in (("f4", "its targets are values, but loss cross_entropy reads classes"), ("i4", "its targets are 10 classes each")):
                with h5py.File(self.folder / "data.h5", "w") as file:
                    file["train/inputs"], file["train/targets"] = numpy.zeros((20, 6), "f4"), numpy.eye(10, dtype=kind)[numpy.arange(20) % 10]
                self.deck(data={"file": "data.h5"}, model={"layers": [{"linear": outputs}]})
                result = self.refused(65, [words], "check", "deck.yaml")
                self.assertEqual(result.errors()[0].endswith(advice), one_hot, result)


if __name__ == "__main__":
    import program
    program.main()
