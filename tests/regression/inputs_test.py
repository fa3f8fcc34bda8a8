# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every deck of inputs/ runs, and linear_regression finds the true weights."""
import re
import shutil
import subprocess
import unittest

import program
import short_decks
from program import SOURCE, LockstepTest, metrics, summary
from short_decks import DECKS, import_data


class Inputs(LockstepTest):
    def test_there_are_some(self):
        self.assertIn("quickstart.yaml", [deck.name for deck in DECKS])
        self.assertIn("linear_regression.yaml", [deck.name for deck in DECKS])

    def test_every_deck_runs_a_few_steps(self):
        import_data(self.folder, self.lockstep)
        for deck in DECKS:
            with self.subTest(deck=deck.name):
                overrides = ["run.steps=2", "run.log_every=1", f"run.output_dir=runs/{deck.stem}", *short_decks.overrides(deck)]
                check = self.lockstep("check", deck, *overrides).out
                self.lockstep("train", deck, *overrides, ranks=2, limit=240)
                rows = metrics(self.folder / "runs" / deck.stem)
                self.assertEqual(len([row for row in rows if row["split"] == "train"]), 2)
                self.assertEqual(rows[-1]["split"], "validation")
                self.assertEqual(summary(self.folder / "runs" / deck.stem)["steps"], 2)
                # One step needs as much memory as all of them.
                self.lockstep("train", deck, *overrides, "run.steps=1", "run.overwrite=true", "run.resume=never", limit=240)
                value, unit = re.search(r"peak memory +([0-9.]+) (MB|GB)", check).groups()
                predicted = float(value) * {"MB": 1e6, "GB": 1e9}[unit]
                measured = summary(self.folder / "runs" / deck.stem)["peak_rss_bytes"]
                self.assertLess(abs(predicted / measured - 1), 0.1, f"{deck.stem}: check says {value} {unit}, and {measured} bytes were used")

    def test_linear_regression_finds_its_answer(self):
        for ranks in (1, 2, 3):
            with self.subTest(ranks=ranks):
                folder = self.folder / f"run{ranks}"
                self.lockstep("train", SOURCE / "inputs" / "linear_regression.yaml", f"run.output_dir={folder}", ranks=ranks)
                report = summary(folder)
                self.assertLess(report["validation"]["loss"], 1e-8)
                weights = self.weights(sorted((folder / "checkpoints").iterdir())[-1])
                if weights is not None:
                    self.assertEqual(len(weights), 32)
                    for j, weight in enumerate(weights):
                        self.assertAlmostEqual(weight, ((j % 9) - 4) / 4, places=3)

    @staticmethod
    def weights(checkpoint):
        """Reads the weights by h5dump, without code of ours; None where h5dump is missing."""
        if not shutil.which("h5dump"):
            return None
        text = subprocess.run(["h5dump", "-y", "-w", "0", "-d", "/model/fc/weight", checkpoint], check=True, capture_output=True, text=True).stdout
        data = text[text.index("DATA {") + 6:text.index("}", text.index("DATA {"))]
        return [float(number) for number in data.replace("\n", " ").split(",")]


if __name__ == "__main__":
    program.main()
