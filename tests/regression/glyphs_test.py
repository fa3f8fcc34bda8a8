# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The drawn digits are a real problem: a linear model stays well below the network of the quickstart."""
import program
from program import SOURCE, LockstepTest, summary


class Glyphs(LockstepTest):
    def accuracy(self, name, *overrides):
        self.lockstep("train", SOURCE / "inputs" / "quickstart.yaml", f"run.output_dir={name}", *overrides, ranks=2, limit=400)
        return summary(self.folder / name)["validation"]["accuracy"]

    def test_a_linear_model_stays_well_below_a_cnn(self):
        linear = self.accuracy("linear", "model={layers: [flatten, {linear: {features: 10}}]}", "optimizer.learning_rate=0.01", "run.epochs=10")
        cnn = self.accuracy("cnn", "run.epochs=2")
        self.assertGreater(cnn, 0.98)
        self.assertGreater(linear, 0.3)
        self.assertLess(linear, 0.92)


if __name__ == "__main__":
    program.main()
