# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`check --nodes` (the ways to do a step), `parallel.shard: auto`, and whether steps need the memory that is planned."""
import os
import pathlib
import re
import statistics
import subprocess
import unittest

import program
from program import LockstepTest, summary
from predict_scaling_test import SMALL

LARGE = {"layers": ["flatten", *[{"linear": {"features": 600}}] * 6, {"linear": {"features": 10}}]}
UNITS = {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9}
WAY = re.compile(r"^(none|optimizer|gradients|parameters) +(all|node|\d*) +(node|rank) +(none|blocks) +(memory|disk|device|host|both) +(\d+) +([\d.]+) (\wB|B) (fits)? +([\d.]+) (\wB|B) +(\d+) *([\d.e+]*|unknown)$")


def ways(out):
    """The rows of the table: keys, bytes, whether they fit, bytes sent, messages, milliseconds (none: 0; unknown: infinite)."""
    found = [WAY.match(line) for line in out.splitlines()]
    return [((w[1], w[2], w[3], w[4], w[5], int(w[6])), float(w[7]) * UNITS[w[8]], bool(w[9]), float(w[10]) * UNITS[w[11]], int(w[12]), float((w[13] or "0").replace("unknown", "inf")))
            for w in found if w]


class Ways(LockstepTest):
    def setUp(self):
        super().setUp()
        self.deck(model=LARGE, optimizer={"type": "adamw"}, batch={"global": 64}, parallel={"unit_mb": 1})
        self.write("machine.yaml", SMALL)

    def check(self, *arguments):
        return self.lockstep("check", "deck.yaml", *arguments, ranks=None).out

    def test_table(self):
        out = self.check("--ranks", 8, "--nodes", 4, "--memory", 0.018, "--machine", "machine.yaml")
        table = ways(out)
        self.assertEqual({keys[0] for keys, *_ in table}, {"none", "optimizer", "gradients", "parameters"})
        self.assertLessEqual(len(table), 17)
        fits = [fit for _, _, fit, *_ in table]
        self.assertTrue(fits[0] and fits == sorted(fits, reverse=True), out)
        for _, memory, fit, *_ in table:
            self.assertEqual(fit, memory <= 0.018e9)
        times = [ms for _, _, fit, _, _, ms in table if fit]
        self.assertEqual(times, sorted(times))
        lines = out.splitlines()
        takes = next(number for number, line in enumerate(lines) if line.startswith("best  "))
        shard, group, copy, blocks, _, micro = table[0][0]
        self.assertEqual(lines[takes].split(None, 1)[1], f"parallel.shard={shard} parallel.shard_group={group} parallel.share_parameters={str(copy == 'node').lower()} "
                                                         f"model.activation_checkpointing={blocks}{'' if micro == 8 else f' batch.micro={micro}'}")  # 8: the deck's
        self.assertRegex(lines[takes + 1], r"^ +the fastest of \d+ ways that fit into 18.00 MB, of \d+$")
        # A deck with these keys needs the memory and the time of the table.
        again = self.check("--ranks", 8, "--nodes", 4, "--machine", "machine.yaml", *lines[takes].split()[1:])
        self.assertIn(f"memory of a step     {1e-6 * table[0][1]:.2f} MB per rank", again)
        self.assertAlmostEqual(float(re.search(r"ranks: ([\d.e+]+) ms per step", again)[1]), times[0], delta=0.01 * times[0])

    def test_without_a_machine(self):
        out = self.check("--ranks", 4096, "--nodes", 512, "batch.global=4096", "data.synthetic.train=4096")
        table = ways(out)
        self.assertTrue(table and not any(fit or ms for _, _, fit, _, _, ms in table), out)
        self.assertIn("--machine FILE finds the fastest", out)
        least = min(sent for _, _, _, sent, _, _ in table)
        self.assertLessEqual(table[0][3], 1.01 * least)

    def test_states_on_a_disk(self):
        here, there, place = ("device", "host", "memory") if "stand-in" in self.lockstep("info").out else ("memory", "disk", "/scratch")
        self.deck(model=LARGE, optimizer={"type": "adamw"}, batch={"global": 64}, parallel={"unit_mb": 1, "offload": {"optimizer": place, "block_mb": 0.1}})
        self.write("rated.yaml", SMALL + "disk_gbps: 1\nhost_copy_gbps: 10\n")
        for machine, is_time in (((), lambda ms: ms == 0), (("--machine", "machine.yaml"), lambda ms: ms == float("inf")), (("--machine", "rated.yaml"), lambda ms: 0 < ms < 1e6)):
            table = ways(self.check("--ranks", 8, "--nodes", 4, *machine))
            least = {keys[0]: memory for keys, memory, *_ in table if keys[4] == here}
            found = {keys[0]: (memory, ms) for keys, memory, _, _, _, ms in table if keys[4] == there}
            self.assertEqual(found.keys(), least.keys())
            self.assertTrue(all(is_time(ms) for _, ms in found.values()), found)
        # For a deck without the key, the output says how to set it.
        self.deck(model={"layers": ["flatten", *[{"linear": {"features": 1200}}] * 6, {"linear": {"features": 10}}]}, optimizer={"type": "adamw"}, batch={"global": 64})
        self.assertIn(f" parallel.offload.optimizer={'FOLDER' if there == 'disk' else 'memory'}\n", self.check("--ranks", 1, "--nodes", 1, "--memory", 0.13))

    def test_one_node_sends_nothing(self):
        for (shard, group, copy, *_), _, _, sent, messages, _ in ways(self.check("--ranks", 4, "--nodes", 1)):
            if copy == "node" or shard == "none":
                self.assertEqual((sent, messages), (0, 0), (shard, group))

    def test_nothing_fits(self):
        out = self.check("--ranks", 4, "--nodes", 2, "--memory", 0.001)
        self.assertFalse(any(fit for _, _, fit, *_ in ways(out)))
        self.assertRegex(out, r"best +none fits: [\d.]+ MB is the least that any of \d+ ways needs, and 1.00 MB is allowed; use more ranks")

    def test_no_limit_is_known(self):
        out = self.check("--ranks", 4, "--nodes", 2)
        self.assertFalse(any(fit for _, _, fit, *_ in ways(out)))
        self.assertRegex(out, r"of \d+ ways, without a limit of memory \(--memory GB\)\n")

    def test_a_machine_without_enough_memory(self):
        out = self.check("--ranks", 8, "--machine", "machine.yaml")
        self.assertNotIn("more than", out)
        self.write("small.yaml", SMALL + "memory_gb: 0.001\n")
        self.assertRegex(self.check("--ranks", 8, "--machine", "small.yaml"), r"expected .* per rank, which is more than the 1.00 MB that a rank may use\n")

    def test_what_is_not_tabulated(self):
        self.assertIn("not listed: 128 ranks are more than the 64 examples of a batch", self.check("--ranks", 128, "--nodes", 2))
        self.assertIn("not listed: the sums of deterministic runs", self.check("--ranks", 4, "--nodes", 2, "parallel={deterministic: {shards: 4}}"))

    def test_nodes_that_are_not_full(self):
        out = self.check("--ranks", 5, "--memory", 1, "--machine", "machine.yaml")
        self.assertEqual({keys[1] for keys, *_ in ways(out) if keys[0] != "none"}, {"all"})

    def test_bad_input(self):
        for status, words, *arguments in (
                (64, ["check --nodes: 8 ranks cannot be divided evenly among 3 nodes"], "--nodes", 3), (64, ["check --nodes: 16 nodes are more than the 8 ranks"], "--nodes", 16),
                (64, ["--nodes"], "--nodes", 0), (64, ["check --memory: -1 GB is out of range"], "--memory", -1), (64, ["check --memory: 0 GB"], "--memory", 0),
                (66, ["nowhere.yaml"], "--nodes", 2, "--machine", "nowhere.yaml"), (64, ["--deck"], "--nodes", 2, "--deck"),
                (78, ["parallel.shard_group", "8 ranks cannot be divided into groups of 3"], "--nodes", 2, "parallel={shard: optimizer, shard_group: 3}")):
            for ranks in (1, 2):
                with self.subTest(arguments=arguments, ranks=ranks):
                    self.refused(status, words, "check", "deck.yaml", "--ranks", 8, *arguments, ranks=ranks)

    def test_other_numbers_of_ranks_choose_anew(self):
        out = self.lockstep("predict-scaling", "deck.yaml", "parallel={shard: auto, memory_gb: 0.0232, unit_mb: 1}", "--machine", "machine.yaml", "--ranks", "2,16").out
        self.assertRegex(out, r"\n2 ranks: parallel.shard: auto chooses gradients: .*; optimizer would need")
        self.assertRegex(out, r"\n16 ranks: parallel.shard: auto chooses optimizer: ")


