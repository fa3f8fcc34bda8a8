# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""fp16 and bf16: gradients that overflow, and learning as well as in 32 bits."""
import unittest

import program
from program import LockstepTest, metrics, summary

DECK = {
    "run": {"steps": 12, "log_every": 1, "output_dir": "run"},
    "data": {"synthetic": {"kind": "glyphs", "train": 256, "validation": 64}},
    "model": {"preset": "simple_cnn", "filters1": 4, "filters2": 8, "hidden": 16},
    "optimizer": {"type": "sgd", "learning_rate": 0.02, "momentum": 0.9},
    "schedule": {"warmup": "10 steps"},
    "batch": {"global": 32},
}


class Precision(LockstepTest):
    def train(self, *overrides, ranks=1, status=0):
        self.deck("deck.yaml", **DECK)
        return self.lockstep("train", "deck.yaml", *overrides, ranks=ranks, status=status)

    def rows(self, folder="run"):
        return [row for row in metrics(self.folder / folder) if row["split"] == "train"]

    def test_overflow_at_every_scale_ends_the_run(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                result = self.train("precision={compute: fp16, loss_scale: {initial: 1e30, floor: 1e28}}", f"run.output_dir=run{ranks}",
                                    ranks=ranks, status=70)
                self.assertEqual(result.err.count("error:"), 1, result.err)
                self.assertRegex(result.err, r"step 8: .* % of the gradient of layer '\w+' is not finite on rank 0 at the smallest loss scale, 1e\+28")
                self.assertEqual(result.out.count("left out: "), 7)  # one for each halving; the next step is not done
                self.assertRegex(result.out, r"% of the gradient of layer '\w+' is not finite on rank 0")
                self.assertEqual(sorted(f.name for f in (self.folder / f"run{ranks}/checkpoints").iterdir()), ["latest", "step-00000007.h5"])

    def test_a_run_that_gave_up_in_its_last_step_is_not_finished(self):
        scale = "precision={compute: fp16, loss_scale: {initial: 1e30, floor: 1e28}}"
        self.train(scale, "run.steps=8", status=70)
        self.assertEqual(summary(self.folder / "run")["status"], "failed")
        self.train("precision.compute=bf16", "run.steps=8")
        rows = self.rows()
        self.assertEqual([int(row["step"]) for row in rows], list(range(1, 9)))

    def test_scale_settles_and_skipped_steps_do_not_count(self):
        scale = "precision={compute: fp16, loss_scale: {initial: 1e7, interval: 4}}"
        for ranks in (1, 3):
            result = self.train(scale, f"run.output_dir=run{ranks}", ranks=ranks)
            self.assertEqual(result.out.count("left out: ") + result.out.count("|g|"), 12, "a skipped step's norm says nothing")
        rows = self.rows("run1")
        scales = [float(row["loss_scale"]) for row in rows]
        skipped = sum(1 for before, after in zip([1e7] + scales, scales) if after < before)
        self.assertGreater(skipped, 2)
        self.assertLess(skipped, 12)
        self.assertAlmostEqual(float(rows[-1]["learning_rate"]), 0.02 * min(1, (12 - skipped) / 10))
        self.assertEqual(scales, [float(row["loss_scale"]) for row in self.rows("run3")], "ranks agree on what is left out")

    def test_resumed_among_skipped_steps_is_the_same(self):
        scale = "precision={compute: fp16, loss_scale: {initial: 1e7, interval: 4}}"
        self.train(scale, "run.output_dir=whole")
        for steps in (5, 12):
            self.train(scale, "run.output_dir=parts", f"run.steps={steps}", "schedule.type=constant")
        wanted = (self.folder / "whole/metrics.csv").read_text().splitlines()[1:]
        got = (self.folder / "parts/metrics.csv").read_text().splitlines()[1:]
        columns = lambda lines: [line.split(",")[:8] for line in lines if ",train," in line]  # noqa: E731  without the times
        self.assertEqual(columns(wanted), columns(got))

    def test_the_average_before_a_step_counts(self):
        """It is the parameters that the run begins with, also in checkpoints."""
        scale = "precision={compute: fp16, loss_scale: {initial: 1e30, floor: 1e20}}"
        for ranks in (1, 2):
            plain = self.train(scale, f"run.output_dir=plain{ranks}", "run.steps=5", ranks=ranks)
            self.assertEqual(plain.out.count("left out: "), 5)
            for name, overrides in (("ema", []), ("divided", ["parallel.shard=optimizer"])):
                self.train(scale, "optimizer.ema_decay=0.9", f"run.output_dir={name}{ranks}", "run.steps=5", *overrides, ranks=ranks)
                self.assertEqual(summary(self.folder / f"{name}{ranks}")["validation"], summary(self.folder / f"plain{ranks}")["validation"])
                losses = [self.lockstep("evaluate", "deck.yaml", scale, "--checkpoint", f"{run}{ranks}/checkpoints/latest").out.split()[1] for run in (name, "plain")]
                self.assertEqual(*losses)

    def test_no_scale_where_none_is_wanted(self):
        self.train("precision.compute=bf16")
        self.assertEqual({row["loss_scale"] for row in self.rows()}, {""})

    def test_same_curve_in_16_bits(self):
        curves = {}
        for compute in ("fp32", "bf16", "fp16"):
            self.train(f"precision.compute={compute}", f"run.output_dir={compute}", "run.steps=60", "data.synthetic.train=2048")
            curves[compute] = summary(self.folder / compute)["validation"]["loss"]
        for compute in ("bf16", "fp16"):
            self.assertNotEqual(curves[compute], curves["fp32"])
            self.assertAlmostEqual(curves[compute] / curves["fp32"], 1, delta=0.02)


if __name__ == "__main__":
    program.main()
