# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Users' mistakes in decks, files and commands: each gets a message and its exit status, without a hang, and nothing is overwritten. They run
on one rank, and one for each place of the program that refuses something on four. --full: all of them on four ranks, too."""
import os
import re

import program
from idx import idx_file, idx_images, idx_labels
from mistakes import MOSTLY, RANKS, MistakeTest
from program import LockstepTest, snapshot


class BadInput(MistakeTest):
    def dataset(self, name="data.h5", classes=10, size=28):
        images = idx_images(self.folder / "images", 40, size, size)
        labels = idx_labels(self.folder / "labels", 40, classes)
        self.lockstep("import", "idx", "--images", images, "--labels", labels, "--validation", 8, "--output", name)
        return self.folder / name

    def test_missing_data_file(self):
        self.train(66, ["nothing.h5", "no such file"], "data={file: nothing.h5}", on=RANKS)

    def test_missing_deck(self):
        self.check(66, ["nothing.yaml", "no such file"], "train", "nothing.yaml", on=RANKS)

    def test_missing_weights(self):
        self.train(66, ["nothing.h5"], "model.weights=nothing.h5", on=RANKS)

    def test_truncated_hdf5(self):
        path = self.dataset()
        content = path.read_bytes()
        for size, words in ((len(content) // 2, "truncated"), (100, "truncated"), (0, "is empty")):
            path.write_bytes(content[:size])
            self.train(65, ["data.h5", words], "data={file: data.h5}", on=RANKS if size == 100 else MOSTLY)

    def test_damaged_hdf5(self):
        path = self.dataset()
        content = bytearray(path.read_bytes())
        middle = len(content) // 2
        content[middle] ^= 0xFF
        path.write_bytes(content)
        self.train(65, ["data.h5", "checksum"], "data={file: data.h5}", on=RANKS)

    def test_labels_outside_the_classes(self):
        self.dataset(classes=12)
        self.train(65, ["data.h5", "class 10"], "data={file: data.h5}", on=RANKS)

    def test_images_of_another_shape(self):
        self.dataset(size=20)
        self.train(65, ["data.h5", "20×20×1", "28×28×1"], "data={file: data.h5}", "model={preset: simple_cnn}", on=RANKS)

    def test_idx_with_a_wrong_magic_number(self):
        bad = idx_file(self.folder / "images", [1] * 40, 40, 1, 1, magic=0x00000D03)
        labels = idx_labels(self.folder / "labels", 40)
        self.check(65, ["images", "wrong magic number 0x00000d03"], "import", "idx", "--images", bad, "--labels", labels,
                   "--output", "new.h5")
        self.check(65, ["labels", "wrong magic number"], "import", "idx", "--images", labels, "--labels", labels,
                   "--output", "new.h5")

    def test_idx_that_is_cut(self):
        images = idx_images(self.folder / "images", 40)
        images.write_bytes(images.read_bytes()[:1000])
        labels = idx_labels(self.folder / "labels", 40)
        self.check(65, ["images", "truncated"], "import", "idx", "--images", images, "--labels", labels, "--output", "new.h5", on=RANKS)

    def test_import_overwrites_nothing(self):
        path = self.dataset()
        content = path.read_bytes()
        self.check(73, ["data.h5"], "import", "idx", "--images", "images", "--labels", "labels", "--output", "data.h5")
        self.assertEqual(path.read_bytes(), content)

    def test_deck_with_a_tab(self):
        self.write("bad.yaml", "run:\n\tsteps: 4\n")
        self.check(78, ["bad.yaml:2:1", "a tab is used for indentation"], "train", "bad.yaml", on=RANKS)

    def test_unknown_key(self):
        self.deck("bad.yaml", batch={"globl": 16})
        self.check(78, ["bad.yaml:5:9: batch.globl: unknown key", "did you mean 'global'?"], "train", "bad.yaml")

    def test_repeated_key(self):
        path = self.deck("bad.yaml")
        path.write_text(path.read_text() + "batch: {global: 8}\n")
        self.check(78, ["bad.yaml:6:1: batch: repeated key"], "train", "bad.yaml")

    def test_several_mistakes(self):
        """All mistakes are reported at once, in the order of the deck, each with its place."""
        self.write("bad.yaml", "batch: {globl: 16}\noptimizer:\n  learning_rate: fast\n  type: sgd\nrun: {steps: 4, sede: 1, output_dir: run,\n      log_every: 0}\n"
                   "data: {synthetic: {kind: glyphs}}\nmodel: {layers: [flatten, {linear: {}}, rleu]}\n")
        places = ["bad.yaml:1:9: batch.globl: unknown key; did you mean 'global'?", "bad.yaml:3:18: optimizer.learning_rate: 'fast' is given",
                  "bad.yaml:5:17: run.sede: unknown key; did you mean 'seed'?", "bad.yaml:6:18: run.log_every: 0 is out of range",
                  "bad.yaml:8:36: model.layers.1.linear.features: is missing", "bad.yaml:8:41: model.layers.2: 'rleu' is unknown"]
        for command in ("check", "train"):
            for ranks in RANKS:
                errors = self.lockstep(command, "bad.yaml", ranks=ranks, status=78).errors()
                self.assertEqual(len(errors), len(places), errors)
                for error, place in zip(errors, places):
                    self.assertTrue(error.startswith(f"error: {place}"), (error, place))
        self.assertEqual(snapshot(self.folder / "run"), self.before)

    def test_more_mistakes_than_anybody_reads(self):
        """The first ten are reported, and how many more there are."""
        for count, last in ((10, ": run.key10: unknown key"), (11, "error: and 1 more"), (25, "error: and 15 more")):
            self.deck("bad.yaml", run={"steps": 1, **{f"key{number}": 1 for number in range(1, count + 1)}})
            errors = self.lockstep("check", "bad.yaml", status=78).errors()
            self.assertEqual(len(errors), min(count, 11))
            self.assertIn(last, errors[-1])
            self.assertEqual([re.search(r"run\.key(\d+):", error)[1] for error in errors[:10]], [str(number) for number in range(1, 11)])

    def test_text_that_is_not_utf8(self):
        """It is refused at once: files that are written at a run's end could not hold it."""
        for assignment in (b"run.name=\xff", b"run.output_dir=new\xc3", b"run.resume=\xe2\x82.h5", b"r\xfcn.name=x"):
            place = next(number for number, byte in enumerate(assignment, 1) if byte > 127)
            self.train(78, [f"command line:1:{place}: the byte 0x", "is not UTF-8", "(if a folder has such a name, change to it"], os.fsdecode(assignment))
        (self.folder / "bad.yaml").write_bytes(self.deck("bad.yaml").read_bytes() + b"# caf\xe9\n")
        self.check(78, ["bad.yaml:6:6: the byte 0xe9 is not UTF-8"], "train", "bad.yaml")

    def test_name_of_a_layer_that_is_too_long(self):
        """It is refused, since its checkpoints could not be read."""
        for name in ("a" * 1200, "a" * 201, "ü" * 101):
            self.check(78, ["deck.yaml:3:", "model.layers.1: the layer's name has", f"{len(name.encode())} bytes (at most 200 are allowed)"], "check", "deck.yaml",
                       "run.resume=never", "run.overwrite=true", f"model.layers.1.name={name}")
        self.lockstep("train", "deck.yaml", "run.output_dir=long", f"model.layers.1.name={'ü' * 100}")
        self.assertIn("resumes from", self.lockstep("train", "deck.yaml", "run.output_dir=long", "run.steps=6", f"model.layers.1.name={'ü' * 100}").out)

    def test_unwritable_output_folder(self):
        self.write("file", "not a folder")
        folders = ["file", "file/run"]
        if os.geteuid() != 0:  # root may write anywhere
            (self.folder / "closed").mkdir(mode=0o555)
            folders += ["closed", "closed/run"]
        for folder in folders:
            words = [f"{folder}: the output folder cannot be created or changed (", "choose another run.output_dir"]
            self.train(73, words, f"run.output_dir={folder}", on=RANKS)
            self.check(73, words, "check", "deck.yaml", f"run.output_dir={folder}")

    def test_whole_numbers_beyond_64_bits(self):
        for key, words in (("run.seed=18446744073709551615", "run.seed: 18446744073709551615 is out of range"),
                           ("run.log_every=99999999999999999999", "run.log_every: 99999999999999999999 is out of range (at least 1"),
                           ("run.log_every=9999999999999999999x", "a whole number is expected")):
            self.check(78, [words], "check", "deck.yaml", key)

    def test_paths_are_not_expanded(self):
        self.write("home.yaml", "run: {steps: 1, output_dir: ~/runs/x}\ndata: {file: $SCRATCH/x.h5}\nmodel: {preset: fc, weights: a$b}\n")
        lines = [f"error: home.yaml:{place}: '{path}' is not expanded in a deck; write the path out" for place, path in
                 (("1:29: run.output_dir", "~/runs/x"), ("2:14: data.file", "$SCRATCH/x.h5"), ("3:30: model.weights.file", "a$b"))]
        result = self.lockstep("train", "home.yaml", status=78)
        self.assertEqual([line.split(" (on the command line")[0] for line in result.errors()], lines)
        for key in ("run.name", "run.resume", "run.branch_from", "parallel.all_reduce_table"):
            self.check(78, [f"{key}: '$HOME/x' is not expanded in a deck"], "train", "deck.yaml", f"{key}=$HOME/x")
        self.lockstep("check", "deck.yaml", "run.output_dir=a~b")

    def test_names_of_other_programs(self):
        """Keys of other programs are refused with the key to write: several at once, as in a deck that is translated line by line."""
        self.deck("bad.yaml", batch={"batch_size": 32, "gradient_accumulation_steps": 4}, optimizer={"lr": 0.1, "max_grad_norm": 1, "type": "AdamW"},
                  precision={"compute": "bfloat16", "amp": True}, zero_optimization={"stage": 2}, seed=3, fp16={"enabled": True}, num_workers=8)
        errors = "\n".join(self.lockstep("check", "bad.yaml", status=78).errors())
        for words in ("batch.batch_size: has another name here (examples per step, over all ranks); write global",
                      "batch.gradient_accumulation_steps: is not needed here (it follows from batch.global, ",
                      "optimizer.type: 'AdamW' is unknown; did you mean 'adamw'? (known: sgd, ", "precision.compute: 'bfloat16' is unknown", "did you mean 'bf16'?",
                      "precision.amp: has another name here; write compute: bf16, or fp16", "zero_optimization: has another name here (ZeRO's stages 1, 2 and 3); write parallel.shard: ",
                      "seed: unknown key; did you mean 'run.seed'?", "fp16: has another name here; write precision.compute: fp16", "num_workers: is not needed here"):
            self.assertIn(words, errors)
        for assignment, words in (("optimizer={lr: 0.1}", "optimizer.lr: has another name here; write learning_rate"),
                                  ("data.pin_memory=true", "data.pin_memory: is not needed here (a thread of each rank reads ahead of the steps); remove it"),
                                  ("schedule={type: cosine, T_max: 9}", "schedule.T_max: has another name here (to the end of the run, when not given); write period with its unit"),
                                  ("schedule={type: step, gamma: 0.1}", "schedule.gamma: has another name here; write factor"),
                                  ("optimizer={betas: [0.9, 0.99]}", "optimizer.betas: is an option of type: adam, adamw, lion, lamb, but here it is sgd; remove it, use one of these, or replace the whole section with {type: sgd}"),
                                  ("model.layers=[{conv2d: {in_channels: 1, filters: 8, kernel: 3}}]", "model.layers.0.conv2d.in_channels: is not needed here"),
                                  ("model.layers=[flatten, ReLU]", "did you mean 'relu'?"), ("run.save_top_k=3", "write checkpoint.keep_best, as keep_best: {metric: ")):
            self.check(78, [words], "check", "deck.yaml", assignment)

    def test_mistakes_of_syntax(self):
        advice = "; look here and in the line before for a colon without a space after it, an open bracket, unequal indentation, or text that needs quotation marks"
        for text, words in (("run:\n  epochs:1\n  seed: 2\n", "bad.yaml:3:7: not valid YAML (illegal map value)" + advice),
                            ("run: {epochs:1}\n", "run.epochs:1: has no space after its colon; write epochs: 1"),
                            ("run: {epochs: 1}\nmodel:\n  layers: [relu, {linear: 3},\n    'it]'\n  input: [3]\n", advice),
                            ("run: {epochs: 1 # }\nmodel: {preset: fc}\n", advice), ("run: {epochs: 1 seed: 2}\n", advice),
                            ("model: {freeze: [*conv]}\n", advice)):
            self.write("bad.yaml", text)
            self.check(78, [words], "check", "bad.yaml")

    def test_hdf5_file_as_a_deck(self):
        self.dataset()
        self.check(78, ["data.h5:1:1: is an HDF5 file, not a deck; give a deck (YAML)"], "check", "data.h5")
        (self.folder / "checkpoint.h5").write_bytes(b"lockstep manifest 1".ljust(1024, b"\0") + (self.folder / "data.h5").read_bytes())
        self.check(78, ["checkpoint.h5:1:1: is an HDF5 file, not a deck; give a deck (YAML)"], "check", "checkpoint.h5")

    def test_values_in_the_place_of_sections(self):
        self.deck("bad.yaml", batch=128, optimizer="adamw", model="resnet50", loss="cross_entropy", precision="bf16", data="mnist.h5")
        errors = "\n".join(self.lockstep("check", "bad.yaml", status=78).errors())
        for words in ("batch: {global: 128}", "optimizer: {type: \"adamw\"}", "model: {preset: \"resnet50\"}", "loss: {type: \"cross_entropy\"}",
                      "precision: {compute: \"bf16\"}", "data: {file: \"mnist.h5\"}"):
            self.assertIn(f"is given (a mapping (key: value) is expected); write {words}", errors)
        self.check(78, ["batch: '128' is given (a mapping (key: value) is expected); write batch.global=128"], "check", "deck.yaml", "batch=128")

    def test_options_beside_their_layer(self):
        self.write("bad.yaml", "run: {steps: 4}\ndata: {synthetic: {kind: glyphs}}\nmodel:\n  layers:\n    - conv2d:\n      filters: 8\n"
                   "    - {type: linear, features: 10}\n")
        for ranks in RANKS:
            errors = "\n".join(self.lockstep("check", "bad.yaml", ranks=ranks, status=78).errors())
            self.assertIn("bad.yaml:6:7: model.layers.0.filters: 'filters' is an option of conv2d; indent it below its type, or write {conv2d: {filters: 8}}", errors)
            self.assertIn("bad.yaml:7:8: model.layers.1.type: a type is written as the key of its options; write {linear: {features: 10}}", errors)

    def test_earlier_run_is_not_overwritten(self):
        self.check(73, ["run: holds an earlier run", "run.overwrite=true"], "train", "deck.yaml", "run.resume=never", on=RANKS)

    def test_resume_of_another_run(self):
        self.check(78, ["batch.global=8", ": batch.global: was 16 in run/checkpoints/step-00000004.h5 and is 8"], "train", "deck.yaml", "batch.global=8", "run.steps=8", on=RANKS)
        self.check(78, ["run.seed: was 7 in"], "train", "deck.yaml", "run.seed=8", "run.steps=8")
        self.check(78, ["data.shuffle: was true in"], "train", "deck.yaml", "data.shuffle=false", "run.steps=8")
        advice = "; keep the optimizer's options, or start from the parameters alone with model.weights"
        named = "run.resume=run/checkpoints/step-00000004.h5"
        self.check(65, ["/optimizer/velocity/", advice], "train", "deck.yaml", "optimizer.momentum=0", "run.steps=8", named)
        for command in ("check", "train"):
            self.check(65, ["has no /optimizer/exp_avg/linear_", "(the optimizer of the deck needs it)", advice], command, "deck.yaml",
                       "optimizer={type: adam, learning_rate: 0.1}", "run.steps=8", named)
        self.check(65, ["checkpoints"], "train", "deck.yaml", "run.steps=8",
                   "model={layers: [flatten, {linear: {features: 10}}]}", named)
        # Without a named file, the checkpoint is that of the run's folder, and the deck is wrong.
        anew = "; give another run.output_dir or run.name, or start from scratch with run.resume=never run.overwrite=true"
        for command in ("check", "train"):
            self.check(78, ["run.output_dir: run holds a run with a different network (model/linear_2/weight is 10×16 there, 10×12 here)" + anew],
                       command, "deck.yaml", "run.steps=8", "model.layers.1={linear: {features: 12}}")
            # With another batch and seed it is still reported as another network.
            self.check(78, ["run.output_dir: run holds a run with a different network (model/linear_2/weight is 10×16 there, 10×12 here)" + anew],
                       command, "deck.yaml", "run.steps=8", "model.layers.1={linear: {features: 12}}", "batch.global=8", "run.seed=8")
        self.check(65, ["step-00000004.h5:/model/linear_2/weight"], "train", "deck.yaml", "model.layers.1={linear: {features: 12}}", "batch.global=8", named)
        self.check(78, ["batch.global: was 16 in", "keep it, or start a new run from its parameters (model.weights: run/checkpoints/step-00000004.h5)"], "train",
                   "deck.yaml", "batch.global=8", named)
        self.check(78, ["run.output_dir: run holds a run with a different optimizer (optimizer/exp_avg/linear_2/weight is not there)", "model.weights, to start from its parameters alone"], "train",
                   "deck.yaml", "optimizer={type: adam, learning_rate: 0.1}", "run.steps=8")
        self.check(78, ["run.output_dir: run holds a run with a different optimizer (optimizer/velocity/", " is not here)"], "train", "deck.yaml",
                   "optimizer.momentum=0", "run.steps=8", on=RANKS)
        self.deck("other.yaml", batch={"global": 8})
        for command in ("check", "train"):
            self.check(78, ["other.yaml:5:19: batch.global: was 16 in"], command, "other.yaml")

    def test_weights_of_another_network(self):
        weights = "model.weights=run/checkpoints/step-00000004.h5"
        for command in ("check", "train"):
            self.check(65, ["step-00000004.h5:/model/linear_2/weight", "10×16"], command, "deck.yaml", "run.resume=never",
                       "run.overwrite=true", weights, "model.layers.1={linear: {features: 12}}", on=RANKS if command == "train" else MOSTLY)

    def test_broken_checkpoints(self):
        for path in (self.folder / "run" / "checkpoints").iterdir():
            path.write_bytes(path.read_bytes()[:2000])
        self.before = snapshot(self.folder / "run")
        self.check(65, ["checkpoints"], "train", "deck.yaml", "run.steps=8", on=RANKS)


