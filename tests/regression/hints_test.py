# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mistakes of new users: the message names the place and the remedy, in one line."""
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
        """Expects `check`, and `train` on several ranks, to refuse this."""
        self.refused(status, words, "check", *arguments)
        self.refused(status, words, "train", *arguments, ranks=2)

    def test_missing_files_of_keys(self):
        """The message names the key of the file, and its place."""
        no_such = "nothing.h5: no such file; check the path (relative paths start at the working folder)"
        self.deck("bad.yaml", data={"file": "nothing.h5"})
        self.both(66, [f"bad.yaml:2:16: data.file: {no_such}"], "bad.yaml")
        self.deck("bad.yaml", model={"preset": "fc", "weights": "nothing.h5"})
        self.both(66, ["bad.yaml:3:", f"model.weights.file: {no_such}"], "bad.yaml")
        self.both(66, [f"run.branch_from: {no_such}"], "deck.yaml", "run.branch_from=nothing.h5")
        self.both(66, [f"run.resume: {no_such}"], "deck.yaml", "run.resume=nothing.h5")
        for word in ("true", "latest", "no"):
            self.both(66, [f"run.resume: '{word}' is neither auto nor never, and there is no such file; give auto to resume"], "deck.yaml", f"run.resume={word}")
        self.write("text.txt", "to be or not to be " * 20)
        self.lockstep("import", "text", "--file", "text.txt", "--output", "text.h5")
        for key in ("validation_file", "test_file"):
            self.both(66, [f"data.{key}: {no_such}"], "deck.yaml", f"data={{file: text.h5, sequence_length: 4, {key}: 'nothing.h5:/group'}}")

    def test_values_in_the_place_of_mappings(self):
        """The advice names the key that can have this value."""
        for override, words in (("checkpoint.keep_best=3", "write checkpoint.keep_best.count=3"),
                                ("checkpoint.keep_best=validation_accuracy", "write checkpoint.keep_best.metric=validation_accuracy"),
                                ("run.patience=validation_loss", "write run.patience.metric=validation_loss"),
                                ("schedule=cosine", "write schedule.type=cosine"), ("schedule=3", "write some of its keys: ")):
            self.both(78, [words], "deck.yaml", override)

    def test_targets_that_are_never_reached(self):
        for metric, value, words in (("accuracy", 98, "98 is out of range (validation_accuracy is a share, 0 to 1); write 0.98"), ("accuracy", -1, "give a value in this range"),
                                     ("top_5", 250, "250 is out of range (validation_top_5 is a share, 0 to 1); give a value in this range"),
                                     ("auc", 1.5, "write 0.015"), ("perplexity", 0.5, "0.5 is out of range (validation_perplexity is at least 1); give"),
                                     ("r_squared", 1.25, "1.25 is out of range (validation_r_squared is at most 1); give")):
            self.both(78, [f"run.target.value: {words}" if words[0].isdigit() else words], "deck.yaml",
                      f"run.target={{metric: validation_{metric}, value: {value}}}")
        self.write("study.yaml", "base: deck.yaml\nbudget: {steps: 4}\ngoal: {metric: validation_accuracy, value: 98}\nspace: {optimizer.learning_rate: {log: [0.01, 3]}}\n")
        self.refused(78, ["study.yaml:3:", "goal.value: 98 is out of range", "write 0.98"], "study", "study.yaml")

    def test_keys_given_as_options(self):
        """A key that is given as an option is refused with its form section.key=value."""
        written = "is not an option; changes to the deck are written without --: "
        for arguments, words in ((("--epochs", "5"), f"'--epochs' {written}run.epochs=5; see lockstep train --help"), (("--epochs=5",), f"'--epochs=5' {written}run.epochs=5"),
                                 (("--resume",), f"'--resume' {written}run.resume=VALUE"), (("--lr", "0.1"), f"'--lr' {written}optimizer.learning_rate=0.1"),
                                 (("--learning-rate", "-1"), f"{written}optimizer.learning_rate=-1"), (("run.seed=3", "--batch-size", "64"), f"{written}batch.global=64"),
                                 (("--run.epochs", "5"), f"'--run.epochs' {written}run.epochs=5"),
                                 (("--amp",), "'--amp' is not an option; the deck has precision.compute: bf16, or fp16, and its changes are written without --, as in run.epochs=5"),
                                 (("--num-workers", "8"), "'--num-workers' is not an option, and is not needed (a thread of each rank reads ahead of the steps); remove it"),
                                 (("=64",), "'=64' is not an override (a key in its path is empty); write key.path=value"),
                                 (("batch.global", "=", "64"), "'batch.global' is not an override (no '='); write key.path=value, without spaces around =")):
            self.refused(64, [words], "train", "deck.yaml", *arguments)

    def test_options_that_are_misspelt(self):
        self.refused(64, ["'--image' is not an option of lockstep import idx; did you mean '--images'?; see lockstep import idx --help"],
                     "import", "idx", "--image", "F", "--labels", "L", "--output", "x.h5")
        self.refused(64, ["'--rank' is not an option of lockstep check; did you mean '--ranks'?"], "check", "deck.yaml", "--rank", "4")
        self.refused(64, ["'first', 'second' are not expected here; see lockstep inspect"], "inspect", "x.h5", "first", "second")
        for before in (["-np", "2"], ["-n", "2"]):
            self.refused(64, [f"'{before[0]}' is not an option of lockstep (a launcher starts the ranks); write mpirun -n 2 lockstep …, or scripts/lockstep -n 2 …"],
                         *before, "train", "deck.yaml")
        self.refused(64, ["'-np' is not an option of lockstep train (a launcher starts the ranks); write mpirun -n 2 lockstep …"], "train", "deck.yaml", "-np", "2")

    def test_values_of_options(self):
        """Empty values (as of a shell variable that is not set), and the command-line parser's own messages."""
        empty = "its value is empty (an unset shell variable?); give one; see lockstep"
        for arguments in (["train", ""], ["train", "deck.yaml", ""], ["bench", "allreduce", "--save", ""], ["import", "text", "--file", "x", "--output", ""]):
            self.refused(64, [empty], *arguments)
        self.refused(64, ["command line: --ranks: Value 0 not in range [1 - 10000000]; see lockstep check --help"], "check", "deck.yaml", "--ranks", "0")
        self.refused(64, ["command line: a command is missing; give one of peak, gemm, "], "bench")
        self.refused(64, ["command line: --ranks: 1 required ", " missing; see lockstep check --help"], "check", "deck.yaml", "--ranks")
        self.refused(64, ["'--ranks' is not an option of lockstep train (a launcher starts the ranks); write mpirun -n 4 lockstep …"], "train", "deck.yaml", "--ranks", "4")

    def test_options_of_layers(self):
        for assignment, words in (("model.layers.1.bias=false", "model.layers.1.bias: 'bias' is an option of linear; write model.layers.1.linear.bias=false"),
                                  ("model.layers.1.units=3", "model.layers.1.units: unknown key; only name and from can be given next to linear; its options go below it: "),
                                  ("model.layers.0.units=3", "'model.layers.0' is a value, not a mapping ('flatten' has no keys); replace the whole value: model.layers.0=…")):
            self.refused(78, [words], "check", "deck.yaml", assignment)

    def test_places_in_the_place_of_names(self):
        self.refused(78, ["command line 'run.name=..':1:10: run.name: '..' cannot be the name of a folder (it stands for an existing folder); give another name"],
                     "train", "deck.yaml", "run.name=..")
        self.refused(78, ["command line 'model.layers[1].features=3':1:1: model.layers[1].features: list entries are given after a dot, counted from 0; write model.layers.1.features"],
                     "train", "deck.yaml", "model.layers[1].features=3")

    def test_counts_and_fractions(self):
        self.refused(64, ["--validation: '0.1' is not a number of examples (only import text takes a fraction); give a whole number, as in --validation 5000"],
                     "import", "idx", "--images", "i", "--labels", "l", "--output", "x.h5", "--validation", "0.1")
        self.refused(64, ["--validation: '1000' is not a fraction of the text (other importers count examples); give one, as in --validation 0.1"],
                     "import", "text", "--file", "t", "--output", "x.h5", "--validation", "1000")

    def test_names_that_others_use(self):
        for assignment, words in (("run={steps: 1, manual_seed: 3}", "run.manual_seed: has another name here (of all ranks); write seed"),
                                  ("learning_rate=1", "learning_rate: unknown key; did you mean 'optimizer.learning_rate'?"),
                                  ("output_dir=x", "output_dir: unknown key; did you mean 'run.output_dir'?"),
                                  ("run.shard=optimizer", "run.shard: unknown key; did you mean 'parallel.shard'?"),
                                  ("model.loss=mse", "model.loss: unknown key; did you mean 'loss' at the top level of the deck?"),
                                  ("optimizer.wd=0.1", "optimizer.wd: has another name here; write weight_decay"),
                                  ("optimizer.groups=[{match: '*weight', wd: 0.1}]", "optimizer.groups.0.wd: has another name here; write weight_decay"),
                                  *((f"optimizer.groups=[{{match: '*weight', {name}: 0.1}}]",
                                     f"optimizer.groups.0.{name}: has another name here (it multiplies optimizer.learning_rate); write learning_rate_scale")
                                    for name in ("lr", "learning_rate")),
                                  ("loss={ignore_index: -100}", "loss.ignore_index: has another name here (a number from 0 on that no class has, such as 255); write ignore_class"),
                                  ("loss={weight: [1, 2]}", "loss.weight: has another name here; write class_weights"),
                                  *((f"loss.type={name}", f"loss.type: '{name}' is unknown; did you mean '{ours}'? (known: ")
                                    for name, ours in (("bce", "binary_cross_entropy"), ("bce_with_logits", "binary_cross_entropy"), ("nll_loss", "cross_entropy"),
                                                       ("mse_loss", "mse"), ("l1_loss", "mae"))),
                                  ("loss.type=smooth_l1", "loss.type: 'smooth_l1' is unknown; write huber with delta: β, which is β times smooth_l1"),
                                  ("model.layers=[flatten, {Dense: 10}]", "model.layers.1.Dense: unknown key; did you mean 'linear'?"),
                                  ("run.wall_time=12", "'12' is given (a duration is expected); write it, as \"2:00:00\" (hours, minutes, seconds)"),
                                  ("zero_stage=2", "write parallel.shard: optimizer, gradients or parameters"),
                                  ("precision.compute=tf32", "precision.compute: 'tf32' is unknown; write providers: {tf32: true} (known: fp32"),
                                  ("precision.tf32=true", "precision.tf32: has another name here; write providers: {tf32: true}"),
                                  ("model.layers=[flatten, {dropout: {p: 0.1}}]", "model.layers.1.dropout.p: has another name here; write rate"),
                                  ("model.layers=[{embedding: {num_embeddings: 9, features: 4}}]", "num_embeddings: has another name here; write vocabulary"),
                                  ("model.layers=[{embedding: {embedding_dim: 9, vocabulary: 4}}]", "embedding_dim: has another name here; write features"),
                                  ("model.layers=[flatten, {dense: {features: 10}}]", "model.layers.1.dense: unknown key; did you mean 'linear'?"),
                                  ("model.layers=[multi_head_attention]", "model.layers.0: 'multi_head_attention' is unknown; did you mean 'attention'? (known: "),
                                  ("model.layers=[flaten]", "model.layers.0: 'flaten' is unknown; did you mean 'flatten'? (known: ")):
            self.refused(78, [words], "check", "deck.yaml", assignment)

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
