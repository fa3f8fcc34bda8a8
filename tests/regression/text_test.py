# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains on real text: the transformer and the LSTM learn to continue Shakespeare. Arguments: the tests to run."""
import unittest

import program
from program import SOURCE, LockstepTest, data_dir, summary

TEXT = data_dir() and data_dir() / "text/tinyshakespeare.txt"


@unittest.skipUnless(TEXT and TEXT.exists(), "no text: neither LOCKSTEP_DATA_DIR nor ../shared/data has text/tinyshakespeare.txt")
class Text(LockstepTest):
    """The first 150 of the decks' 2,000 steps bring the loss well below the 3.3 nats of letter frequencies alone."""

    def train(self, deck, target, *overrides, limit):
        self.lockstep("import", "text", "--file", TEXT, "--validation", 0.1, "--output", "text.h5", "--overwrite")
        self.lockstep("train", SOURCE / "inputs" / deck, "run.output_dir=run", *overrides, limit=limit)
        self.assertLessEqual(summary(self.folder / "run")["validation"]["loss"], target)
        self.write_on()

    def write_on(self):
        """Lets the network continue a text. (Of all pairs of characters, a third occurs in the text.)"""
        written = self.lockstep("predict", "run/checkpoints/latest", "--generate", 300, "--prompt", "KING ", "--seed", 3).out.removesuffix("\n")
        self.assertEqual((len(written), written[:5]), (305, "KING "))
        text = TEXT.read_text()
        pairs = [written[i:i + 2] in text for i in range(5, 304)]
        self.assertGreater(sum(pairs) / len(pairs), 0.93, written)
        return text, written

    def test_transformer(self):
        self.train("text_transformer.yaml", 2.6, "run.steps=150", limit=200)

    def test_lstm(self):
        self.train("text_lstm.yaml", 2.5, "run.steps=150", limit=200)


class TextLoss(Text):
    """The losses that the decks promise, in both precisions. Each test takes 4 to 6 minutes, so that ctest does not run them."""

    def write_on(self):
        text, written = super().write_on()
        known, words = set(text.split()), written.split()[1:-1]  # the last word may be cut off
        self.assertGreater(sum(word in known for word in words) / len(words), 0.6, written)

    def test_transformer(self):
        for compute in ("fp32", "bf16"):
            self.train("text_transformer.yaml", 1.75, f"precision.compute={compute}", "run.overwrite=true", "run.resume=never", limit=1200)

    def test_lstm(self):
        for compute in ("fp32", "bf16"):
            self.train("text_lstm.yaml", 1.68, f"precision.compute={compute}", "run.overwrite=true", "run.resume=never", limit=1200)


if __name__ == "__main__":
    program.main()
