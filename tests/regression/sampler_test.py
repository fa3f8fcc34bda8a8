# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Other samplers, and augmented and mixed images: runs are the same on any number of ranks, and when resumed."""
import unittest

from program import LockstepTest, metrics, without_times

GLYPHS = {"synthetic": {"kind": "glyphs", "train": 210, "validation": 60}}
CHANGES = {"random_resized_crop": {"area": [0.5, 1]}, "color_jitter": {"brightness": 0.3, "contrast": 0.3}, "noise": 0.05, "cutout": 4,
           "mixup": 0.2, "cutmix": 1}


class Samplers(LockstepTest):
    def train(self, name, *overrides, ranks=1, **sections):
        deck = {"run": {"epochs": 3, "output_dir": name, "log_every": 1}, "data": GLYPHS, "batch": {"global": 24, "micro": 5},
                "model": {"layers": ["flatten", {"linear": {"features": 32}}, "relu", {"dropout": {"rate": 0.1}}, {"linear": {"features": 10}}]},
                "optimizer": {"type": "sgd", "learning_rate": 0.05}}
        self.deck("deck.yaml", **{**deck, **sections})
        self.lockstep("train", "deck.yaml", *overrides, ranks=ranks)
        return without_times(metrics(self.folder / name))

    def expect_near(self, a, b):
        self.assertEqual(len(a), len(b))
        for x, y in zip(a, b):
            self.assertAlmostEqual(float(x["loss"]) / float(y["loss"]), 1, delta=2e-5)

    def test_the_same_on_any_number_of_ranks(self):
        for name, data in ("class_balanced", {**GLYPHS, "sampler": "class_balanced"}), ("changes", {**GLYPHS, "augment": CHANGES}), \
                ("both", {**GLYPHS, "sampler": "class_balanced", "augment": CHANGES}):
            with self.subTest(name):
                one = self.train(f"{name}_1", data=data)
                for ranks in (2, 4):
                    self.expect_near(one, self.train(f"{name}_{ranks}", ranks=ranks, data=data))
                self.train(f"{name}_parts", "run.steps=13", data=data)
                self.assertEqual(one, self.train(f"{name}_parts", data=data))
        plain = self.train("plain")
        self.assertNotEqual(plain[5]["loss"], one[5]["loss"])

    def test_distributed_sampler(self):
        """It pads epochs to a multiple of the ranks, so that other numbers of ranks give other results."""
        data = {**GLYPHS, "sampler": "distributed_sampler"}
        model = {"layers": ["flatten", {"linear": {"features": 10}}]}  # no dropout, which is drawn by places in the batch
        one, four = (self.train(f"run{ranks}", ranks=ranks, data=data, model=model) for ranks in (1, 4))
        self.expect_near(one[:8], four[:8])
        self.assertNotAlmostEqual(float(one[8]["loss"]) / float(four[8]["loss"]), 1, delta=1e-4, msg="210 examples are padded to 212")
        self.train("parts", "run.steps=13", ranks=4, data=data, model=model)
        self.assertEqual(four, self.train("parts", ranks=4, data=data, model=model))
        self.deck("deck.yaml", run={"epochs": 4, "output_dir": "run4"}, data=GLYPHS, batch={"global": 24, "micro": 5}, model=model,
                  optimizer={"type": "sgd", "learning_rate": 0.05})
        self.refused(78, ["data.sampler: was distributed_sampler"], "train", "deck.yaml")


if __name__ == "__main__":
    unittest.main()
