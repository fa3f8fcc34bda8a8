# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every subcommand, on one rank and on several."""
import json
import os
import re
import resource
import socket
import subprocess
import unittest
import unittest.mock

import program
from idx import idx_images, idx_labels
from program import SOURCE, LockstepTest, metrics, summary, without_times

try:
    import jsonschema
    import yaml
except ImportError:
    jsonschema = None

COLUMNS = ["step", "epoch", "split", "loss", "accuracy", "learning_rate", "loss_scale", "grad_norm", "examples_per_s", "step_ms",
           "noise_scale", "reduce_exposed_ms"]

GLYPHS = {"kind": "glyphs", "train": 64, "validation": 20}
GOOD = {"run": {"steps": 4}, "data": {"synthetic": GLYPHS}, "model": {"layers": ["flatten", {"linear": 16}, {"dropout": 0.5}, {"linear": {"features": 10}}]}}
# Changes of a section of GOOD that both the schema and the program refuse.
WRONG = [
    ("run", {"seed": 1}), ("run", [4]), ("run", {"steps": 4, "overwrite": 1}), ("run", {"steps": 4, "name": {}}), ("run", {"steps": 4, "resume": ""}),
    ("run", {"steps": 4, "target": {"metric": "validation_loss"}}), ("data", None), ("data", {}), ("data", {"file": "x.h5", "synthetic": GLYPHS}),
    ("data", {"synthetic": {"train": 64}}), ("data", {"synthetic": {"kind": "glyphs", "features": 3}}), ("data", {"file": "x.h5", "validation": 1}),
    ("data", {"synthetic": GLYPHS, "normalize": {"mean": 0.1, "std": [1]}}), ("model", None), ("model", {}), ("model", {"preset": "fcc"}),
    ("model", {"preset": "fc", "layers": ["flatten"]}), ("model", {"preset": "fc", "units": 3}),
    *(("model", {"layers": layers}) for layers in (
        [], ["rleu"], ["linear"], ["dropout"], [{"linear": {}}], [{"dropout": {}}], [{"dropout": 1}], [{"linear": 0}], [{"linear": 1.5}], [{"linear": "ten"}],
        [{"relu": 3}], [{"relu": {}, "tanh": {}}], [{"name": "x"}], [{"relu": {}, "name": ["x"]}], [{"relu": {}, "from": []}],
        [{"max_pool": {"kernel": 2, "padding": "all"}}])),
    ("optimizer", {"learning_rate": "fast"}), ("optimizer", {"type": "sgd", "momentum": 1}), ("optimizer", {"type": "adamw", "momentum": 0.9}),
    ("batch", {"globl": 16}), ("batch", {"global": 0}), ("batch", {"global": 1.5}), ("batch", {"global": None}), ("precision", {"compute": "fp7"}),
    ("parallel", {"leaders": "some"}), ("btach", {"global": 16}),
]


