# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every subcommand, on one rank and on several."""
import json
import unittest

import program
from program import SOURCE, LockstepTest, idx_images, idx_labels, metrics, summary

try:
    import jsonschema
    import yaml
except ImportError:
    jsonschema = None

COLUMNS = ["step", "epoch", "split", "loss", "accuracy", "learning_rate", "loss_scale", "grad_norm", "examples_per_s", "step_ms",
           "noise_scale", "reduce_exposed_ms"]


class Commands(LockstepTest):
    def test_help(self):
        for arguments in (["--help"], ["-h"], ["train", "--help"], ["import", "idx", "--help"]):
            for ranks in (1, 4):
                result = self.lockstep(*arguments, ranks=ranks)
                self.assertEqual(result.out.lower().count("usage:"), 1, "said by one rank alone")
        for name in ("train", "check", "evaluate", "import", "inspect", "info", "schema"):
            self.assertIn(name, self.lockstep("--help").out)

    def test_version(self):
        self.assertRegex(self.lockstep("--version").out, r"^lockstep \d+\.\d+\.\d+ \(\S+\)\n$")

    def test_info(self):
        for ranks in (1, 2):
            out = self.lockstep("info", ranks=ranks).out
            for word in ("lockstep", "git", "compiler", "kokkos", "backend", "mpi", "hdf5", "providers", "portable"):
                self.assertEqual(sum(line.startswith(word) for line in out.splitlines()) or out.count(word), 1, out)

    def test_schema_is_json(self):
        schema = json.loads(self.lockstep("schema").out)
        for section in ("run", "data", "model", "loss", "optimizer", "schedule", "batch", "precision", "parallel", "providers", "checkpoint"):
            self.assertIn(section, schema["properties"])

    @unittest.skipUnless(jsonschema, "Python's jsonschema and yaml are not here")
    def test_schema_accepts_what_the_program_accepts(self):
        schema = json.loads(self.lockstep("schema").out)
        jsonschema.Draft202012Validator.check_schema(schema)
        validator = jsonschema.Draft202012Validator(schema)
        decks = [yaml.safe_load(path.read_text()) for path in (SOURCE / "inputs").glob("*.yaml")]
        decks.append(yaml.safe_load(self.lockstep("check", self.deck()).out.split("\n\n")[0]))
        for deck in decks:
            self.assertEqual([error.message for error in validator.iter_errors(deck)], [], deck)
        for path, value in (("batch", {"global": -1}), ("batch", {"globl": 1}), ("precision", {"compute": "fp7"}), ("model", {"layers": ["rleu"]}),
                            ("optimizer", {"type": "sgd", "momentum": 1}), ("data", {"synthetic": {"kind": "glyphs", "features": 3}})):
            self.assertTrue(list(validator.iter_errors({**decks[0], path: value})), (path, value))

    def test_reference_page_is_up_to_date(self):
        page = SOURCE / "docs" / "user" / "deck_reference.md"
        self.assertTrue(page.exists(), "make it with: lockstep schema --reference")
        generated = self.lockstep("schema", "--reference").out
        self.assertIn("| `global` |", generated)
        self.assertIn(generated.strip(), page.read_text(), "make it again with: lockstep schema --reference")

    def test_check(self):
        deck = self.deck()
        for ranks in (1, 2):
            out = self.lockstep("check", deck, "--ranks", 3, "batch.global=16", ranks=ranks).out
            self.assertIn("linear_1", out)
            self.assertIn("12560", out)  # 784·16 + 16
            self.assertIn("[16, 784]", out)
            self.assertIn("batch 16 = 3 ranks × 5 or 6, at most 6 at once", out)
            self.assertEqual(out.count("reduced a step"), 1)
            self.assertIn("begins with          initial values of seed 7", out)
        self.assertFalse((self.folder / "run").exists(), "check leaves nothing")
        self.refused(78, ["batch.global"], "check", deck, "batch.global=0")
        self.refused(66, ["nothing.h5"], "check", deck, "data={file: nothing.h5}")

    def test_resolved_deck_reads_back_to_the_same(self):
        self.deck()
        self.lockstep("train", "deck.yaml")
        first = (self.folder / "run" / "deck.yaml").read_text()
        self.write("again.yaml", first)
        self.lockstep("train", "again.yaml", "run.resume=never", "run.overwrite=true")
        self.assertEqual((self.folder / "run" / "deck.yaml").read_text().replace("overwrite: true", "overwrite: false").replace(
            'resume: "never"', 'resume: "auto"'), first)
        self.assertTrue(first.startswith("# Resolved by Lockstep"))
        self.assertIn(first.split("\n")[1], self.lockstep("check", "again.yaml").out)

    def test_import_inspect_train_evaluate(self):
        images, labels = idx_images(self.folder / "images.gz", 130), idx_labels(self.folder / "labels.gz", 130)
        arguments = ["import", "idx", "--images", images, "--labels", labels, "--validation", 30, "--output", "data.h5"]
        self.lockstep(*arguments, ranks=2)
        out = self.lockstep("inspect", "data.h5").out
        for words in ("/train/inputs", "100×28×28×1", "/validation/targets", "checksum ok"):
            self.assertIn(words, out)
        self.assertNotIn("BAD", out)

        self.deck(data={"file": "data.h5"}, run={"epochs": 12, "output_dir": "run", "log_every": 5})
        self.lockstep("train", "deck.yaml", ranks=2)
        rows = metrics(self.folder / "run")
        self.assertEqual(list(rows[0]), COLUMNS)
        last = [row for row in rows if row["split"] == "validation"][-1]
        self.assertEqual(float(last["accuracy"]), 1.0, "these images are easy")
        report = summary(self.folder / "run")
        self.assertEqual((report["status"], report["epochs"], report["steps"], report["ranks"]), ("done", 12, 84, 2))
        for key in ("threads", "train", "validation", "examples_per_s", "step_ms", "phases_ms", "flops_per_step", "gflops_per_rank",
                    "peak_rss_bytes", "parameters", "resumed_from"):
            self.assertIn(key, report)
        self.assertEqual(set(report["phases_ms"]), {"data", "forward", "backward", "reduce_exposed", "optimizer", "checkpoint"})
        self.assertEqual(report["parameters"], 784 * 16 + 16 + 160 + 10)

        checkpoint = "run/checkpoints/step-00000084.h5"
        for ranks in (1, 3):
            out = self.lockstep("evaluate", "deck.yaml", "--checkpoint", checkpoint, ranks=ranks).out.split()
            self.assertEqual(out[0::2], ["loss", "accuracy"])
            self.assertAlmostEqual(float(out[1]) / float(last["loss"]), 1, delta=1e-5)
            self.assertEqual(float(out[3]), 1.0)
        self.assertIn("checkpoint", self.lockstep("inspect", checkpoint).out)
        self.refused(66, ["nothing.h5"], "evaluate", "deck.yaml", "--checkpoint", "nothing.h5", ranks=2)
        self.refused(65, ["parameters"], "evaluate", "deck.yaml", "--checkpoint", "data.h5")

        # A checkpoint is itself a valid model.weights: the first evaluation starts where the other run ended.
        self.lockstep("train", "deck.yaml", f"model.weights={checkpoint}", "run.output_dir=other", "run.steps=1", "run.epochs=1",
                      "optimizer.learning_rate=0", "optimizer.momentum=0")
        again = [row for row in metrics(self.folder / "other") if row["split"] == "validation"][-1]
        self.assertAlmostEqual(float(again["loss"]) / float(last["loss"]), 1, delta=1e-5)

    def test_inspect_finds_damage(self):
        images, labels = idx_images(self.folder / "images", 130), idx_labels(self.folder / "labels", 130)
        self.lockstep("import", "idx", "--images", images, "--labels", labels, "--output", "data.h5")
        path = self.folder / "data.h5"
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        self.refused(65, ["/train/inputs"], "inspect", "data.h5", ranks=2)

    def test_import_text(self):
        self.write("text.txt", "to be or not to be × " * 20)
        self.lockstep("import", "text", "--file", "text.txt", "--validation", 0.1, "--output", "text.h5")
        out = self.lockstep("inspect", "text.h5").out
        for words in ("/train/tokens", "/validation/tokens", "/vocabulary", "378", "42"):
            self.assertIn(words, out)

    def test_target_ends_a_run(self):
        self.deck(run={"epochs": 500, "output_dir": "run", "target": {"metric": "validation_accuracy", "value": 0.3}},
                  data={"synthetic": {"kind": "glyphs", "train": 256, "validation": 100}})
        self.lockstep("train", "deck.yaml", ranks=2)
        report = summary(self.folder / "run")
        self.assertEqual(report["status"], "target_reached")
        self.assertGreaterEqual(report["validation"]["accuracy"], 0.3)
        self.assertLess(report["epochs"], 500)

    def test_more_ranks_than_examples(self):
        self.deck(data={"synthetic": {"kind": "glyphs", "train": 3, "validation": 2}}, batch={"global": 2})
        self.lockstep("train", "deck.yaml", ranks=4)
        self.assertEqual(summary(self.folder / "run")["steps"], 4)

    def test_one_rank_speaks(self):
        self.deck()
        out = self.lockstep("train", "deck.yaml", ranks=4).out
        self.assertEqual(sum("|g|" in line for line in out.splitlines()), 4, out)


if __name__ == "__main__":
    program.main()
