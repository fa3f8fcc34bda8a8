# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What `lockstep check` finds in decks and data, and what it prints: unusable examples, how a batch is divided among ranks, the time of a run,
and the resolved deck for other programs."""
import json
import math
import os
import re
import threading
import unittest

import program
from program import SOURCE, LockstepTest, runs_on_device

try:
    import h5py
    import numpy
except ImportError:
    h5py = None
try:
    import yaml
except ImportError:
    yaml = None

VECTORS = {"layers": [{"linear": 5}, "relu", {"linear": 3}]}


@unittest.skipUnless(h5py, "Python's h5py is not here")
class Data(LockstepTest):
    def dataset(self, name, **splits):
        """Writes a dataset file; `splits`: name=(inputs, targets). Returns a deck that reads it."""
        with h5py.File(self.folder / name, "w") as file:
            for split, (inputs, targets) in splits.items():
                file[f"{split}/inputs"], file[f"{split}/targets"] = inputs, targets
        return self.deck(data={"file": name}, model=VECTORS)

    def examples(self, count):
        inputs = numpy.random.default_rng(0).normal(size=(count, 8)).astype("f4")
        return inputs, (numpy.arange(count) % 3).astype("i4")

    def test_sound_data(self):
        self.dataset("good.h5", train=self.examples(40), validation=self.examples(12))
        for ranks in (1, 2):
            out = self.lockstep("check", "deck.yaml", "--data", ranks=ranks).out
            for line in ("good.h5:/train: 40 examples, all usable", "good.h5:/validation: 12 examples, all usable"):
                self.assertEqual(out.splitlines().count(line), 1, out)
        self.assertNotIn("usable", self.lockstep("check", "deck.yaml").out, "it was not asked to read them all")
        self.deck()
        self.assertIn("synthetic glyphs, train: 64 examples, all usable", self.lockstep("check", "deck.yaml", "--data").out)

    def test_examples_that_are_of_no_use(self):
        (inputs, classes), validation = self.examples(40), self.examples(12)
        inputs[3, 7], inputs[17, 0], classes[5], validation[0][0, 0] = math.nan, math.inf, 3, -math.inf
        self.dataset("bad.h5", train=(inputs, classes), validation=validation)
        for ranks in (1, 2):
            result = self.refused(65, ["bad.h5: some examples cannot be used"], "check", "deck.yaml", "--data", ranks=ranks)
            for line in ("bad.h5:/train: 40 examples; inputs that are not finite of 2 examples: 3, 17; classes outside 0 to 2 of 1 example: 5",
                         "bad.h5:/validation: 12 examples; inputs that are not finite of 1 example: 0"):
                self.assertEqual(result.out.splitlines().count(line), 1, result)
        self.assertFalse((self.folder / "run").exists())

    def test_the_first_ten_are_named(self):
        inputs, classes = self.examples(40)
        inputs[4:16] = math.nan
        self.dataset("bad.h5", train=(inputs, classes))
        result = self.refused(65, ["bad.h5"], "check", "deck.yaml", "--data")
        self.assertIn("of 12 examples: 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, …\n", result.out)

    def test_targets_that_are_not_finite(self):
        inputs, _ = self.examples(40)
        targets = numpy.zeros((40, 3), "f4")
        targets[39, 2] = math.nan
        self.dataset("bad.h5", train=(inputs, targets))
        result = self.refused(65, ["bad.h5"], "check", "deck.yaml", "--data", "loss.type=mse")
        self.assertIn("40 examples; targets that are not finite of 1 example: 39\n", result.out)

    def test_targets_that_are_no_probabilities(self):
        """Training refuses them, too, on all ranks; another loss reads them."""
        inputs, _ = self.examples(40)
        targets = numpy.zeros((40, 3), "f4")
        targets[0, :2] = 0.5, 1
        targets[5, 1], targets[38, 0], targets[39, 2] = 7.5, -0.25, math.nan
        self.dataset("bad.h5", train=(inputs, targets))
        for ranks in (1, 2):
            result = self.refused(65, ["bad.h5"], "check", "deck.yaml", "--data", "loss.type=binary_cross_entropy", ranks=ranks)
            self.assertIn("40 examples; targets that are not finite of 1 example: 39; targets outside 0 to 1 of 2 examples: 5, 38\n", result.out)
            self.refused(65, ["bad.h5:/train: example 5 has the target 7.5 as its number 1 (this loss reads targets from 0 to 1); correct the targets"],
                         "train", "deck.yaml", "loss.type=binary_cross_entropy", ranks=ranks)
        self.assertFalse((self.folder / "run").exists())
        targets[39, 2] = 0
        self.dataset("bad.h5", train=(inputs, targets))
        self.assertIn("40 examples, all usable", self.lockstep("check", "deck.yaml", "--data", "loss.type=mse").out)

    def test_images_with_channels_first(self):
        for shape, said in (((3, 32, 32), True), ((1, 28, 28), True), ((32, 32, 3), False), ((28, 28, 1), False), ((3, 3, 3), False)):
            with self.subTest(shape):
                self.dataset("images.h5", train=(numpy.zeros((20, *shape), "u1"), numpy.zeros(20, "i4")))
                self.deck(data={"file": "images.h5"})
                err = self.lockstep("check", "deck.yaml").err
                self.assertEqual(err.count(f"warning: images.h5:/train: its examples are {'×'.join(map(str, shape))}, which is read as height"), said, err)
        self.dataset("images.h5", train=(numpy.zeros((20, 3, 32, 32), "u1"), numpy.zeros(20, "i4")))
        self.deck(data={"file": "images.h5"})
        self.assertEqual(self.lockstep("train", "deck.yaml", ranks=2).err.count("numpy.transpose"), 1, "said by one rank")


    def test_filters_that_hdf5_has_not(self):
        deck = self.dataset("packed.h5")
        for compression in ("gzip", "lzf"):
            with h5py.File(self.folder / "packed.h5", "w") as file:
                for name, values in zip(("inputs", "targets"), self.examples(40)):
                    file.create_dataset(f"train/{name}", data=values, chunks=True, compression=compression)
            if compression == "gzip":
                self.lockstep("check", deck)
                continue
            for ranks in (1, 2):
                self.refused(65, ["packed.h5:/train/", "the filter 'lzf'", 'compression="gzip"'], "train", deck, ranks=ranks)

    def test_names_that_are_not_known(self):
        inputs, classes = self.examples(40)
        with h5py.File(self.folder / "flat.h5", "w") as file:
            file["x"], file["y"] = inputs, classes
        self.deck(data={"file": "flat.h5"}, model=VECTORS)
        self.refused(65, ["flat.h5: is not a dataset (it has neither /train/inputs", "; it has /x, /y)", "with h5py or"], "check", "deck.yaml")
        with h5py.File(self.folder / "flat.h5", "w") as file:
            file["train"], file["labels"] = inputs, classes
        self.refused(65, ["flat.h5: is not a dataset (it has neither /train/inputs", "; it has /labels, /train)"], "check", "deck.yaml")


class AfterARun(LockstepTest):
    def test_plans_for_elsewhere_and_here(self):
        self.deck()
        self.lockstep("train", "deck.yaml")
        for options in (["--ranks", 64], ["--ranks", 4, "--nodes", 2]):
            result = self.refused(78, ["batch.global: was 16 in run/checkpoints/step-00000004.h5 and is 32"], "check", "deck.yaml", *options, "batch.global=32")
            self.assertIn("memory of a step ", result.out)
        out = self.lockstep("check", "deck.yaml", "--ranks", 8, "--machine", SOURCE / "docs/user/machines/ethernet_10g.yaml", "batch.global=32").out
        self.assertIn("starts from          the newest checkpoint of its folder, which is not read", out)
        self.assertIn("starts from          run/checkpoints/step-00000004.h5, after step 4", self.lockstep("check", "deck.yaml").out)
        result = self.refused(78, ["batch.global: was 16 in run/checkpoints/step-00000004.h5 and is 32"], "check", "deck.yaml", "batch.global=32")
        self.assertIn("memory of a step ", result.out, "the plan comes first")
        self.assertIn("starts from          nothing: this deck cannot be trained in run", result.out)


class Pipe(LockstepTest):
    def test_a_deck_is_read_but_once(self):
        self.deck()
        text = (self.folder / "deck.yaml").read_text()
        os.mkfifo(self.folder / "pipe")
        writer = threading.Thread(target=lambda: (self.folder / "pipe").write_text(text), daemon=True)
        writer.start()
        self.assertIn("steps                4 in 1 epoch of 4", self.lockstep("check", "pipe").out)
        writer.join(10)


class Length(LockstepTest):
    def test_which_of_epochs_and_steps_ends_it(self):
        self.deck()  # 4 steps, and an epoch of 4
        self.assertNotIn("would be", self.lockstep("check", "deck.yaml").out)
        for overrides, steps, why in ((["run.epochs=900"], "4 in 1 epoch of 4", "4 steps (run.steps; run.epochs would be 3600)"),
                                      (["run.epochs=1", "run.steps=50"], "4 in 1 epoch of 4", "4 steps (run.epochs; run.steps would be 50)")):
            self.assertIn(f"steps                {steps}{why.removeprefix('4 steps')}\n", self.lockstep("check", "deck.yaml", *overrides).out)
            self.assertIn(f", {why}\n", self.lockstep("train", "deck.yaml", "run.overwrite=true", "run.resume=never", *overrides).out)


class Batch(LockstepTest):
    def setUp(self):
        super().setUp()
        self.deck(batch={"global": 50})

    def step_lines(self, *arguments):
        """The output of `check` about a step, and its warnings."""
        result = self.lockstep("check", "deck.yaml", *arguments)
        step = next(line for line in result.out.splitlines() if line.startswith("step  "))
        return step.split(None, 1)[1], [line.removeprefix("warning: ") for line in result.err.splitlines() if line.startswith("warning: ")]

    def test_how_it_is_dealt_out(self):
        for ranks, text in ((1, "1 rank × 50, at most 50"), (8, "8 ranks × 6 or 7, at most 7"), (5, "5 ranks × 10, at most 10"), (50, "50 ranks × 1, at most 1")):
            self.assertEqual(self.step_lines("--ranks", ranks), (f"batch 50 = {text} at once", []))
        self.assertEqual(self.step_lines("--ranks", "010")[0], self.step_lines("--ranks", 10)[0], "no octal number")
        self.assertEqual(self.step_lines("--ranks", 8, "batch.micro=2")[0], "batch 50 = 8 ranks × 6 or 7, at most 2 at once")
        shards = ["parallel={virtual_replicas: 4, sync_batch_norm: false}", "model.layers.2=batch_norm"]
        self.assertEqual(self.step_lines("--ranks", 4, *shards)[0], "batch 50 = 4 ranks × 12 to 14, at most 4 at once", "each of them four replicas")

    def test_ranks_that_train_would_refuse(self):
        self.assertEqual(self.step_lines("data.sampler=distributed_sampler", "--ranks", 5)[1], [])
        self.refused(78, ["batch.global: 50 examples cannot be divided evenly among 3 ranks"], "check", "deck.yaml", "data.sampler=distributed_sampler", "--ranks", 3)
        self.refused(78, ["batch.global: 50 examples cannot be divided into 3 equal parts (parallel.asynchronous.collect)"], "check", "deck.yaml",
                     "parallel.asynchronous={collect: 3, schedule: {free: true}}", "--ranks", 4)
        self.refused(66, ["nowhere.txt"], "check", "deck.yaml", "parallel.asynchronous={schedule: {replay: nowhere.txt}}")
        self.refused(66, ["table.yaml"], "check", "deck.yaml", "parallel={all_reduce: auto, all_reduce_table: table.yaml}")

    def test_ranks_without_examples(self):
        text, remarks = self.step_lines("--ranks", 512)
        self.assertEqual(text, "batch 50 = 512 ranks × 0 or 1, at most 1 at once")
        self.assertEqual(remarks, ["462 of 512 ranks have no examples in a step of 50; use fewer ranks, or a larger batch.global"])

    def test_more_than_the_data_have(self):
        text, remarks = self.step_lines("--ranks", 8, "batch.global=500")
        self.assertEqual(text, "batch 64 = 8 ranks × 8, at most 8 at once")
        self.assertEqual(remarks, ["batch.global: 500 examples are more than the 64 training examples; each step takes all of them"])

    def test_batches_that_never_come(self):
        said = "batch.ramp: the run ends after 4 steps, before batches of {} begin (after {}); make it longer, or remove that point"
        for ramp, words in (("[[2 steps, 20], [4 steps, 32], [5 epochs, 640]]", [said.format(32, "4 steps")]), ("[[9 epochs, 640]]", [said.format(640, "9 epochs")]),
                            ("[[3 steps, 32]]", [])):
            self.assertEqual(self.step_lines("batch.global=16", f"batch.ramp={ramp}")[1], words, ramp)
        err = self.lockstep("train", "deck.yaml", "batch.global=16", "batch.ramp=[[9 epochs, 32]]").err
        self.assertEqual(err.count("warning: " + said.format(32, "9 epochs")), 1, err)

    def test_when_it_evaluates_and_saves(self):
        def lines(*overrides):
            out = self.lockstep("check", "deck.yaml", *overrides).out
            return [next(line for line in out.splitlines() if line.startswith(f"{what}  ")).split(None, 1)[1] for what in ("evaluations", "checkpoints")]
        self.assertEqual(lines(), ["every epoch, 2 in all", "only at the end (give checkpoint.every_minutes: 15 to save more often)"])
        self.assertEqual(lines("run.evaluate_every='3 steps'", "run.steps=7", "checkpoint={every_steps: 500, every_minutes: 90}"),
                         ["every 3 steps, 3 in all", "every 500 steps, every 1 h 30 min, at the end; the newest 2 are kept"])
        self.assertEqual(lines("run.evaluate_every=0", "checkpoint={every_epochs: 1, keep: 0}"), ["at the end", "every epoch, at the end"])

    def test_what_trains_badly(self):
        overrides = ["schedule.warmup=20 steps", "model.layers=[flatten, {linear: 10}, {softmax: {}, name: s}]"]
        said = ["schedule.warmup: 20 steps are more than the 4 of the run, which ends before the learning rate reaches its value; make it shorter",
                "model: its last layer 's' is a softmax, but loss cross_entropy applies its own (such networks learn badly); remove that layer "
                "(predict --probabilities applies one)"]
        self.assertEqual(self.step_lines(*overrides)[1], said)
        err = self.lockstep("train", "deck.yaml", *overrides, ranks=2).err
        self.assertEqual([line for line in err.splitlines() if line.startswith("warning: ")], [f"warning: {line}" for line in said])
        self.assertEqual(self.step_lines("run.output_dir=other", "schedule.warmup=4 steps")[1], [])
        self.deck(data={"synthetic": {"kind": "clicks", "train": 64, "validation": 20}}, loss={"type": "binary_cross_entropy"})
        for layers, loss, warns in (("{linear: 1}, {sigmoid: {}, name: s}", "binary_cross_entropy", True), ("{linear: 1}, {sigmoid: {}, name: s}", "mse", False),
                                    ("sigmoid, {linear: 1}", "binary_cross_entropy", False)):
            said = ["model: its last layer 's' is a sigmoid, but loss binary_cross_entropy applies its own (such networks learn badly); remove that layer "
                    "(predict then gives logits, whose sigmoids are the probabilities)"] if warns else []
            self.assertEqual(self.step_lines("run.output_dir=third", f"model.layers=[{layers}]", f"loss.type={loss}")[1], said)

    def test_norms_of_one_value(self):
        """What PyTorch refuses: "Expected more than 1 value per channel when training"."""
        self.deck(batch={"global": 8}, model={"layers": ["flatten", {"linear": 4}, {"batch_norm": {}, "name": "norm"}, "relu", {"linear": 10}]})
        more = ("give it more examples at once (a larger batch.micro or batch.global, fewer ranks or shards, or parallel.sync_batch_norm: true), or use layer_norm")
        one = f"model: layer 'norm' takes mean and variance of one value per channel, so that its output in training does not depend on its input; {more}"
        few = "model: layer 'norm' takes mean and variance of only {} values per channel, which are far from those of all examples; " + more
        alone, shards = "parallel={sync_batch_norm: false}", "parallel={{deterministic: {{shards: {}}}, sync_batch_norm: false}}"
        image = 'model.layers=[{conv2d: {filters: 4, kernel: 3}}, batch_norm, flatten, {linear: 10}]'
        for ranks, overrides, values in ((1, [], 8), (1, ["batch.micro=1"], 1), (1, ["batch.micro=2"], 2), (1, ["batch.micro=4"], 4), (1, ["batch.global=1"], 1),
                                         (1, ["batch.global=7"], 7), (2, ["batch.micro=1"], 2), (2, ["batch.micro=1", alone], 1), (8, [], 8), (8, [alone], 1), (6, [alone], 1),
                                         (4, [alone], 2), (2, [shards.format(8)], 1), (2, [shards.format(4)], 2), (8, ["parallel={local: 2}"], 1),
                                         (8, ["parallel={local: {every: 2, group: 2}}"], 2), (1, ["batch.micro=1", image], 8)):
            said = {1: [one], 8: []}.get(values, [few.format(values)])
            self.assertEqual(self.step_lines("--ranks", ranks, *overrides)[1], said, (ranks, overrides))
        self.assertEqual(self.lockstep("train", "deck.yaml", "batch.micro=1").err.count(f"warning: {one}\n"), 1)

    def test_the_banner_says_it_too(self):
        result = self.lockstep("train", "deck.yaml", ranks=4)
        self.assertIn("batch 50 = 4 ranks × 12 or 13, ", result.out)
        self.assertEqual(result.err.count("warning:"), 0, result)
        self.assertIn("batch 50 = 4 ranks × 12 or 13, at most 5 at once, fp32", self.lockstep("train", "deck.yaml", "batch.micro=5", "run.output_dir=micro", ranks=4).out)
        result = self.lockstep("train", "deck.yaml", "batch.global=2", "run.output_dir=idle", ranks=3)
        self.assertIn("batch 2 = 3 ranks × 0 or 1, ", result.out)
        self.assertEqual((result.out + result.err).count("1 of 3 ranks have no examples in a step of 2"), 1, result)
        result = self.lockstep("train", "deck.yaml", "batch.global=500", "run.output_dir=cut")
        self.assertIn("batch 64 = 1 rank × 64, ", result.out)
        self.assertEqual((result.out + result.err).count("batch.global: 500 examples are more than the 64"), 1, result)

    @unittest.skipIf(runs_on_device(), "gradients are compressed on hosts")
    def test_compression_that_has_no_effect(self):
        for ranks, nodes, said in ((4, 1, 1), (4, 2, 0)):
            out = self.lockstep("check", "deck.yaml", "--ranks", ranks, "--nodes", nodes, "parallel.compress={}").out
            self.assertEqual(out.count("parallel.compress    nothing is compressed: all ranks are on one node\n"), said, out)
        out = self.lockstep("train", "deck.yaml", "parallel.compress={}", ranks=2).out
        self.assertEqual(out.count("parallel.compress: nothing is compressed: all ranks are on one node\n"), 1, out)


class DescribedDevice(LockstepTest):
    """Plans for a device from its description; the device itself need not exist here."""

    H100 = {"deviceName": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85028765696, "deviceVer": 900}

    def described(self, **changes):
        device = {key: value for key, value in {**self.H100, **changes}.items() if value is not None}
        self.write("device.json", json.dumps(device))
        return "check", "deck.yaml", "--device", "device.json"

    def setUp(self):
        super().setUp()
        self.deck()
        if not runs_on_device():
            self.refused(64, ["--device", "use a GPU build"], *self.described())
            self.skipTest("kernels of this build run on the host; what it says of --device was tried")

    def test_a_step_fits(self):
        out = self.lockstep(*self.described()).out
        self.assertRegex(out, r"\nplanned for +NVIDIA H100 80GB HBM3 with 85\.03 GB of memory; a step takes [\d.e-]+ % of it\n")

    def test_16_bits(self):
        self.assertIn("\nplanned for ", self.lockstep(*self.described(), "precision.compute=bf16").out)

    def test_a_step_does_not_fit(self):
        out = self.lockstep(*self.described(totalGlobalMem=1024)).out
        self.assertIn("with 1.02 KB of memory; a step does not fit; use smaller micro-batches", out)

    def test_what_is_no_description(self):
        for key in self.H100:
            self.refused(78, ["device.json:1:1", key, "is missing", "lockstep info --device"], *self.described(**{key: None}))
        self.refused(78, ["device.json:1:", "totalGlobalMem", "'80 GB' is not a whole number above 0"], *self.described(totalGlobalMem="80 GB"))
        self.refused(66, ["none.json"], "check", "deck.yaml", "--device", "none.json")


class Deck(LockstepTest):
    NUMBERS = ("optimizer.learning_rate=1e-08", "optimizer.weight_decay=2.5e-7", "optimizer.clip_norm=1e22", "data.normalize={mean: [1e-9], std: [1e300]}",
               "run.seed=9007199254740992")

    def resolved(self, *arguments):
        return self.lockstep("check", "deck.yaml", "--deck", *arguments).out

    def test_schedules_of_gradients(self):
        """Keys of which only one may stand."""
        self.deck()
        for schedule in ("simulate: {ranks: 2}", "free: true", "replay: order.txt"):
            text = self.resolved(f"parallel.asynchronous={{schedule: {{{schedule}}}}}")
            self.write("again.yaml", text)
            self.assertEqual(self.lockstep("check", "again.yaml", "--deck").out, text)

    def test_it_stands_alone(self):
        self.deck()
        for ranks in (1, 2):
            text = self.lockstep("check", "deck.yaml", "--deck", *self.NUMBERS, ranks=ranks).out
            self.write("again.yaml", text)
            self.assertEqual(self.lockstep("check", "again.yaml", "--deck").out, text)
        self.assertTrue(self.lockstep("check", "deck.yaml", *self.NUMBERS).out.startswith(text + "\n"), "the report's first part")
        for option in ("--data", "--time"):
            self.refused(64, ["--deck", option], "check", "deck.yaml", "--deck", option)
        self.refused(64, ["--device", "--time"], "check", "deck.yaml", "--time", "--device", "device.json")

    def test_numbers_of_yaml_1_1(self):
        """In YAML 1.1, 1e-08 is text: a number with an exponent needs a decimal point, and the exponent a sign."""
        self.deck()
        numbers = re.findall(r"[ \[](-?[\d.]+e\S*?)[,\]\n]", self.resolved(*self.NUMBERS))
        self.assertEqual(len(numbers), 5, numbers)
        for number in numbers:
            self.assertRegex(number, r"^-?\d+\.\d+e[-+]\d+$")

    @unittest.skipUnless(yaml, "Python's yaml is not here")
    def test_other_programs_read_it(self):
        self.deck()
        deck = yaml.safe_load(self.resolved(*self.NUMBERS, "optimizer.type=sgd", "run.name='1e-3'"))
        self.assertEqual([deck["optimizer"][key] for key in ("learning_rate", "weight_decay", "clip_norm")], [1e-08, 2.5e-7, 1e22])
        self.assertEqual(deck["data"]["normalize"], {"mean": [1e-9], "std": [1e300]})
        self.assertEqual((deck["run"]["seed"], deck["run"]["name"]), (2**53, "1e-3"))
        for path in sorted((SOURCE / "inputs").glob("*.yaml")):
            with self.subTest(path.name):
                text = self.lockstep("check", path, "--deck").out
                # Plain words that look like numbers must be numbers: text is quoted.
                tokens = [token.value for token in yaml.scan(text) if isinstance(token, yaml.ScalarToken) and token.plain and re.match(r"[-+.]?\d", token.value)]
                self.assertTrue(tokens)
                for token in tokens:
                    self.assertIsInstance(yaml.safe_load(token), (int, float), token)
                    self.assertEqual(yaml.safe_load(token), float(token))


if __name__ == "__main__":
    program.main()
