# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every deck of inputs/ runs, and linear_regression finds its answer."""
import re
import shutil
import subprocess
import unittest

import program
from program import SOURCE, LockstepTest, idx_images, idx_labels, metrics, summary

DECKS = sorted((SOURCE / "inputs").glob("*.yaml"))


class Inputs(LockstepTest):
    def test_there_are_some(self):
        self.assertIn("quickstart.yaml", [deck.name for deck in DECKS])
        self.assertIn("linear_regression.yaml", [deck.name for deck in DECKS])

    def test_every_deck_runs_a_few_steps(self):
        images, labels = idx_images(self.folder / "images", 300), idx_labels(self.folder / "labels", 300)
        self.lockstep("import", "idx", "--images", images, "--labels", labels, "--validation", 40, "--output", "small.h5")
        text = self.folder / "text.txt"
        text.write_text("".join(chr(32 + i * i % 65) for i in range(6000)))
        self.lockstep("import", "text", "--file", text, "--validation", 0.1, "--output", "text.h5")
        for deck in DECKS:
            with self.subTest(deck=deck.name):
                overrides = ["run.steps=3", "run.log_every=1", f"run.output_dir=runs/{deck.stem}"]
                content = deck.read_text()
                if "file: text.h5" in content:
                    overrides += ["batch.global=4"]
                elif "synthetic:" in content:
                    large = "224, 224" in content
                    overrides += [f"data.synthetic.train={8 if large else 256}", f"data.synthetic.validation={2 if large else 40}"]
                    overrides += ["batch.global=2"] if large else []
                else:
                    overrides += ["data.file=small.h5"]
                check = self.lockstep("check", deck, *overrides).out
                self.lockstep("train", deck, *overrides, ranks=2, limit=120)
                rows = metrics(self.folder / "runs" / deck.stem)
                self.assertEqual(len([row for row in rows if row["split"] == "train"]), 3)
                self.assertEqual(rows[-1]["split"], "validation")
                self.lockstep("train", deck, *overrides, "run.overwrite=true", "run.resume=never", limit=120)
                value, unit = re.search(r"peak memory +([0-9.]+) (MB|GB)", check).groups()
                predicted = float(value) * {"MB": 1e6, "GB": 1e9}[unit]
                measured = summary(self.folder / "runs" / deck.stem)["peak_rss_bytes"]
                self.assertLess(abs(predicted / measured - 1), 0.1, f"{deck.stem}: check says {value} {unit}, and {measured} bytes were used")
                self.assertEqual(summary(self.folder / "runs" / deck.stem)["steps"], 3)

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
        """By h5dump, where it is: nothing of ours has a part in it."""
        if not shutil.which("h5dump"):
            return None
        text = subprocess.run(["h5dump", "-y", "-w", "0", "-d", "/model/fc/weight", checkpoint], check=True, capture_output=True, text=True).stdout
        data = text[text.index("DATA {") + 6:text.index("}", text.index("DATA {"))]
        return [float(number) for number in data.replace("\n", " ").split(",")]


if __name__ == "__main__":
    program.main()
