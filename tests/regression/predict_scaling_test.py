# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`lockstep predict-scaling`, `check --machine` and `bench machine`: what they print and save, and what they refuse."""
import os
import re
import shlex
import unittest
import xml.etree.ElementTree

import program
from program import SOURCE, LockstepTest

MACHINES = sorted((SOURCE / "docs/user/machines").glob("*.yaml"))
SMALL = """name: two ranks a node
ranks_per_node: 2
node_hour_price: 0.5
compute:
  products: [{mflop: 1, gflops: 20}]
  memory_gbps: 10
node: {latency_us: 0.5, bandwidth_gbps: 8}
sum: {latency_us: 3, bandwidth_gbps: 6}
network: {latency_us: 20, bandwidth_gbps: 1}
reduce_gbps: 5
"""


def rows(out):
    """Of the table, by ranks: cells by their titles."""
    lines = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in out.splitlines() if line.startswith("|")]
    return {int(line[0]): dict(zip(lines[0], line)) for line in lines[2:]}


class PredictScaling(LockstepTest):
    def setUp(self):
        super().setUp()
        self.deck(data={"synthetic": {"kind": "glyphs", "train": 8192, "validation": 20}}, batch={"global": 4096})
        self.write("machine.yaml", SMALL)

    def predict(self, *arguments):
        return self.lockstep("predict-scaling", "deck.yaml", "--machine", "machine.yaml", *arguments)

    def test_which_of_epochs_and_steps_ends_the_run(self):
        self.assertIn("a run is 4 steps (run.steps; run.epochs would be 20)\n", self.predict("run.epochs=10").out)
        self.assertIn(" for 4 steps (run.steps; run.epochs would be 20), ", self.lockstep("check", "deck.yaml", "--machine", "machine.yaml", "run.epochs=10").out)

    def test_each_step_of_a_run_has_the_batch_of_its_time(self):
        def hours(*overrides):
            out = self.predict("--ranks", 8, "run.steps=1000", "data.synthetic.validation=0", *overrides).out
            return float(rows(out)[8]["node-hours"])
        small, large = hours("batch.global=64"), hours("batch.global=4096")
        self.assertGreater(large, 10 * small)
        for begin in (0.1, 0.9, 0.999):
            with self.subTest(begin=begin):
                ramp = f"batch={{global: 64, ramp: [[{round(1000 * begin)} steps, 4096]]}}"
                expected = begin * small + (1 - begin) * large
                self.assertAlmostEqual(hours(ramp), expected, delta=2e-3 * expected)
        beyond = hours("batch={global: 64, ramp: [[500 steps, 4096], [2000 steps, 8192]]}")
        self.assertAlmostEqual(beyond, (small + large) / 2, delta=2e-3 * beyond)
        line = self.lockstep("check", "deck.yaml", "--machine", "machine.yaml", "--ranks", 8, "batch={global: 64, ramp: [[2 steps, 4096]]}").out.splitlines()[-1]
        self.assertRegex(line, r" ms per step of 4096 examples, \d+ % efficient, ")

    def test_machines_of_the_documents(self):
        self.assertGreaterEqual(len(MACHINES), 3)
        for machine in MACHINES:
            with self.subTest(machine=machine.name):
                out = self.lockstep("predict-scaling", "deck.yaml", "--machine", machine).out
                self.assertEqual(list(rows(out)), [1, 8, 64, 512, 4096], out)

    def test_table(self):
        out = self.predict("--ranks", "1,2,8,1024", "--plot", "plot.svg").out
        table = rows(out)
        step = {ranks: float(row["step, ms"]) for ranks, row in table.items()}
        self.assertEqual((table[1]["strong"], table[1]["weak"], table[1]["exposed sums"]), ("100.0 %", "100.0 %", "0"))
        self.assertAlmostEqual(float(table[8]["strong"].split()[0]), 100 * step[1] / (8 * step[8]), delta=0.2)
        self.assertGreater(float(table[1024]["exposed sums"]), float(table[2]["exposed sums"]), "a network is slower than a node")
        self.assertEqual([row["nodes"] for row in table.values()], ["1", "1", "4", "512"])
        self.assertEqual([row["examples per rank"] for row in table.values()], ["4096", "2048", "512", "4"])
        self.assertAlmostEqual(float(table[8]["price"]), 0.5 * float(table[8]["node-hours"]), delta=1e-3 * float(table[8]["price"]) + 1e-9)
        svg = xml.etree.ElementTree.parse(self.folder / "plot.svg").getroot()
        self.assertEqual(len([e for e in svg.iter() if e.tag.endswith("path")]), 2)

    def test_the_table_of_the_document(self):
        """Its command prints it, but for memory, which depends on the libraries of a build."""
        text = (SOURCE / "docs/user/predict_scaling.md").read_text()
        command = re.search(r"^lockstep (predict-scaling inputs/(?:.*\\\n)*.*)$", text, re.MULTILINE).group(1)
        printed = rows(self.lockstep(*shlex.split(command.replace("\\\n", " ")), cwd=SOURCE).out)
        documented = rows(re.search(r"^\| ranks .*?\n\n", text, re.MULTILINE | re.DOTALL).group())
        self.assertEqual(list(documented), list(printed))
        for ranks, row in documented.items():
            del row["memory per rank"]
            self.assertEqual(row, {title: printed[ranks][title] for title in row})

    def test_check_says_it_in_one_line(self):
        lines = self.lockstep("check", "deck.yaml", "--machine", "machine.yaml", "--ranks", 8).out.splitlines()
        line = r"expected +\d+ nodes × \d ranks: [\d.]+ ms per step, \d+ % efficient, .* for \d+ (?:steps|epochs), \d+\.\d\d .?B per rank"
        self.assertRegex(lines[-1], f"^{line}$")
        self.assertIn("4 nodes × 2 ranks", lines[-1])
        self.assertRegex((SOURCE / "docs/user/predict_scaling.md").read_text(), line)
        of_the_table = float(rows(self.predict("--ranks", 8).out)[8]["step, ms"])
        self.assertAlmostEqual(float(re.search(r"([\d.]+) ms", lines[-1]).group(1)), of_the_table, delta=0.01 * of_the_table)
        self.assertNotIn("expected  ", self.lockstep("check", "deck.yaml").out)

    def test_check_knows_the_ranks_of_a_slurm_job(self):
        os.environ["SLURM_NTASKS"] = "6"
        self.addCleanup(os.environ.pop, "SLURM_NTASKS")
        out = self.lockstep("check", "deck.yaml", "--machine", "machine.yaml", ranks=None).out
        self.assertIn("3 nodes × 2 ranks", out.splitlines()[-1])

    def test_bad_lists_of_ranks(self):
        for ranks, words in (("8,2", ["--ranks: 2 follows 8"]), ("0", ["--ranks: '0' is not a number of ranks"]),
                             ("2,2", ["--ranks: 2 follows 2"]), ("-3", ["--ranks: '-3' is not"]),
                             ("4,8192", ["8192 ranks are more than the 4096 examples of a batch"]), ("1,few", ["--ranks: 'few' is not"]), ("1,,8", ["--ranks: '' is not"]),
                             ("1.5", ["--ranks: '1.5' is not"]), ("1e3", ["'1e3' is not"]), ("65537", ["'65537' is not a number of ranks; give whole numbers from 1 to 65536"])):
            with self.subTest(ranks=ranks):
                self.refused(64, words, "predict-scaling", "deck.yaml", "--machine", "machine.yaml", f"--ranks={ranks}")
        self.refused(64, ["9000 ranks are more than the 8192 examples of a batch", "a batch of 32768 is limited to the 8192 examples to train on"],
                   "predict-scaling", "deck.yaml", "--machine", "machine.yaml", "--ranks=9000", "batch.global=32768")

    def test_bad_machines(self):
        for what, by, words in (("latency_us: 20", "latency_us: -20", ["bad.yaml:9:23:", "network.latency_us", "-20"]),
                                ("bandwidth_gbps: 1}", "bandwidth_gbps: 0}", ["network.bandwidth_gbps"]),
                                ("reduce_gbps: 5", "", ["reduce_gbps", "missing"]),
                                ("gflops", "gflop", ["gflop", "gflops"])):
            with self.subTest(by=by):
                self.write("bad.yaml", SMALL.replace(what, by))
                for command in ("predict-scaling", "check"):
                    self.refused(78, words, command, "deck.yaml", "--machine", "bad.yaml")
        for command in ("predict-scaling", "check"):
            self.refused(78, ["deck.yaml:1:1: is a deck, not a machine file; `lockstep bench machine --save FILE` makes a machine file"],
                         command, "deck.yaml", "--machine", "deck.yaml")
        self.refused(78, ["machine.yaml:", ":1: is a machine file, not a deck; give it as --machine machine.yaml, after a deck"], "check", "machine.yaml")
        self.refused(66, ["nowhere.yaml"], "predict-scaling", "deck.yaml", "--machine", "nowhere.yaml")
        self.refused(64, ["--machine"], "predict-scaling", "deck.yaml")

    def test_what_is_not_predicted(self):
        self.refused(78, ["machine.yaml: compute.products", "bf16"], "predict-scaling", "deck.yaml", "precision.compute=bf16", "--machine", "machine.yaml",
                     "--ranks", "1,2")
        for key, value in (("deterministic", "{shards: 8}"), ("local", "{every: 2}"), ("compress", "{method: int8}"),
                           ("asynchronous", "{schedule: {free: true}}"), ("backup", "{ranks: 1}")):
            with self.subTest(key=key):
                self.refused(78, [f"parallel.{key}: ", "not predicted"], "predict-scaling", "deck.yaml", f"parallel.{key}={value}",
                             "--machine", "machine.yaml", "--ranks", "1,2")
                out = self.lockstep("check", "deck.yaml", f"parallel.{key}={value}", "--machine", "machine.yaml", "--ranks", 5 if key == "backup" else 4).out
                self.assertRegex(out.splitlines()[-1], "^expected +not predicted: .*predicted$")
        many = self.lockstep("check", "deck.yaml", "--machine", "machine.yaml", "--ranks", 70000).out
        self.assertRegex(many.splitlines()[-1], "^expected +not predicted: 70000 ranks are more than the 65536 that can be predicted$")

    def test_picture_in_no_folder(self):
        self.refused(73, ["none/plot.svg"], "predict-scaling", "deck.yaml", "--machine", "machine.yaml", "--plot", "none/plot.svg")

    def test_nothing_is_replaced_unasked(self):
        """A deck after --plot would be gone."""
        before = (self.folder / "deck.yaml").read_text()
        plot = ("predict-scaling", "deck.yaml", "--machine", "machine.yaml", "--ranks", "1,2", "--plot")
        self.refused(64, ["deck.yaml: is ", "which is an input"], *plot, "deck.yaml", "--overwrite")
        self.write("other.yaml", before)
        self.refused(73, ["other.yaml: exists already", "--overwrite"], *plot, "other.yaml")
        self.refused(73, ["other.yaml: exists already", "--overwrite"], "bench", "machine", "deck.yaml", "--save", "other.yaml", ranks=2)
        self.refused(73, ["other.yaml: exists already", "--overwrite"], "bench", "allreduce", "--save", "other.yaml")
        self.assertEqual([(self.folder / name).read_text() for name in ("deck.yaml", "other.yaml")], [before, before])
        self.lockstep(*plot, "other.yaml", "--overwrite")
        self.assertIn("<svg", (self.folder / "other.yaml").read_text())

    def test_ranks_when_none_are_given(self):
        self.assertEqual(list(rows(self.predict("batch.global=100").out)), [1, 8, 64], "each has an example")

    def test_measured_machine(self):
        network = ["--emulate-network", "latency_us=200,bandwidth_gbps=1"]
        self.lockstep("bench", "machine", "deck.yaml", "--batches", "8,32", "--seconds", 0, "--save", "measured.yaml", *network, ranks=2)
        text = (self.folder / "measured.yaml").read_text()
        self.assertEqual(re.findall(r"^ *examples: (\d+)$", text, re.MULTILINE), ["8", "32"])
        latency = float(re.search(r"network:\n +latency_us: ([\d.]+)", text).group(1))
        self.assertGreaterEqual(latency, 200)
        out = self.lockstep("predict-scaling", "deck.yaml", "--machine", "measured.yaml", "--ranks", "2,4").out
        self.assertIn("compute times measured with this network\n", out)
        self.write("one.yaml", text.replace("examples: 32", "examples: 8"))
        out = self.lockstep("predict-scaling", "deck.yaml", "--machine", "one.yaml", "--ranks", "2,4").out
        self.assertIn("compute times measured with this network in batches of 8 only", out)
        other = self.lockstep("predict-scaling", "deck.yaml", "optimizer={type: adam}", "--machine", "measured.yaml", "--ranks", "2,4").out
        self.assertIn("compute times estimated from the machine's speed of products", other)

    def test_a_deck_of_single_examples_is_measured_with_two_batches(self):
        self.lockstep("bench", "machine", "deck.yaml", "batch.global=1", "--seconds", 0, "--save", "measured.yaml", ranks=2)
        self.assertEqual(re.findall(r"^ *examples: (\d+)$", (self.folder / "measured.yaml").read_text(), re.MULTILINE), ["1", "4"])

    def test_a_machine_that_is_measured_without_a_deck(self):
        out = self.lockstep("bench", "machine", "--save", "measured.yaml", ranks=2).out
        self.assertIn("noise not measured (give its deck)", out)
        text = (self.folder / "measured.yaml").read_text()
        fixed = float(re.search(r"^ *step_us: (.+)$", text, re.MULTILINE).group(1))
        self.assertGreater(fixed, 0.5)
        self.assertEqual("host_copy_gbps" in text, program.runs_on_device())
        self.assertEqual("copies between device and host" in out, program.runs_on_device())
        tiny = ["model={layers: [flatten, {linear: 10}]}", "batch.global=1"]
        out = self.lockstep("predict-scaling", "deck.yaml", *tiny, "--machine", "measured.yaml", "--ranks", 1).out
        self.assertGreater(1e3 * float(rows(out)[1]["computing"]), 0.999 * fixed)

    def test_measured_batches_are_those_that_ranks_compute_at_once(self):
        self.lockstep("bench", "machine", "deck.yaml", "batch.micro=8", "--seconds", 0, "--save", "measured.yaml", ranks=2)
        self.assertEqual(re.findall(r"^ *examples: (\d+)$", (self.folder / "measured.yaml").read_text(), re.MULTILINE), ["1", "4", "8"])

    def test_states_on_a_disk_are_measured_in_memory(self):
        """Predictions add their traffic. The disk's folder need not be there."""
        deck = ["deck.yaml", "optimizer={type: adam, learning_rate: 0.1}", "parallel={offload: {optimizer: states}}"]
        self.refused(66, ["states: no such folder"], "train", *deck)
        self.lockstep("bench", "machine", *deck, "--batches", 8, "--seconds", 0, "--save", "measured.yaml", ranks=2)
        self.assertIn("compute times measured with this network", self.lockstep("predict-scaling", *deck, "--machine", "measured.yaml", "--ranks", 2).out)

    def test_measuring_takes_two_ranks(self):
        self.refused(64, ["bench machine", "two ranks"], "bench", "machine", "--save", "measured.yaml")
        self.assertIn("disk not measured", self.lockstep("bench", "machine", ranks=2).out)
        for status, words, arguments in ((64, ["--batches", "9000", "8192 examples"], ("deck.yaml", "--batches", "8,9000")),
                                         (73, ["none/measured.yaml: cannot be created", "choose a folder that exists"], ("--save", "none/measured.yaml"))):
            result = self.refused(status, words, "bench", "machine", *arguments, ranks=2)
            self.assertEqual(result.out, "", "before anything is measured")
        self.refused(64, ["--batches", "DECK"], "bench", "machine", "--batches", "8")


if __name__ == "__main__":
    program.main()
