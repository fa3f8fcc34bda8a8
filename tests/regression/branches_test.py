#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Branches from a checkpoint: runs of their own, and a study of several batches."""
import json

import program
from study_test import StudyTest, records


class Branches(StudyTest):
    def train(self, name, optimizer, **run):
        deck = self.deck(f"{name}.yaml", data={"synthetic": {"kind": "glyphs", "train": 512, "validation": 100}, "shuffle": False},
                         optimizer=optimizer, batch={"global": 32}, checkpoint={"every_steps": 16, "keep": 0},
                         run={"name": name, "log_every": 1, "seed": 3, **run})
        self.lockstep("train", deck)

    def losses(self, name, after=0):
        return [(int(row["step"]) - after, row["split"], row["loss"], row["grad_norm"])
                for row in program.metrics(self.folder / "runs" / name) if int(row["step"]) > after]

    def test_a_branch_is_what_the_run_would_have_been(self):
        """With the same deck, a branch equals the run, whose epochs have the same order of examples here."""
        for optimizer in ({"type": "adamw", "learning_rate": 0.003, "ema_decay": 0.9},
                          {"type": "sgd", "learning_rate": 0.1, "momentum": 0.9}):
            with self.subTest(optimizer):
                name = optimizer["type"]
                self.train(name, optimizer, epochs=2)
                branch_from = f"runs/{name}/checkpoints/step-00000016.h5"
                self.train(f"{name}_branch", optimizer, epochs=1, branch_from=branch_from)
                self.assertEqual(self.losses(f"{name}_branch"), self.losses(name, after=16))
                # An interrupted branch goes on from its own checkpoint.
                self.train(f"{name}_parts", optimizer, steps=5, branch_from=branch_from)
                self.train(f"{name}_parts", optimizer, steps=16, branch_from=branch_from)
                self.assertEqual(self.losses(f"{name}_parts")[-1], self.losses(name, after=16)[-1])

    def test_study(self):
        sgd = {"type": "sgd", "learning_rate": 0.05, "momentum": 0.9}
        self.train("base", sgd, steps=32)
        branch = {"checkpoint": "runs/base/checkpoints/latest", "rate": "linear", "tolerance": 0.2}
        self.study(base="base.yaml", batches=[32, 64, 256], space=None, trials_feasible=None, seeds=2,
                   budget={"examples": 1024}, evaluations=2, branch_from=branch,
                   goal={"metric": "validation_loss", "best": "min"})
        out = self.lockstep("study", "study.yaml", ranks=2).out
        self.assertIn("largest batch that is worse by at most 0.2", out)
        found = self.summary()["branches"][0]
        self.assertEqual([(point["batch"], round(point["learning_rate"], 9)) for point in found["points"]],
                         [(32, 0.05), (64, 0.1), (256, 0.4)])
        self.assertGreaterEqual(found["critical_batch"], 32)
        self.assertEqual({record["steps"] for record in records(self.folder / "study/ledger.jsonl").values()}, {32, 16, 4})
        self.assertEqual({record["seed"] for record in records(self.folder / "study/ledger.jsonl").values()}, {4, 5})
        self.assertIn("</svg>", (self.folder / "study/branches.svg").read_text())
        self.assertIn("branch_from", (self.folder / "study/trials/02-0000/deck.yaml").read_text())
        first = self.lockstep("report", "--study", "study").out
        self.assertIn("256", first)
        self.unfinished()
        goal = {"metric": "validation_loss", "best": "min"}
        for sections, words in [
            ({"batches": [64, 128]}, ["batches", "lacks 32"]),
            ({"batches": [32]}, ["batches", "fewer than two"]),
            ({"space": {"optimizer.momentum": {"linear": [0.1, 0.9]}}, "trials_feasible": 2}, ["space", "branch_from"]),
            ({"goal": {"metric": "validation_loss", "value": 0.3}}, ["goal", "give best"]),
            ({"budget": {"steps": 10}}, ["budget", "examples"]),
            ({"vary": {"optimizer.learning_rate": [0.1, 0.2]}}, ["vary", "optimizer.learning_rate"]),
            ({"branch_from": {**branch, "rate": "cubic"}}, ["rate", "linear or sqrt"]),
        ]:
            with self.subTest(sections):
                self.study(**{"base": "base.yaml", "batches": [32, 64], "space": None, "trials_feasible": None,
                              "budget": {"examples": 1024}, "evaluations": 2, "branch_from": branch, "goal": goal,
                              "output_dir": "bad", **sections})
                self.refused(78, words, "study", "study.yaml")
        self.study(base="base.yaml", batches=[32, 64], space=None, trials_feasible=None, budget={"examples": 1024},
                   evaluations=2, branch_from={**branch, "checkpoint": "nowhere.h5"}, goal=goal, output_dir="bad")
        self.refused(66, ["branch_from.checkpoint: nowhere.h5: no such file; the path is relative to the study file: check it"], "study", "study.yaml")
        self.base_refused()

    def unfinished(self):
        """A batch whose branches are not all done is not worse than others: nothing is known of it yet."""
        kept, ledger = self.folder / "study/study.yaml", self.folder / "study/ledger.jsonl"
        kept.write_text(kept.read_text().replace("tolerance: 0.2", "tolerance: 100"))
        lines = sorted(ledger.read_text().splitlines(keepends=True), key=lambda line: "\"group\":2" in line)
        last = json.loads(lines[-1])
        for changed, text, is_limit in [("", "at least 64", False), (json.dumps({**last, "outcome": "diverged"}) + "\n", "64", True),
                                        (lines[-1], "at least 256", False)]:
            ledger.write_text("".join(lines[:-1]) + changed)
            out = self.lockstep("report", "--study", "study").out
            self.assertIn(f"worse by at most 100 after the same number of examples: {text}\n", out)
            self.assertEqual(self.summary()["branches"][0]["is_limit"], is_limit)

    def base_refused(self):
        """Branches that do not suit the base run are refused."""
        branch = "runs/base/checkpoints/latest"
        self.deck("other.yaml", run={"steps": 2, "branch_from": branch}, optimizer={"type": "adam", "learning_rate": 0.01},
                  data={"synthetic": {"kind": "glyphs", "train": 512, "validation": 100}})
        self.refused(65, ["/optimizer/"], "train", "other.yaml")
        self.deck("plan.yaml", run={"name": "plan", "steps": 2, "branch_from": branch},
                  data={"synthetic": {"kind": "glyphs", "train": 512, "validation": 100}})
        self.assertIn("optimizer state, the result of 32 steps", self.lockstep("check", "plan.yaml").out)
        self.deck("both.yaml", run={"steps": 2, "branch_from": branch}, model={"layers": ["flatten", {"linear": 10}], "weights": {"file": branch}},
                  data={"synthetic": {"kind": "glyphs", "train": 512, "validation": 100}})
        self.refused(78, ["run.branch_from", "model.weights"], "train", "both.yaml")


if __name__ == "__main__":
    program.main()
