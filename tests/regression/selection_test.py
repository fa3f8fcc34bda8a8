# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What evaluations decide: the best checkpoints, the end of a run that does not improve, and results on test data."""
import csv
import math
import re
import shutil
import unittest

import program
from idx import idx_images, idx_labels
from program import LockstepTest, metrics, summary, without_times

# The data are so noisy, and learning is so fast, that validation is best in the middle of the run.
DECK = {
    "run": {"epochs": 6, "output_dir": "run", "log_every": 4, "evaluate_every": "5 steps"},
    "data": {"synthetic": {"kind": "glyphs", "train": 320, "validation": 50, "noise": 0.6}},
    "optimizer": {"type": "sgd", "learning_rate": 0.2, "momentum": 0.9},
    "checkpoint": {"keep": 1, "keep_best": {"metric": "validation_loss", "count": 2}},
}


def evaluations(folder, split="validation"):
    return [(int(row["step"]), float(row["loss"])) for row in metrics(folder) if row["split"] == split]


class Selection(LockstepTest):
    def train(self, *overrides, ranks=1, status=0, run=None, **sections):
        self.deck("deck.yaml", **{**DECK, **sections})
        return self.lockstep("train", "deck.yaml", *overrides, ranks=ranks, status=status)

    def checkpoints(self, run="run"):
        return {file.name for file in (self.folder / run / "checkpoints").glob("step-*.h5")}

    def best(self, run="run"):
        return (self.folder / run / "checkpoints" / "best").resolve().name

    def test_the_best_checkpoints_are_kept_beside_the_newest(self):
        for ranks in (1, 2):
            self.train(f"run.output_dir=run{ranks}", ranks=ranks)
            found = evaluations(self.folder / f"run{ranks}")
            self.assertEqual([step for step, _ in found], list(range(5, 121, 5)))
            order = sorted(found, key=lambda evaluation: evaluation[1])
            wanted = {f"step-{step:08}.h5" for step in (order[0][0], order[1][0], 120)}
            self.assertEqual(self.checkpoints(f"run{ranks}"), wanted)
            self.assertEqual(self.best(f"run{ranks}"), f"step-{order[0][0]:08}.h5")
            self.assertNotEqual(order[0][0], 120, "the best is not the last")
            report = summary(self.folder / f"run{ranks}")["best"]
            self.assertEqual((report["step"], f"{report['validation_loss']:.6g}"), (order[0][0], f"{order[0][1]:.6g}"))
            # `best` names the checkpoint that was evaluated.
            out = self.lockstep("evaluate", "deck.yaml", "--checkpoint", f"run{ranks}/checkpoints/best", ranks=ranks).out.split()
            self.assertAlmostEqual(float(out[1]) / order[0][1], 1, delta=1e-5)

    def test_evaluations_are_of_the_averaged_parameters(self):
        optimizer = {**DECK["optimizer"], "ema_decay": 0.9}
        losses = {}
        for name, ranks, sections in ("plain", 1, {}), ("ema", 1, {"optimizer": optimizer}), ("ema2", 2, {"optimizer": optimizer}):
            out = self.train(f"run.output_dir={name}", "run.epochs=3", ranks=ranks, **sections).out
            self.assertIn("validation loss " if name == "plain" else "validation (ema) loss ", out)
            losses[name] = evaluations(self.folder / name)[-1][1]
        rows = [[row["loss"] for row in metrics(self.folder / name) if row["split"] == "train"] for name in ("plain", "ema")]
        self.assertEqual(*rows, "steps do not see the average")
        self.assertNotEqual(losses["ema"], losses["plain"])
        self.assertAlmostEqual(losses["ema2"] / losses["ema"], 1, delta=1e-4)
        out = self.lockstep("evaluate", "deck.yaml", "--checkpoint", "ema/checkpoints/latest").out.split()
        self.assertAlmostEqual(float(out[1]) / losses["ema"], 1, delta=1e-5)
        # A resumed run has the same average.
        for steps in (17, 60):
            self.train("run.output_dir=parts", f"run.steps={steps}", optimizer=optimizer)
        self.assertEqual(evaluations(self.folder / "parts"), evaluations(self.folder / "ema"))

    def test_a_resumed_run_keeps_the_same(self):
        self.train("run.output_dir=whole")
        for steps in (18, 20, 23, 60):
            self.train("run.output_dir=parts", f"run.steps={steps}")
        self.train("run.output_dir=parts")
        self.assertEqual(self.checkpoints("parts"), self.checkpoints("whole"))
        self.assertEqual(self.best("parts"), self.best("whole"))
        self.assertEqual(without_times(metrics(self.folder / "parts")), without_times(metrics(self.folder / "whole")))
        self.assertEqual(summary(self.folder / "parts")["best"], summary(self.folder / "whole")["best"])

    def test_a_best_evaluation_beyond_the_schedule_counts(self):
        self.train("run.steps=3")
        self.assertEqual(self.best(), "step-00000003.h5")

    def test_a_run_that_goes_on_has_the_best_of_its_checkpoint(self):
        self.train("run.steps=22")  # no evaluation is due at step 22
        found = dict(evaluations(self.folder / "run"))
        regular = sorted((loss, step) for step, loss in found.items() if step != 22)
        self.assertLessEqual({f"step-{step:08}.h5" for _, step in regular[:2]}, self.checkpoints())
        self.train("run.output_dir=whole", "run.steps=40")
        self.train("run.steps=40")
        self.assertEqual(self.checkpoints(), self.checkpoints("whole"))
        self.assertEqual((self.best(), summary(self.folder / "run")["best"]), (self.best("whole"), summary(self.folder / "whole")["best"]))

    def test_patience_ends_a_run_that_does_not_improve(self):
        for ranks in (1, 2):
            run = self.folder / f"run{ranks}"
            result = self.train(f"run.output_dir=run{ranks}", "run.patience={evaluations: 3}", ranks=ranks)
            found = evaluations(run)
            best = min(range(len(found)), key=lambda i: found[i][1])
            self.assertEqual(best + 3, len(found) - 1, found)
            self.assertIn("has not improved in 3 evaluations", result.out)
            self.assertEqual((summary(run)["status"], summary(run)["steps"]), ("out_of_patience", found[-1][0]))
            self.assertIn("nothing is left to do", self.train(f"run.output_dir=run{ranks}", "run.patience={evaluations: 3}").out)
            # With more patience, the same run goes on.
            self.train(f"run.output_dir=run{ranks}", "run.patience={evaluations: 4}", ranks=ranks)
            self.assertEqual(evaluations(run)[:len(found)], found)
            self.assertGreater(len(evaluations(run)), len(found))

    def test_patience_is_counted_over_restarts(self):
        self.train("run.output_dir=whole", "run.patience={evaluations: 3}")
        for steps in range(4, 90, 4):
            self.train("run.output_dir=parts", "run.patience={evaluations: 3}", f"run.steps={steps}")
            if summary(self.folder / "parts")["status"] == "out_of_patience":
                break
        self.assertEqual(evaluations(self.folder / "parts"), evaluations(self.folder / "whole"))

    def test_checkpoints_by_epochs(self):
        self.train(checkpoint={"every_epochs": 2, "keep": 0})
        self.assertEqual(self.checkpoints(), {"step-00000040.h5", "step-00000080.h5", "step-00000120.h5"})

    def test_what_cannot_be_is_refused(self):
        for overrides, words in (
                (["run.evaluate_every=5 minutes"], "run.evaluate_every: '5 minutes' is given"),
                (["run.evaluate_every=0", "run.patience={evaluations: 2}"], "run.evaluate_every: 0 cannot be combined with run.patience"),
                (["run.patience={metric: validation_loss}"], "run.patience.evaluations: is missing"),
                (["checkpoint.keep_best={metric: loss}"], "'loss' is unknown; did you mean 'validation_loss'? (known: validation_loss, validation_accuracy, validation_perplexity"),
                (["data.synthetic.validation=0"], "checkpoint.keep_best: needs validation examples")):
            self.deck("deck.yaml", **DECK)
            self.refused(78, [words], "check", "deck.yaml", *overrides)
        self.deck("deck.yaml", **{**DECK, "data": {"synthetic": {"kind": "linear", "features": 4, "outputs": 2, "train": 40, "validation": 8}},
                                  "model": {"layers": [{"linear": 2}]}, "loss": {"type": "mse"},
                                  "checkpoint": {"keep_best": {"metric": "validation_accuracy"}}})
        self.refused(78, ["checkpoint.keep_best.metric: this loss has no accuracy"], "check", "deck.yaml")


