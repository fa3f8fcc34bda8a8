# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The base of tests of mistakes: an earlier run that must not change, and the numbers of ranks to try each mistake on."""
import os
import sys

from program import LockstepTest, snapshot

RANKS = (1, 4)
MOSTLY = RANKS if "--full" in sys.argv else RANKS[:1]
sys.argv = [argument for argument in sys.argv if argument != "--full"]


class MistakeTest(LockstepTest):
    def setUp(self):
        super().setUp()
        # An earlier run, which must not change whatever is wrong with the next one.
        self.once(lambda: self.lockstep("train", self.deck()))
        self.before = snapshot(self.folder / "run")
        self.assertIn("metrics.csv", self.before)

    def check(self, status, words, *arguments, on=MOSTLY):
        for ranks in on:
            with self.subTest(ranks=ranks):
                here = set(os.listdir(self.folder))
                self.refused(status, words, *arguments, ranks=ranks)
                self.assertEqual(snapshot(self.folder / "run"), self.before, "the earlier run was changed")
                self.assertEqual(set(os.listdir(self.folder)) - here, set(), "something was left behind")

    def train(self, status, words, *overrides, on=MOSTLY):
        self.check(status, words, "train", "deck.yaml", "run.overwrite=true", "run.resume=never", *overrides, on=on)
