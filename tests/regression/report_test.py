# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`lockstep report`: results, differing keys, times and efficiency of several runs in a table."""
import csv
import io
import json
import shutil

import program
from program import LockstepTest, metrics, summary


class Report(LockstepTest):
    def setUp(self):
        super().setUp()
        self.deck(run={"steps": 6, "log_every": 3})

    def train(self, name, *overrides, ranks=1):
        return self.lockstep("train", "deck.yaml", f"run.output_dir={name}", f"run.name={name}", *overrides, ranks=ranks)

    def report(self, *arguments):
        return self.lockstep("report", *arguments).out

    def table(self, *arguments):
        """The rows of `report --csv`, by the names of the runs."""
        rows = csv.DictReader(io.StringIO(self.report(*arguments, "--csv")))
        return {row["run"]: row for row in rows}

    def change_summary(self, name, **values):
        path = self.folder / name / "summary.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **values}))

    def test_scaling(self):
        self.train("one")
        self.assertIn("| reduce_exposed |", self.train("two", ranks=2).out)
        self.train("weak", "batch.global=32", ranks=2)
        spread = summary(self.folder / "two")["ranks_ms"]["forward"]
        self.assertTrue(0 < spread["min"] <= spread["mean"] <= spread["max"])
        self.assertIn(spread["slowest_rank"], (0, 1))
        out = self.report("one", "two", "weak")
        self.assertRegex(out, r"\| one \| 1 × \d+ \| 16 \| done \| 6 \| .* 100\.0 % strong \|")
        self.assertRegex(out, r"\| two \| 2 × \d+ \| 16 \| done \| 6 \| .* % strong \|")
        self.assertRegex(out, r"\| weak \| 2 × \d+ \| 32 \| done \| 6 \| .* % weak \|")
        rows = self.table("one", "two", "weak")
        speed = {name: float(row["examples_per_s"]) for name, row in rows.items()}
        self.assertAlmostEqual(float(rows["two"]["efficiency_percent"]), 100 * speed["two"] / 2 / speed["one"], places=6)
        self.assertEqual([row["scaling"] for row in rows.values()], ["strong", "strong", "weak"])

    def test_efficiency_among_like_runs_only(self):
        like = ["run.seed=3", "run.log_every=1", "checkpoint.every_steps=2", "parallel.bucket_mb=1"]
        self.train("one")
        self.train("like", *like)
        self.train("other", "model.layers.1.linear.features=8")
        self.train("other_two", "model.layers.1.linear.features=8", *like, ranks=2)
        rows = self.table("one", "like", "other", "other_two", "--sort", "validation_loss")
        self.assertEqual([rows[name]["efficiency_percent"] for name in ("one", "other")], ["100", "100"], "bases")
        expected = 100 * float(rows["other_two"]["examples_per_s"]) / 2 / float(rows["other"]["examples_per_s"])
        self.assertAlmostEqual(float(rows["other_two"]["efficiency_percent"]), expected, places=6)
        self.assertTrue(rows["like"]["efficiency_percent"])
        self.train("batch", "batch.global=24")
        self.assertRegex(self.report("one", "batch"), r"\| batch \| .* \| – \|\n")
        for other in ({"threads": 9}, {"deck": {"data": {}}}):
            self.change_summary("batch", **{**summary(self.folder / "one"), **other})
            self.assertEqual(self.table("one", "batch")["batch"]["efficiency_percent"], "100", other)

    def test_results_and_differing_keys(self):
        self.train("a")
        self.train("b", "optimizer.learning_rate=0.01", "run.seed=8", "data.normalize={mean: [0.1], std: [0.3]}")
        rows = self.table("a", "b")
        for name, row in rows.items():
            result = summary(self.folder / name)
            for split in ("train", "validation"):
                for metric in ("loss", "accuracy"):
                    self.assertEqual(float(row[f"{split}_{metric}"]), result[split][metric])
            self.assertEqual((row["status"], row["ranks"], row["batch"], row["steps"], row["test_loss"]), ("done", "1", "16", "6", ""))
        keys = ["run.seed", "optimizer.learning_rate", "data.normalize.mean", "data.normalize.std"]
        self.assertEqual(set(rows["a"]) & {"run.name", "run.output_dir", "run.steps"}, set())
        self.assertEqual([rows["a"][key] for key in keys], ["1", "0.1", "", ""])
        self.assertEqual([rows["b"][key] for key in keys], ["8", "0.01", "[0.1]", "[0.3]"])
        out = self.report("a", "b")
        self.assertIn("| run | run.seed | optimizer.learning_rate | data.normalize.mean | data.normalize.std |\n", out)
        self.assertIn("| a | 1 | 0.1 | – | – |\n| b | 8 | 0.01 | [0.1] | [0.3] |\n", out)
        self.assertNotIn("test loss", out)
        self.assertNotIn("decks differ", self.report("a", "a"))
        self.assertEqual(self.report("a/summary.json", "b/summary.json").count("| 0.1 |"), out.count("| 0.1 |"))

        self.change_summary("b", test={"loss": 1.5, "accuracy": 0.25})
        self.assertIn("| test loss | test accuracy |", self.report("a", "b"))
        self.assertRegex(self.report("a", "b"), r"\| b \| .* \| 1\.5 \| 0\.2500 \|")
        self.assertEqual(self.table("a", "b")["b"]["test_accuracy"], "0.25")

    def test_csv_is_quoted(self):
        self.train("plain")
        shutil.copytree(self.folder / "plain", self.folder / "runs" / "plain")
        self.refused(66, ["runs/summary.json: no such file", "or all those in this one: runs/*"], "report", "runs")
        shutil.copytree(self.folder / "plain", self.folder / 'a "b", c')
        self.assertEqual(list(self.table("plain", 'a "b", c')), ["plain", 'a "b", c'])
        self.assertIn('\n"a ""b"", c",done,', self.report("plain", 'a "b", c', "--csv"))

    def test_sort(self):
        for number, rate in enumerate((0.001, 0.2, 0.05)):
            self.train(f"run{number}", f"optimizer.learning_rate={rate}", "run.steps=12")
        self.train("blind", "data.synthetic.validation=0")
        runs = ["blind", "run0", "run1", "run2"]
        for key in ("validation_accuracy", "validation_loss", "train_loss", "train_accuracy", "examples_per_s"):
            rows = list(self.table("--sort", key, *runs).values())
            values = [float(row[key]) for row in rows if row[key]]
            self.assertEqual(values, sorted(values, reverse=not key.endswith("loss")), key)
            if key.startswith("validation"):
                self.assertEqual((rows[-1]["run"], rows[-1][key], len(values)), ("blind", "", 3))
        self.assertEqual(list(self.table(*runs)), runs)
        self.refused(64, ["--sort", "speed", "validation_accuracy", "validation_loss", "train_loss", "train_accuracy", "examples_per_s"],
                     "report", "run0", "--sort", "speed")

    def test_unfinished_runs(self):
        self.train("whole")
        shutil.copytree(self.folder / "whole", self.folder / "killed")
        (self.folder / "killed/summary.json").unlink()
        with open(self.folder / "killed/metrics.csv", "a") as file:
            file.write("9,3,train,123")  # a row that is being written
        last = {row["split"]: row for row in metrics(self.folder / "whole")}
        row = self.table("whole", "killed")["killed"]
        self.assertEqual((row["status"], row["steps"], row["ranks"], row["examples_per_s"], row["efficiency_percent"]), ("unfinished", "6", "", "", ""))
        self.assertEqual(float(row["train_loss"]), float(last["train"]["loss"]))
        self.assertEqual(float(row["validation_accuracy"]), float(last["validation"]["accuracy"]))
        self.assertRegex(self.report("killed"), r"\| killed \| – \| – \| unfinished \| 6 \| .* \| – \| – \| – \|")
        (self.folder / "killed/metrics.csv").unlink()
        self.assertRegex(self.report("killed"), r"\| killed \| – \| – \| unfinished \| – \| – \|")
        self.change_summary("whole", status="failed", validation={"loss": None, "accuracy": None}, examples_per_s=0)
        self.assertRegex(self.report("whole"), r"\| whole \| 1 × \d+ \| 16 \| failed \| 6 \| [\d.]+ \| [\d.]+ \| – \| – \| – \| – \| – \|")

    def test_folders_without_a_run(self):
        self.train("one")
        (self.folder / "empty").mkdir()
        for name in ("none", "empty"):
            self.refused(66, [f"{name}/summary.json", "deck.yaml", "output folder"], "report", name)
        result = self.lockstep("report", "empty", "one", "none")
        self.assertRegex(result.err, r"warning: empty/summary.json.*it is left out\n(.*\n)*warning: none/summary.json.*it is left out")
        self.assertEqual(result.out, self.report("one"))
        self.write("bad/summary.json", json.dumps({"ranks": 2}))
        self.refused(65, ["bad/summary.json", "is not the summary of a run"], "report", "bad")

    def test_the_deck_in_a_summary(self):
        self.train("new", 'run.name="12"', "optimizer.learning_rate=1e-8")
        deck = summary(self.folder / "new")["deck"]
        self.assertEqual((deck["run"]["name"], deck["run"]["steps"], deck["run"]["overwrite"]), ("12", 6, False))
        self.assertEqual((deck["optimizer"]["learning_rate"], deck["model"]["input"]), (1e-8, []))
        self.assertEqual(deck["model"]["layers"][1]["linear"]["features"], 16)


if __name__ == "__main__":
    program.main()