class Metrics(LockstepTest):
    """The deck's `metrics`, wherever evaluations are reported."""

    def train(self, *overrides, ranks=1, status=0, **sections):
        self.deck("deck.yaml", **{**DECK, **sections})
        return self.lockstep("train", "deck.yaml", "run.steps=20", "run.evaluate_every=5 steps", *overrides, ranks=ranks, status=status)

    def test_columns_keys_and_lines(self):
        out = self.train(ranks=2, metrics=["top_2", "perplexity"], loss={"label_smoothing": 0.1}).out
        rows = metrics(self.folder / "run")
        self.assertEqual(list(rows[0])[-2:], ["top_2", "perplexity"])
        for row in rows:
            self.assertEqual(bool(row["top_2"]), row["split"] != "train")
            if row["split"] == "train":
                continue
            self.assertNotAlmostEqual(float(row["perplexity"]), math.exp(float(row["loss"])), places=3, msg="the loss is smoothed")
            self.assertGreaterEqual(float(row["top_2"]), float(row["accuracy"]))
        self.assertRegex(out, r"validation loss .*  accuracy .*  top_2 0\.\d+  perplexity \d")
        report, last = summary(self.folder / "run"), [row for row in rows if row["split"] == "validation"][-1]
        for key in ("top_2", "perplexity"):
            self.assertAlmostEqual(report["validation"][key], float(last[key]), places=6)
            self.assertNotIn(key, report["train"])
        lines = self.lockstep("evaluate", "deck.yaml", "--checkpoint", "run/checkpoints/latest", ranks=3).out.split("\n")
        told = dict(line.split() for line in lines if line)
        self.assertEqual(list(told), ["loss", "accuracy", "top_2", "perplexity"])
        self.assertAlmostEqual(float(told["perplexity"]), float(last["perplexity"]), places=4)
        self.lockstep("train", "deck.yaml", "run.output_dir=other", "run.steps=20", "metrics=[top_5]")
        table = list(csv.DictReader(self.lockstep("report", "run", "other", "--csv", "--sort", "validation_perplexity").out.splitlines()))
        self.assertEqual([bool(row["validation_perplexity"]) for row in table], [True, False])
        self.assertEqual([bool(row["validation_top_5"]) for row in table], [False, True])
        self.assertNotIn("validation_top_3", table[0])
        self.assertIn("| validation top_2 |", self.lockstep("report", "run", "other").out)

    def test_a_run_may_end_by_them_and_keep_the_best(self):
        target = {"metric": "validation_top_2", "value": 0.25}
        self.train(metrics=["top_2"], run={**DECK["run"], "target": target},
                   checkpoint={"keep_best": {"metric": "validation_top_2", "count": 1}})
        report = summary(self.folder / "run")
        self.assertEqual(report["status"], "target_reached")
        self.assertGreaterEqual(report["validation"]["top_2"], 0.25)
        self.assertEqual(report["best"], {"step": report["steps"], "validation_top_2": report["validation"]["top_2"]})

    def test_metrics_that_come_when_the_run_goes_on(self):
        self.train("run.steps=10", "run.log_every=5", metrics=["perplexity", "top_2"])
        before = metrics(self.folder / "run")
        self.train("run.steps=20", "run.log_every=5", metrics=["top_5", "perplexity"])
        rows = metrics(self.folder / "run")
        self.assertEqual(list(rows[0])[-3:], ["top_5", "perplexity", "top_2"], "what is no longer measured stays")
        for old, row in zip(before, rows):
            self.assertEqual(row, {**old, "top_5": ""})
        self.assertFalse(any(row["top_2"] for row in rows[len(before):]))
        self.assertTrue(all(row["top_5"] for row in rows[len(before):] if row["split"] == "validation"))

    def test_metrics_that_are_always_the_same(self):
        few = {"metrics": ["top_5"], "model": {"layers": [{"linear": 5}]},
               "data": {"synthetic": {"kind": "random", "shape": [4], "classes": 5, "train": 320, "validation": 50}}}
        for ranks in (1, 4):
            self.assertEqual(self.train("run.overwrite=true", "run.resume=never", ranks=ranks, **few).err.count("warning: metrics: top_5 is always the same with 5 outputs; leave it out"), 1)
        self.assertIn("top_5 is always the same", self.lockstep("check", "deck.yaml", "run.output_dir=other").err)

    def test_mistakes(self):
        values = {"loss": {"type": "mse"}, "model": {"layers": [{"linear": 1}]},
                  "data": {"synthetic": {"kind": "linear", "features": 4, "train": 320, "validation": 50}}}
        for wanted, sections in (
                ("perplexity is a metric of classes, but this loss reads values; remove it", {**values, "metrics": ["perplexity"]}),
                ("r_squared is a metric of values, but this loss reads classes; remove it", {"metrics": ["r_squared"]}),
                ("did you mean 'top_5'?", {"metrics": ["top5"]}),
                ("'top_5' is given twice; remove one", {"metrics": ["top_5", "top_5"]}),
                ("evaluations of this deck do not compute top_3; add it to metrics",
                 {"metrics": ["top_2"], "run": {**DECK["run"], "target": {"metric": "validation_top_3", "value": 1}}})):
            for ranks in (1, 4):
                self.assertRegex(self.train(status=78, ranks=ranks, **sections).err, r"deck\.yaml:\d+:\d+: .*" + re.escape(wanted))
        self.train(**values, metrics=["r_squared"], checkpoint={"keep": 1})
        self.assertLessEqual(summary(self.folder / "run")["validation"]["r_squared"], 1)