class BadUsage(LockstepTest):
    def test_command_line(self):
        self.deck()
        for arguments in ([], ["trian"], ["train"], ["train", "deck.yaml", "--fast"], ["train", "deck.yaml", "seed"],
                          ["check", "deck.yaml", "--ranks", "0"], ["import"], ["import", "idx"], ["evaluate", "deck.yaml"]):
            for ranks in RANKS if arguments in ([], ["train"]) else MOSTLY:
                with self.subTest(arguments=arguments, ranks=ranks):
                    self.refused(64, [], *arguments, ranks=ranks)
        self.assertFalse((self.folder / "run").exists())

    def test_commands_that_are_none(self):
        for arguments, words in ((["trian", "deck.yaml"], ["'trian' is not a command of lockstep (train, check,", "; did you mean 'train'?"]),
                                 (["bench", "gem"], ["'gem' is not a command of bench (peak, gemm, ", "; did you mean 'gemm'?"]),
                                 (["import", "idxx", "--images", "x"], ["'idxx' is not a command of import (idx, cifar10, cifar100, npy, text)", "; did you mean 'idx'?"]),
                                 (["--quick", "chek"], ["'chek' is not a command of lockstep", "; did you mean 'check'?"]),
                                 (["--verison"], ["'--verison' is not an option of lockstep"]),
                                 (["--quick", "train", "deck.yaml"], ["'--quick' is not an option of lockstep"]),
                                 (["fly"], ["'fly' is not a command of lockstep (train, ", "schema); see lockstep --help"]),
                                 (["check", "deck.yaml", "--memory", "inf"], ["--memory: 'inf' is not a finite number; give one; see lockstep check --help"]),
                                 (["check", "deck.yaml", "--memory", "1e400"], ["--memory: '1e400' is not a finite number"]),
                                 (["predict", "gone.h5", "--generate", "2", "--prompt", "a", "--temperature", "nan"], ["--temperature: 'nan' is not a finite number"]),
                                 (["check", "deck.yaml", "--memory", "40GB"],
                                  ["--memory: '40GB' is not a number of gigabytes (10^9 bytes); write it without a unit, as in --memory 40; see lockstep check --help"]),
                                 (["train", "deck.yaml", "--optimizer.learning_rate=0.1"],
                                  ["changes to the deck are written without --: optimizer.learning_rate=0.1; see lockstep train --help"]),
                                 (["bench", "gemm", "--types", "fp8"], ["--types: 'fp8' is not one of fp32, fp64, bf16, fp16; give one of these; see"]),
                                 (["bench", "conv", "--batch", "0"], ["--batch: '0' is not a number of examples; give a whole number, at least 1; see"]),
                                 (["bench", "gemm", "--fast"], ["'--fast' is not an option of lockstep bench gemm; see lockstep bench gemm --help"])):
            for ranks in MOSTLY:
                with self.subTest(arguments=arguments, ranks=ranks):
                    self.refused(64, words, *arguments, ranks=ranks)


if __name__ == "__main__":
    program.main()