class Commands(LockstepTest):
    def test_help(self):
        for arguments in (["--help"], ["-h"], ["train", "--help"], ["import", "idx", "--help"]):
            for ranks in (1, 2):
                result = self.lockstep(*arguments, ranks=ranks)
                self.assertEqual(result.out.lower().count("usage:"), 1, "said by one rank alone")
        out = self.lockstep("--help").out
        for name in ("train", "check", "evaluate", "import", "inspect", "info", "schema"):
            self.assertIn(name, out)

    def test_a_launcher_that_does_not_fit_the_mpi_library(self):
        self.deck()
        for variables in ({"PMI_RANK": "0", "PMI_SIZE": "4"}, {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "4"}):
            with unittest.mock.patch.dict(os.environ, variables):
                err = self.lockstep("train", "deck.yaml", "run.overwrite=true").err
            self.assertEqual(err.count("warning: 4 processes were started together, but MPI knows of 1: each works by itself"), 1, err)
        with unittest.mock.patch.dict(os.environ, {"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4"}):
            self.assertNotIn("started together", self.lockstep("train", "deck.yaml", "run.overwrite=true").err)
        self.assertNotIn("started together", self.lockstep("train", "deck.yaml", "run.overwrite=true", ranks=2).err)

    def test_version(self):
        self.assertRegex(self.lockstep("--version").out, r"^lockstep \d+\.\d+\.\d+ \(\S+\)\n$")

    def test_info(self):
        for ranks in (1, 2):
            out = self.lockstep("info", ranks=ranks).out
            for word in ("lockstep", "git", "compiler", "kokkos", "backend", "mpi", "hdf5", "providers", "portable"):
                self.assertEqual(sum(line.startswith(word) for line in out.splitlines()) or out.count(word), 1, out)

    def without_mpi(self):
        """From here on, MPI cannot start, as on many login nodes."""
        name = "OMPI_MCA_pml"
        before = os.environ.get(name)
        self.addCleanup(lambda: os.environ.pop(name) if before is None else os.environ.update({name: before}))
        os.environ[name] = "none_of_these"

    def test_what_needs_no_mpi_starts_none(self):
        self.deck()
        if "Open MPI" not in self.lockstep("info").out:
            self.skipTest("only Open MPI is known to fail on demand")
        images, labels = idx_images(self.folder / "images", 130), idx_labels(self.folder / "labels", 130)
        self.lockstep("train", "deck.yaml")
        self.without_mpi()
        lines = {1: [], 2: []}
        for ranks in lines:
            with self.subTest(ranks=ranks):
                for arguments in (
                        ["--help"], ["check", "--help"], ["--version"], ["info"], ["schema"], ["schema", "--reference"],
                        ["check", "deck.yaml"], ["check", "deck.yaml", "--data"], ["report", "run"],
                        ["import", "idx", "--images", images, "--labels", labels, "--output", f"data{ranks}.h5"],
                        ["import", "text", "--file", "deck.yaml", "--output", f"text{ranks}.h5"], ["inspect", f"data{ranks}.h5"]):
                    result = self.lockstep(*arguments, ranks=ranks)
                    self.assertEqual(result.err, "")
                    of_several = [line for line in result.out.splitlines() if line.startswith("by parallel.shard")]
                    lines[ranks].append(len(result.out.splitlines()) - len(of_several))
                self.refused(64, ["command line"], "chekc", "deck.yaml", ranks=ranks)
                self.refused(66, ["nothing.h5"], "inspect", "nothing.h5", ranks=ranks)
                self.refused(78, ["batch.global"], "check", "deck.yaml", "batch.global=0", ranks=ranks)
                self.assertIn(f"batch 16 = {ranks} rank", self.lockstep("check", "deck.yaml", ranks=ranks).out)
        self.assertEqual(lines[1], lines[2], "said by one rank alone")
        for arguments in (["train", "deck.yaml"], ["check", "deck.yaml", "--time"], ["bench", "peak"]):
            self.assertNotEqual(program.run(*arguments, cwd=self.folder).status, 0, f"MPI could start: {arguments}")

    def test_schema_is_json(self):
        schema = json.loads(self.lockstep("schema").out)
        for section in ("run", "data", "model", "loss", "optimizer", "schedule", "batch", "precision", "parallel", "providers", "checkpoint"):
            self.assertIn(section, schema["properties"])

    @unittest.skipUnless(jsonschema, "Python's jsonschema and yaml are not here")
    def test_schema_accepts_what_the_program_accepts(self):
        schema = json.loads(self.lockstep("schema").out)
        jsonschema.Draft202012Validator.check_schema(schema)
        validator = jsonschema.Draft202012Validator(schema)
        for path in [*sorted((SOURCE / "inputs").glob("*.yaml")), self.deck(), self.deck("short.yaml", **GOOD)]:
            for text in (path.read_text(), self.lockstep("check", path, "--deck").out):
                self.assertEqual([error.message for error in validator.iter_errors(yaml.safe_load(text))], [], text)
        for section, value in WRONG:
            with self.subTest(section=section, value=value):
                deck = self.deck("wrong.yaml", **{**GOOD, section: value})
                self.assertTrue(list(validator.iter_errors(yaml.safe_load(deck.read_text()))), "the schema accepts it")
                self.lockstep("check", deck, "--deck", status=78)

    def test_reference_page_is_up_to_date(self):
        page = SOURCE / "docs" / "user" / "deck_reference.md"
        generated = self.lockstep("schema", "--reference").out
        self.assertIn("| `global` |", generated)
        self.assertIn(generated.strip(), page.read_text(), "make it again with: lockstep schema --reference --write docs/user/deck_reference.md")

    def test_page_of_combinations_is_up_to_date(self):
        page = SOURCE / "docs" / "user" / "combinations.md"
        generated = self.lockstep("schema", "--combinations").out
        self.assertIn("| `parallel.local` | `parallel.offload`", generated)
        self.assertIn(generated.strip(), page.read_text(), "make it again with: lockstep schema --combinations --write docs/user/combinations.md")
        self.refused(64, ["--combinations"], "schema", "--reference", "--combinations")

    def test_files_page_has_every_layer_with_parameters(self):
        layers = json.loads((SOURCE / "tests/golden/layers.json").read_text())
        of_parameters = {re.match(r"\{?(\w+)", layer["entry"])[1] for layer in layers if layer["parameters"]}
        self.assertIn("linear", of_parameters)
        rows = [line.split("|")[1] for line in (SOURCE / "docs/user/files.md").read_text().splitlines() if line.startswith("| `")]
        self.assertEqual(of_parameters - {name for row in rows for name in re.findall(r"`(\w+)`", row)}, set())

    def test_reference_page_is_written_in_place(self):
        page = self.write("page.md", "# Page\n\nOur own words.\n\n<!-- generated -->\n| what | was |\n")
        self.assertEqual(self.lockstep("schema", "--reference", "--write", page).out, "")
        self.assertEqual(page.read_text(), "# Page\n\nOur own words.\n\n<!-- generated -->\n" + self.lockstep("schema", "--reference").out.rstrip() + "\n")
        self.refused(64, ["--reference"], "schema", "--write", page)
        self.refused(66, ["nothing.md"], "schema", "--reference", "--write", "nothing.md")
        plain = self.write("plain.md", "Our own words.\n")
        self.refused(65, ["plain.md", "<!-- generated -->"], "schema", "--reference", "--write", plain)
        self.assertEqual(plain.read_text(), "Our own words.\n")

    def test_deck_of_the_page_for_users_of_pytorch(self):
        page = (SOURCE / "docs" / "user" / "from_pytorch_ddp.md").read_text()
        (self.folder / "page.yaml").write_text(re.search("```yaml\n(.*?)```", page, re.S)[1])
        out = self.lockstep("check", "page.yaml", "--ranks", 8, "data={synthetic: {kind: random, shape: [224, 224, 3], classes: 1000, train: 1024, validation: 8}}",
                            "run.patience.evaluations=3").out
        self.assertIn("batch 512 = 8 ranks × 64, at most 32 at once", out)

    def test_check(self):
        deck = self.deck()
        for ranks in (1, 2):
            out = self.lockstep("check", deck, "--ranks", 3, "batch.global=16", ranks=ranks).out
            self.assertIn("linear_1", out)
            self.assertIn("12560", out)  # 784·16 + 16
            self.assertIn("[16, 784]", out)
            self.assertIn("batch 16 = 3 ranks × 5 or 6, at most 6 at once", out)
            self.assertEqual(out.count("all-reduced per step "), 1)
            self.assertIn("starts from          initial values from seed 7", out)
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

        # A checkpoint is a valid model.weights: the first evaluation is that of the end of the other run.
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

    def test_import_follows_no_link(self):
        """A link that somebody plants at the name of the temporary file is not followed."""
        images, labels = idx_images(self.folder / "images", 13), idx_labels(self.folder / "labels", 13)
        own = self.write("own", "not to be touched")
        host = re.sub(r"[^A-Za-z0-9.]", "_", socket.gethostname())
        plant = f'ln -s own "data.h5.tmp-{host}-$$"; exec "$0" import idx --images "$1" --labels "$2" --output data.h5'
        done = subprocess.run(["sh", "-c", plant, program.PROGRAM, images, labels], cwd=self.folder, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done)
        self.assertEqual(own.read_text(), "not to be touched")
        self.assertFalse((self.folder / "data.h5").is_symlink())
        self.assertIn("checksum ok", self.lockstep("inspect", "data.h5").out)
        self.assertEqual({path.name for path in self.folder.iterdir()}, {"images", "labels", "own", "data.h5"})

    def test_a_result_that_cannot_be_written(self):
        """Output to a full disk ends with status 74."""
        self.deck()
        for command in (("schema",), ("check", "deck.yaml", "--deck")):
            with open("/dev/full", "w") as full:
                done = subprocess.run([program.PROGRAM, *command], cwd=self.folder, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
            self.assertEqual(done.returncode, 74, done)
            self.assertIn("error: standard output: cannot be written (No space left on device)", done.stderr)

    def test_without_standard_streams(self):
        """Files do not get the number of a stream that the process was started without, and the lines that are written to it."""
        self.deck(checkpoint={"every_steps": 2})
        left = {}
        for name, closed in (("usual", ""), ("closed", "<&- >&- 2>&-"), ("no_output", ">&-"), ("no_errors", "2>&-")):
            (self.folder / name).mkdir()
            done = subprocess.run(["sh", "-c", f'exec "$0" train ../deck.yaml {closed}', program.PROGRAM], cwd=self.folder / name,
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done)
            left[name] = (without_times(metrics(self.folder / name / "run")), (self.folder / name / "run/checkpoints/latest").read_bytes())
            self.assertEqual(left[name], left["usual"], name)
            self.assertEqual(summary(self.folder / name / "run")["status"], "done")
        for command in ("check deck.yaml --deck", "evaluate deck.yaml --checkpoint usual/run/checkpoints/latest"):  # MPI opens files, too
            done = subprocess.run(["sh", "-c", f'exec "$0" {command} >&-', program.PROGRAM], cwd=self.folder, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 74, done)
            self.assertIn("error: standard output: cannot be written (Bad file descriptor)", done.stderr)

    @unittest.skipUnless(resource.getrlimit(resource.RLIMIT_STACK)[1] == resource.RLIM_INFINITY, "stacks of threads cannot be made so large")
    def test_a_limit_on_threads(self):
        self.deck()

        def allow_none():  # a limit on processes does not hold for root; a thread whose stack finds no room is refused in the same way
            resource.setrlimit(resource.RLIMIT_STACK, (64 << 30, resource.getrlimit(resource.RLIMIT_STACK)[1]))
            resource.setrlimit(resource.RLIMIT_AS, (32 << 30, 32 << 30))

        done = subprocess.run([program.PROGRAM, "train", "deck.yaml"], cwd=self.folder, preexec_fn=allow_none, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 70, done)
        self.assertRegex(done.stderr, r"^error: no further thread can be started \(Resource temporarily unavailable\); raise the limit .*\n$")

    def test_paths_that_nobody_can_follow(self):
        (self.folder / "loop").symlink_to("loop")
        self.refused(74, ["loop", "Too many levels of symbolic links; check the path"], "report", "loop")

    def test_the_norm_is_that_of_the_gradient(self):
        """This holds even for an optimizer that writes its step over the gradient."""
        norms = {}
        for optimizer in ({"type": "sgd", "learning_rate": 0.1}, {"type": "adafactor", "learning_rate": 0.01},
                          {"type": "adafactor", "learning_rate": 0.01, "clip_norm": 1}):
            self.deck(run={"steps": 1, "output_dir": "run", "log_every": 1, "seed": 7, "overwrite": True, "resume": "never"}, optimizer=optimizer)
            self.lockstep("train", "deck.yaml")
            norms[json.dumps(optimizer)] = metrics(self.folder / "run")[0]["grad_norm"]
        self.assertEqual(len(set(norms.values())), 1, norms)

    def test_who_reads_the_log_may_go(self):
        """`lockstep train deck.yaml | head -1` trains to the end, though the log is longer than a pipe holds."""
        self.deck(run={"steps": 2000, "output_dir": "run", "log_every": 1})
        child = subprocess.Popen([program.PROGRAM, "train", "deck.yaml"], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: child.poll() is None and child.kill())
        self.assertIn("12730 parameters", child.stdout.readline())
        child.stdout.close()
        _, err = child.communicate(timeout=60)
        self.assertEqual(child.returncode, 0, err)
        self.assertEqual(err.count("warning: the log can no longer be written"), 1, err)
        report = summary(self.folder / "run")
        self.assertEqual((report["status"], report["steps"]), ("done", 2000))

    def test_a_process_alone_shares_no_memory(self):
        """A killed process would leave Open MPI's shared memory behind."""
        memory, name = self.folder / "memory", "OMPI_MCA_btl_sm_backing_directory"
        memory.mkdir()
        before = os.environ.get(name)
        self.addCleanup(lambda: os.environ.pop(name) if before is None else os.environ.update({name: before}))
        os.environ[name] = str(memory)
        self.deck(run={"steps": 10000000, "output_dir": "run", "log_every": 1})
        child = subprocess.Popen([program.PROGRAM, "train", "deck.yaml"], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        child.stdout.readline()  # by then MPI has started
        child.kill()
        child.communicate()
        self.assertEqual(list(memory.iterdir()), [])
        self.lockstep("check", "deck.yaml", ranks=None)
        self.assertEqual(list(memory.iterdir()), [])

    def test_target_ends_a_run(self):
        self.deck(run={"epochs": 500, "output_dir": "run", "target": {"metric": "validation_accuracy", "value": 0.3}},
                  data={"synthetic": {"kind": "glyphs", "train": 256, "validation": 100}})
        self.lockstep("train", "deck.yaml", ranks=2)
        report = summary(self.folder / "run")
        self.assertEqual(report["status"], "target_reached")
        self.assertEqual(report["steps_to_target"], report["steps"])
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