class Auto(LockstepTest):
    def setUp(self):
        super().setUp()
        self.deck(model=LARGE, optimizer={"type": "adamw"}, checkpoint={"every_steps": 2})

    def train(self, memory, *arguments, ranks=2):
        return self.lockstep("train", "deck.yaml", f"parallel={{shard: auto, unit_mb: 1, memory_gb: {memory}}}", *arguments, ranks=ranks)

    def test_takes_what_fits_and_says_so(self):
        self.assertEqual(self.train(0).out.count("parallel.shard: auto chooses optimizer: "), 1)
        # A resumed run chooses anew, since every way reads every checkpoint.
        again = self.train(0.0226, "run.steps=8")
        said = r"parallel.shard: auto chooses gradients: a step needs \d+\.\d\d .B of \d+\.\d\d .B per rank; optimizer would need \d+\.\d\d .B"
        self.assertRegex(again.out, said + "\n")
        self.assertIn("of 22.60 MB per rank", again.out)
        self.assertRegex((program.SOURCE / "docs/user/parallel.md").read_text(), said)
        self.assertIn("resumes from", again.out)
        self.assertIn("shard: auto", (self.folder / "run/deck.yaml").read_text())
        self.assertEqual(self.train(0, "run.steps=10", ranks=1).out.count("auto chooses none: there is one rank"), 1)
        self.assertEqual(summary(self.folder / "run")["steps"], 10)

    def test_shard_auto_asks_the_machine(self):
        self.write("machine.yaml", SMALL)
        self.deck(model=LARGE, optimizer={"type": "adamw"}, batch={"global": 16}, parallel={"shard": "auto", "machine": "machine.yaml"})
        planned = self.lockstep("check", "deck.yaml", "--ranks", 2, "--nodes", 1).out
        choice = re.search(r"parallel.shard +(auto chooses \w+: predicted [\d.]+ ms per step \(.*)", planned)
        self.assertIn(f"parallel.shard: {choice.group(1)}\n", self.lockstep("train", "deck.yaml", ranks=2).out)
        out = self.lockstep("predict-scaling", "deck.yaml", "--machine", "machine.yaml", "--ranks", "2").out
        self.assertIn(f"2 ranks: parallel.shard: {choice.group(1)}", out)
        for deck, words in (("parallel.machine=nowhere.yaml", "nowhere.yaml"), ("precision.compute=bf16", "machine.yaml: compute.products")):
            for command, ranks in (("check", 1), ("train", 2)):
                self.refused(66 if "nowhere" in deck else 78, [words], command, "deck.yaml", deck, *(["--ranks", 2] if command == "check" else []), ranks=ranks)
        self.assertIn("(the time of such steps cannot be predicted)", self.lockstep("check", "deck.yaml", "--ranks", 2, "parallel.deterministic.shards=8").out)

    def test_nothing_fits(self):
        for ranks in (1, 2):
            result = self.refused(78, ["parallel.memory_gb: a step needs", f"on each of {ranks} rank"], "train", "deck.yaml", "parallel={shard: auto, memory_gb: 0.001}", ranks=ranks)
            self.assertNotIn("auto chooses gradients", result.out)
            self.refused(78, ["parallel.memory_gb: a step needs"], "check", "deck.yaml", "parallel={shard: auto, memory_gb: 0.001}", "--ranks", ranks)
        self.assertFalse((self.folder / "run/checkpoints").exists())