class Splits(LockstepTest):
    """Examples to validate and to test on, from other files or held out of the training examples."""

    def setUp(self):
        super().setUp()
        for name, count in (("train", 96), ("other", 40), ("third", 24)):
            images, labels = idx_images(self.folder / "images", count), idx_labels(self.folder / "labels", count)
            self.lockstep("import", "idx", "--images", images, "--labels", labels, "--output", f"{name}.h5")

    def train(self, *overrides, ranks=1):
        self.deck("deck.yaml", data={"file": "train.h5"}, run={"epochs": 2, "output_dir": "run"})
        return self.lockstep("train", "deck.yaml", *overrides, ranks=ranks)

    def evaluate(self, *arguments, ranks=1):
        out = self.lockstep("evaluate", "deck.yaml", "--checkpoint", "run/checkpoints/latest", *arguments, ranks=ranks).out.split()
        return float(out[1])

    def test_files_to_validate_and_to_test_on(self):
        for ranks in (1, 3):
            shutil.rmtree(self.folder / "run", ignore_errors=True)
            keys = ["data.validation_file=other.h5", "data.test_file=third.h5"]
            self.train(*keys, ranks=ranks)
            (step, validation), = evaluations(self.folder / "run")[-1:]
            (test_step, test), = evaluations(self.folder / "run", "test")
            self.assertEqual((step, test_step), (12, 12))
            self.assertEqual(metrics(self.folder / "run")[-1]["split"], "test")
            self.assertAlmostEqual(summary(self.folder / "run")["test"]["loss"], test, delta=1e-6)
            for place, split, loss in (("other.h5", [], validation), ("third.h5", [], test), ("third.h5:/train", ["--split", "train"], test)):
                self.assertAlmostEqual(self.evaluate("--data", place, *split, ranks=ranks), loss, delta=1e-5)
            self.assertAlmostEqual(self.evaluate("--split", "test", *keys, ranks=ranks), test, delta=1e-5)

    def test_evaluations_of_other_data_are_not_compared(self):
        keys = ["run.patience={evaluations: 2}", "checkpoint.keep_best={count: 1}", "loss_watch={on_anomaly: stop}"]
        self.train("data.validation_file=other.h5", *keys)
        (self.folder / "third.h5").rename(self.folder / "other.h5")
        result = self.train("data.validation_file=other.h5", "run.epochs=3", *keys)
        self.assertIn("validation data differ from here on: earlier evaluations count neither", result.out)
        last = evaluations(self.folder / "run")[-1]
        self.assertEqual(summary(self.folder / "run")["best"]["step"], last[0])
        state = (self.folder / "run/checkpoints/latest").read_bytes()
        watched = re.search(rb'"validation_losses":\[([^\]]*)\]', state)[1].split(b",")
        self.assertEqual(len(watched), 1, "of three evaluations, one was of these data")
        result = self.train("data.validation_file=other.h5", "run.epochs=4", *keys)
        self.assertNotIn("validation data differ", result.out)

    def test_evaluations_by_another_loss_are_not_compared(self):
        keys = ["data.validation_file=other.h5", "run.patience={evaluations: 2}", "checkpoint.keep_best={count: 1}", "loss_watch={on_anomaly: stop}"]
        self.train(*keys)
        result = self.train("run.epochs=3", "loss.label_smoothing=0.5", *keys)
        self.assertIn("losses are not comparable from here on: earlier evaluations count neither", result.out)
        self.assertEqual(summary(self.folder / "run")["best"]["step"], evaluations(self.folder / "run")[-1][0])
        self.assertNotIn("comparable", self.train("run.epochs=4", "loss.label_smoothing=0.5", *keys).out)

    def test_a_fraction_is_held_out_by_a_seed(self):
        self.train("data.validation=0.25")
        out = self.lockstep("check", "deck.yaml", "data.validation=0.25").out
        self.assertIn("72 to train on, 24 to validate on", out)
        losses = {seed: self.evaluate("data.validation=0.25", f"data.validation_seed={seed}") for seed in (1, 1, 2)}
        self.assertEqual(losses[1], self.evaluate("data.validation=0.25"))
        self.assertNotEqual(losses[1], losses[2], "another seed, other examples")
        self.refused(78, ["data.validation_seed: was 1 in run/checkpoints/"], "train", "deck.yaml", "data.validation=0.25", "data.validation_seed=2", "run.epochs=3")
        whole, part = self.evaluate("--split", "train"), self.evaluate("data.validation=0.25", "--split", "train")
        self.assertAlmostEqual(0.75 * part + 0.25 * losses[1], whole, delta=1e-5)  # each example is in one of the two parts
        for number, (fraction, seed, warns) in enumerate(((0.25, 1, False), (0.125, 1, False), (0.5, 1, True), (0.25, 2, True))):
            result = self.train(f"data.validation={fraction}", f"data.validation_seed={seed}", "run.branch_from=run/checkpoints/latest",
                                f"run.output_dir=branch_{number}")
            self.assertEqual("was trained on examples that this run validates on" in result.err, warns, result)
            result = self.train(f"data.validation={fraction}", f"data.validation_seed={seed}", "model.weights.file=run/checkpoints/latest",
                                f"run.output_dir=weights_{number}")
            self.assertEqual("was trained on examples that this run validates on" in result.err, warns, result)

    def test_the_deck_needs_no_training_data_to_be_evaluated_on_others(self):
        self.train()
        loss = self.evaluate("--data", "other.h5")
        (self.folder / "train.h5").unlink()
        self.assertEqual(self.evaluate("--data", "other.h5"), loss)


if __name__ == "__main__":
    program.main()
