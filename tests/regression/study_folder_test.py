#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Folders in which a study does not begin: those of another study, and those with files of others."""
import json
import shutil
import sys

import program
from study_test import StudyTest

try:
    import h5py
    import numpy
except ImportError:
    print("skipped: no h5py here")
    sys.exit(77)


class StudyFolder(StudyTest):
    def test_a_ledger_of_another_study(self):
        self.study(batches=[16], trials_feasible=1, budget={"steps": 8}, evaluations=2)
        self.lockstep("study", "study.yaml")
        before = (self.folder / "study/ledger.jsonl").read_bytes()
        self.refused(78, ["ledger of another study", "steps: 8", "steps: 9"], "study", "study.yaml", "budget.steps=9")
        self.deck(data={"synthetic": {"kind": "glyphs", "train": 512, "validation": 101}}, run={"steps": 4})
        self.refused(78, ["ledger of another study"], "study", "study.yaml")
        ledger = self.folder / "study/ledger.jsonl"
        self.assertEqual(ledger.read_bytes(), before)
        # A trial that is in no ledger yet would go on from its checkpoint, whatever its settings were.
        ledger.write_bytes(before.splitlines(keepends=True)[0])
        self.refused(78, ["ledger of another study", "move the file and study/trials away"], "study", "study.yaml")
        ledger.unlink()
        self.refused(78, ["study/trials: has trials, but study/ledger.jsonl, which names their study, is missing"], "study", "study.yaml")
        ledger.write_text("something else\n")
        self.refused(65, ["ledger.jsonl", "line 1"], "study", "study.yaml")
        ledger.write_bytes(before.splitlines(keepends=True)[0] + b"something else\n")
        self.refused(65, ["ledger.jsonl", "line 2"], "study", "study.yaml")
        # What the message says to do is enough.
        ledger.unlink()
        shutil.rmtree(self.folder / "study/trials")
        self.lockstep("study", "study.yaml")

    def test_a_trial_that_diverged_on_one_rank_is_not_begun_again(self):
        """Its rank ends the whole study, as the others know nothing of its step; the next start goes past the trial."""
        self.deck(parallel={"local": {"every": 2}})
        self.study(batches=None, space=None, vary={"optimizer.learning_rate": [1e38, 0.01]}, trials_feasible=1, goal={"metric": "validation_loss", "best": "min"},
                   budget={"steps": 8}, evaluations=2, ranks_per_trial=2)
        result = self.lockstep("study", "study.yaml", ranks=2, status=70)
        self.assertIn("in a local step", result.err)
        result = self.lockstep("study", "study.yaml", ranks=2, status=70)
        self.assertIn("0 of the ensemble's 1 members are feasible", result.err)
        outcomes = [json.loads(line)["outcome"] for line in (self.folder / "study/ledger.jsonl").read_text().splitlines()[1:]]
        self.assertEqual(outcomes, ["diverged", "complete"])

    def test_other_data_in_the_same_file(self):
        """Trials on other data would be compared with those before."""
        with h5py.File(self.folder / "data.h5", "w") as file:
            for split in ("train", "validation"):
                file[f"{split}/inputs"] = numpy.random.default_rng(1).random((32, 4), "f4")
                file[f"{split}/targets"] = numpy.arange(32, dtype="f4").reshape(32, 1)
        self.deck(data={"file": "data.h5"}, model={"layers": [{"linear": {"features": 1}}]}, loss={"type": "mse"}, run={"steps": 4})
        self.study(batches=[16], trials_feasible=1, budget={"steps": 4}, evaluations=1, goal={"metric": "validation_loss", "best": "min"},
                   space={"optimizer.learning_rate": {"log": [1e-6, 1e-5]}})
        self.lockstep("study", "study.yaml")
        self.lockstep("study", "study.yaml", "trials_feasible=2", ranks=2)
        with h5py.File(self.folder / "data.h5", "r+") as file:
            file["train/targets"][3] = 7
        ledger = (self.folder / "study/ledger.jsonl").read_bytes()
        self.refused(65, ["study/data.yaml: the data of the base deck have changed since the study began (they were 'train: "], "study", "study.yaml", "trials_feasible=3", ranks=2)
        self.assertEqual((self.folder / "study/ledger.jsonl").read_bytes(), ledger)
        (self.folder / "study/ledger.jsonl").unlink()
        shutil.rmtree(self.folder / "study/trials")
        self.lockstep("study", "study.yaml")

    def test_the_record_of_gradients_is_refused(self):
        self.deck(parallel={"sync_batch_norm": False, "asynchronous": {"schedule": {"free": True, "record": "order.txt"}}})
        self.study(batches=[16], trials_feasible=1)
        self.refused(78, ["deck.yaml", "parallel.asynchronous.schedule.record", "each trial of the study would replace"], "study", "study.yaml")

    def test_files_of_others_are_not_replaced(self):
        self.study(batches=[16], trials_feasible=1, budget={"steps": 8}, evaluations=2)
        for name in ("study.yaml", "base.yaml", "data.yaml", "study.json", "measurements.csv", "steps_to_goal.svg", "learning_rate.svg", "branches.svg"):
            with self.subTest(name):
                file = self.write(f"of_{name}/{name}", "mine: true\n")
                before = program.snapshot(file.parent)
                self.refused(73, [f"of_{name}/{name}", "is not replaced"], "study", "study.yaml", f"output_dir=of_{name}")
                self.assertEqual(program.snapshot(file.parent), before)
                self.assertEqual([path.name for path in file.parent.iterdir()], [name])


if __name__ == "__main__":
    program.main()
