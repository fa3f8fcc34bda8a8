# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loss curves with random draws (dropout, augmented images) are the same on any number of ranks."""
import unittest

import program
import short_decks
from program import LockstepTest, metrics

SMALL = {"text_transformer.yaml": ["model.d_model=16", "model.depth=2", "model.heads=2"],
         "text_lstm.yaml": ["model.embedding=12", "model.units=16", "model.depth=2"]}
AUGMENT = {"random_resized_crop": {"size": 24, "area": [0.5, 1]}, "horizontal_flip": True, "color_jitter": {"brightness": 0.3, "contrast": 0.3},
           "noise": 0.05, "cutout": 4, "mixup": 0.2, "cutmix": 1}


class Curves(LockstepTest):
    def setUp(self):
        super().setUp()
        short_decks.import_data(self.folder, self.lockstep)

    def expect_the_same(self, deck, *overrides):
        curves = []
        for ranks in (1, 2, 4):
            self.lockstep("train", deck, "precision.compute=fp64", "run.steps=8", "run.log_every=1", f"run.output_dir={ranks}", *overrides, ranks=ranks)
            rows = metrics(self.folder / str(ranks))
            self.assertEqual([row["split"] for row in rows], ["train"] * 8 + ["validation"])
            curves.append([float(row["loss"]) for row in rows])
            for own, first in zip(curves[-1], curves[0]):
                self.assertAlmostEqual(own / first, 1, delta=1e-8, msg=f"{ranks} ranks")  # metrics.csv has nine digits
        return curves[0]

    def test_texts(self):
        for name, small in SMALL.items():
            with self.subTest(name):
                deck = short_decks.INPUTS / name
                overrides = [*short_decks.overrides(deck), *small, "batch.global=6", "batch.micro=2", "run.overwrite=true", "run.resume=never"]
                dropped = self.expect_the_same(deck, *overrides, "model.dropout=0.1")
                self.lockstep("train", deck, *overrides, "precision.compute=fp64", "run.steps=8", "run.log_every=1", "run.output_dir=whole")
                self.assertNotEqual(dropped[1], float(metrics(self.folder / "whole")[1]["loss"]), "nothing is dropped")

    def test_images(self):
        self.deck("images.yaml", data={"file": "small.h5", "augment": AUGMENT}, batch={"global": 24, "micro": 5}, optimizer={"learning_rate": 0.05},
                  model={"layers": [{"conv2d": {"filters": 4, "kernel": 3}}, "relu", {"max_pool": 2}, "flatten", {"dropout": 0.1}, {"linear": 10}]})
        self.expect_the_same("images.yaml")


if __name__ == "__main__":
    program.main()
