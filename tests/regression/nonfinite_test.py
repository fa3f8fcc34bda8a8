# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Numbers that are not finite end a run, which names step, layer and examples, and take the place of no checkpoint."""
import math
import sys
import unittest

import program
from program import LockstepTest, metrics, summary

try:
    import h5py
    import numpy
except ImportError:
    print("skipped: no h5py here")
    sys.exit(77)

NETWORK = {"layers": [{"linear": {"features": 16}, "name": "body"}, "relu", {"linear": {"features": 2}, "name": "head"}]}


class Nonfinite(LockstepTest):
    def dataset(self, name, bad=(), validation=()):
        """256 examples of which these are not finite."""
        generator = numpy.random.default_rng(0)
        inputs = generator.normal(size=(256, 8)).astype("f4")
        classes = (inputs[:, 0] > 0).astype("i4")
        with h5py.File(self.folder / name, "w") as file:
            for split, places in (("train", bad), ("validation", validation)):
                values = inputs.copy()
                for number, (example, value) in enumerate(places):
                    values[example, number % 8] = value
                file[f"{split}/inputs"], file[f"{split}/targets"] = values, classes
        return name

    def decked(self, file, **sections):
        self.deck(run={"epochs": 3, "output_dir": "run", "log_every": 4, "seed": 7, "overwrite": True, "resume": "never"}, **{
            "data": {"file": file}, "model": NETWORK, "optimizer": {"learning_rate": 0.1, "momentum": 0.9}, "batch": {"global": 32},
            "checkpoint": {"every_steps": 1, "keep": 2}, **sections})

    def failed(self, *overrides, ranks=1):
        result = self.lockstep("train", "deck.yaml", *overrides, ranks=ranks, status=70)
        self.assertEqual(len(result.errors()), 1, result)
        self.assertNotIn("fault of Lockstep", result.err)
        report = summary(self.folder / "run")
        self.assertEqual(report["status"], "failed")
        self.assertIn(report["failure"], result.errors()[0])
        return result.errors()[0]

    def expect_finite_checkpoints(self, last):
        steps = []
        for path in sorted((self.folder / "run/checkpoints").glob("step-*.h5")):
            steps.append(int(path.name[5:-3]))
            with h5py.File(path) as file:
                file.visititems(lambda name, item: self.assertTrue(
                    not isinstance(item, h5py.Dataset) or item.dtype.kind != "f" or numpy.isfinite(item[()]).all(), f"{path}: {name}"))
        self.assertEqual(steps, [last - 1, last] if last > 1 else [last])

    def test_a_step_without_targets_that_count_has_no_loss_and_no_gradient(self):
        """The weight of one class is 0; label smoothing spreads a share of each target over the other one all the same."""
        self.decked(self.dataset("data.h5"), loss={"label_smoothing": 0.1, "class_weights": [1, 0]}, optimizer={"learning_rate": 0.1},
                    batch={"global": 1}, checkpoint={"every_steps": 1, "keep": 0})
        self.lockstep("train", "deck.yaml", "run.steps=20", "run.log_every=1")
        weights = []
        for step in range(1, 21):
            with h5py.File(self.folder / f"run/checkpoints/step-{step:08}.h5") as file:
                weights.append(file["model/head/weight"][()])
        rows = [row for row in metrics(self.folder / "run") if row["split"] == "train"]
        without = [int(row["step"]) for row in rows if row["loss"] == "nan"]
        self.assertTrue(5 < len(without) < 15, rows)
        for row in rows:
            step = int(row["step"])
            self.assertIn(float(row["accuracy"]), (0, 1), row)
            self.assertEqual(float(row["grad_norm"]) == 0, step in without, row)
            self.assertTrue(step in without or math.isfinite(float(row["loss"])), row)
            if step > 1:
                self.assertEqual((weights[step - 1] == weights[step - 2]).all(), step in without, row)

    def step_of(self, example):
        """In which the first epoch has it, by a run on clean data whose loss of that step is another one."""
        rows = []
        for value in (1, 2):
            self.decked(self.dataset("probe.h5", [(example, value)]))
            self.lockstep("train", "deck.yaml", "run.epochs=1", "run.log_every=1")
            rows.append([row["loss"] for row in metrics(self.folder / "run") if row["split"] == "train"])
        return 1 + next(i for i, (a, b) in enumerate(zip(*rows)) if a != b)

    def test_an_input_that_is_no_number(self):
        example, step = next((example, step) for example in range(256) if (step := self.step_of(example)) > 2)
        for ranks, first, values in ((1, "tanh", [math.inf, -math.inf]), (1, "tanh", [math.nan]), (1, "relu", [math.nan]), (3, "relu", [math.nan]),
                                     (4, "tanh", [math.nan])):
            with self.subTest(ranks=ranks, activation=first, values=values):
                self.decked(self.dataset("bad.h5", [(example, value) for value in values]))
                error = self.failed(f"model.layers.1={first}", ranks=ranks)
                self.assertRegex(error, rf"step {step}: ")
                self.assertIn("layer 'body' (", error)
                self.assertIn(f"in its batch, the inputs of example {example} of bad.h5:/train are not finite", error)
                self.expect_finite_checkpoints(step - 1)

    def test_a_target_that_is_no_number(self):
        """The message names it, and not the inputs, which are finite."""
        for values in ([(77, 2, math.nan)], [(77, 2, math.nan), (90, 0, math.inf)]):
            with h5py.File(self.folder / "bad.h5", "w") as file:
                inputs = numpy.random.default_rng(0).normal(size=(128, 8)).astype("f4")
                targets = inputs[:, :3].copy()
                for example, k, value in values:
                    targets[example, k] = value
                file["train/inputs"], file["train/targets"] = inputs, targets
            self.decked("bad.h5", loss={"type": "mse"}, batch={"global": 128}, model={"layers": [{"linear": {"features": 3}, "name": "body"}]})
            named = " of ".join(["example 77 (target 2 is nan)" if len(values) == 1 else "examples 77 (target 2 is nan), 90 (target 0 is inf)", "bad.h5:/train"])
            for ranks in (1, 2):
                error = self.failed("data.shuffle=false", ranks=ranks)
                self.assertIn(f"in its batch, the targets of {named} are not finite (`lockstep check --data` finds all of these; correct them, or leave these examples out)", error)
                self.assertNotIn("the inputs", error)

    def test_an_input_of_one_of_asynchronous_groups(self):
        """All ranks of its group find it in their sum, and end the others."""
        self.decked(self.dataset("bad.h5", [(31, math.inf), (31, -math.inf)]))
        result = self.lockstep("train", "deck.yaml", "model.layers.1=tanh", "run.epochs=1", "run.log_every=8", "checkpoint.every_steps=0",
                               "parallel={asynchronous: {groups: 2, collect: 2, schedule: {free: true}}}", ranks=4, status=70, limit=60)
        self.assertIn("the inputs of example 31 of bad.h5:/train are not finite", result.errors()[0])
        self.assertNotIn("fault of Lockstep", result.err)

    def test_the_same_step_again(self):
        """What is started again ends where it did."""
        self.decked(self.dataset("bad.h5", [(37, math.nan), (38, math.nan)]))
        errors = [self.failed(), self.failed("run.resume=auto", "run.overwrite=false")]
        self.assertEqual(errors[0], errors[1])
        self.assertRegex(errors[0], r"in its batch, the inputs of example")

    def test_a_rate_that_is_too_large(self):
        self.decked(self.dataset("good.h5"))
        # Where two ranks divide so small a network, it is all the other's, and rank 0 sees nothing but finite numbers.
        divided = [f"parallel={{{ways}, audit_every: 1}}" for ways in ("shard: optimizer", "shard: parameters, share_parameters: false", "shard: optimizer, shard_group: 1")]
        for steps, rate, step, ranks, *options in ((20, "1e30", 2, 1), (20, "1e39", 1, 1), (1, "1e39", 1, 1), (20, "1e30", 2, 2, divided[0]), (1, "1e39", 1, 2, divided[0]),
                                                   (1, "1e39", 1, 2, divided[1]), (20, "1e30", 2, 2, divided[1]), (20, "1e39", 1, 2, divided[2])):
            error = self.failed(f"optimizer.learning_rate={rate}", f"run.steps={steps}", *options, ranks=ranks)
            self.assertRegex(error, rf"step {step}: .*(gradient|parameters) of layer 'body' .*all inputs of its batch are finite")
            if step == 2:
                self.expect_finite_checkpoints(1)
            else:
                self.assertEqual(list((self.folder / "run/checkpoints").glob("step-*")), [])

    def test_two_losses_in_a_row(self):
        """Squares that overflow, of gradients that do not."""
        with h5py.File(self.folder / "large.h5", "w") as file:
            file["model/linear_1/weight"] = numpy.full((1, 32), 1e200)
            file["model/linear_1/bias"] = numpy.zeros(1)
        self.decked("", data={"synthetic": {"kind": "linear", "train": 256, "validation": 0}}, loss={"type": "mse"}, optimizer={"learning_rate": 0},
                    model={"layers": [{"linear": {"features": 1}}], "weights": "large.h5"}, precision={"compute": "fp64"})
        result = self.lockstep("train", "deck.yaml", status=70)
        self.assertIn("warning: step 1: the loss is inf; all inputs and targets of its batch are finite; the run ends if the next loss is not finite", result.err)
        self.assertRegex(result.errors()[0], "step 2: the loss is inf, the second non-finite loss in a row")
        self.expect_finite_checkpoints(1)

    def test_validation(self):
        self.decked(self.dataset("bad.h5", validation=[(3, math.inf), (3, -math.inf)]), model={"layers": [{"linear": {"features": 2}}]})
        result = self.lockstep("train", "deck.yaml")
        self.assertEqual(result.err.count("the validation loss is nan: the training has diverged (try a smaller learning rate or optimizer.clip_norm), or "), 3, result)
        watch = ["checkpoint.keep=3", "loss_watch.on_anomaly="]
        error = self.failed(watch[0], watch[1] + "stop")
        self.assertIn("step 8: the validation loss is nan", error)
        self.assertEqual([row["split"] for row in metrics(self.folder / "run")], ["train", "train"])
        self.assertIn("step 8: the validation loss is nan", self.failed("run.resume=auto", watch[0], watch[1] + "stop"), "it is found again")
        result = self.lockstep("train", "deck.yaml", watch[0], watch[1] + "skip", "loss_watch.at_most=5")
        self.assertEqual(result.err.count("the validation loss is nan"), 3, result)
        result = self.lockstep("train", "deck.yaml", watch[0], watch[1] + "rollback", "loss_watch.at_most=2", status=70)
        self.assertEqual(result.out.count("and continues with other examples"), 2, result)

    def test_relu_hides_nothing(self):
        """A library's may turn what is not a number into zero; the loss is none all the same, and the step is left out."""
        self.decked(self.dataset("bad.h5", [(37, math.nan)], validation=[(3, math.nan)]), loss_watch={"on_anomaly": "skip", "at_most": 9})
        for activation in ("relu", "tanh"):
            with self.subTest(activation=activation):
                result = self.lockstep("train", "deck.yaml", f"model.layers.1={activation}")
                self.assertEqual(result.out.count("left out: the loss is nan"), 3, result)
                self.assertEqual([row["loss"] for row in metrics(self.folder / "run") if row["split"] == "validation"], ["nan"] * 3)

    def test_going_back(self):
        """Parameters that are spoilt are replaced by those of the checkpoint."""
        self.decked(self.dataset("good.h5"), loss_watch={"on_anomaly": "rollback", "at_most": 2},
                    schedule={"type": "multistep", "milestones": ["10 steps"], "factor": 1e45})
        result = self.lockstep("train", "deck.yaml", status=70)
        self.assertEqual(result.out.count("and continues with other examples"), 2, result)
        self.assertRegex(result.errors()[0], "step 11: the parameters of layer 'body' .* are not finite after its update")
        self.expect_finite_checkpoints(10)

    def test_going_back_from_examples(self):
        self.decked(self.dataset("bad.h5", [(37, math.nan)]), loss_watch={"on_anomaly": "rollback", "at_most": 2})
        result = self.lockstep("train", "deck.yaml", status=70)
        self.assertEqual(result.out.count("and continues with other examples"), 2, result)
        self.assertRegex(result.errors()[0], "the loss is nan; in its batch, the inputs of example 37 of bad.h5")


if __name__ == "__main__":
    program.main()