class Memory(LockstepTest):
    """Planned memory against measured memory (perf/run planner has more cases)."""

    def used_bytes(self, *arguments):
        """Bytes of a rank while it trains, where memory that ranks share counts in parts."""
        launcher = subprocess.Popen([*program.MPIEXEC, "2", program.PROGRAM, "train", "deck.yaml", *arguments], cwd=self.folder, stdout=subprocess.PIPE,
                                    stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, text=True)
        found = []
        try:
            for line in launcher.stdout:
                if line.startswith("step "):
                    found.append(sum(map(self.proportional_bytes, self.descendants(launcher.pid))) / 2)
                if len(found) == 6:
                    break
        finally:
            launcher.terminate()
            launcher.communicate(timeout=60)
        return statistics.median(found[2:])

    @staticmethod
    def descendants(pid):
        parents = {}
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                parents[int(process.name)] = int((process / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                pass  # the process has ended
        found = {pid}
        for _ in range(4):
            found |= {child for child, parent in parents.items() if parent in found}
        return found

    @staticmethod
    def proportional_bytes(pid):
        try:
            if os.readlink(f"/proc/{pid}/exe") != os.path.realpath(program.PROGRAM):
                return 0
            return 1024 * int(re.search(r"^Pss: +(\d+)", pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)[1])
        except OSError:
            return 0

    @unittest.skipUnless(os.path.exists("/proc/self/smaps_rollup"), "what a process has of shared memory is not known here")
    def test_steps_take_what_their_plans_say(self):
        for keys in ("{shard: none}", "{shard: optimizer, unit_mb: 4}", "{shard: gradients, unit_mb: 4}", "{shard: parameters, unit_mb: 4, share_parameters: false, bucket_mb: 2}"):
            planned, used = [], []
            for width in (520, 1200):
                self.deck(run={"steps": 1000000, "output_dir": "run", "log_every": 1, "overwrite": True, "resume": "never", "wall_time": "2 min"},
                          data={"synthetic": {"kind": "random", "shape": [64], "classes": 10, "train": 64}},
                          model={"activation_checkpointing": "blocks", "layers": [*[{"linear": width}, "relu"] * 7, {"linear": 10}]}, optimizer={"type": "adamw"},
                          providers={"matmul": "portable"})  # libraries may keep copies of weights in other layouts
                out = self.lockstep("check", "deck.yaml", f"parallel={keys}", "--ranks", 2, "--nodes", 1).out
                value, unit = re.search(r"memory of a step +([\d.]+) (\w+) per rank", out).groups()
                planned.append(float(value) * UNITS[unit])
                used.append(self.used_bytes(f"parallel={keys}"))
            off = used[1] - used[0] - planned[1] + planned[0]
            self.assertLess(abs(off), max(0.03 * planned[1], 8e6), f"{keys}: {planned} planned, {used} used")


if __name__ == "__main__":
    program.main()
