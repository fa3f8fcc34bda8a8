# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Decks that once went wrong (cases/decks of the tests' data), with the right values; and what `check` must say of decks and folders."""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import program
from program import LockstepTest, data_dir, metrics, runs_on_device, summary, without_times

UNITS = {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9}
DECKS = data_dir() / "cases/decks" if data_dir() else None


def nodes_of(ranks):
    return ("--emulate-network", f"ranks_per_node={ranks}")


@unittest.skipUnless(DECKS and DECKS.is_dir(), "the decks of cases/decks are not here")
class Cases(LockstepTest):
    def train(self, name, *arguments, ranks=1, run="run"):
        self.lockstep("train", DECKS / f"{name}.yaml", f"run.output_dir={run}", *arguments, ranks=ranks)
        return metrics(self.folder / run)

    def test_gradients_of_all_micro_batches_count(self):
        keys = ("parallel.shard=parameters", "parallel.shard_group=node", *nodes_of(1))
        for run, others in (("whole", ["parallel.shard=none"]), ("group_of_one", []), ("node_of_one", keys)):
            rows = self.train("shard_group_1_micro", *others, ranks=2, run=run)
            self.assertAlmostEqual(float(rows[0]["grad_norm"]), 0.5208, places=4, msg=run)
            self.assertEqual(without_times(rows), without_times(metrics(self.folder / "whole")), run)

    @unittest.skipIf(runs_on_device(), "shares by speed are tested on hosts")
    def test_ways_that_cannot_be_built_are_left_out_of_the_table(self):
        out = self.lockstep("check", DECKS / "check_nodes_shares.yaml", "--ranks", 4, "--nodes", 2).out
        self.assertRegex(out, r"\nnone +rank +none ")
        best = re.search(r"\nbest +(.*)", out)[1].split()
        self.lockstep("train", DECKS / "check_nodes_shares.yaml", *best, "run.output_dir=best", ranks=4)

    @unittest.skipIf(runs_on_device(), "for runs on hosts")
    def test_checkpoints_of_workers_and_replicas_are_in_the_plan(self):
        for name, ranks, keys in (("workers", 1, ["parallel.local.outer=nesterov"]), ("delay", 2, ["parallel={local: {every: 2, delay: 1}}"]),
                                  ("fragments", 2, ["parallel={local: {every: 2, fragments: 2}}"]),
                                  ("free", 2, ["parallel={asynchronous: {collect: 2, schedule: {free: true}}}"]),
                                  ("free_rounds", 2, ["parallel={local: {every: 2, outer: nesterov}, asynchronous: {collect: 2, schedule: {free: true}}}"]),
                                  ("gradients", 1, ["parallel={asynchronous: {collect: 2, schedule: {simulate: {ranks: 3}}}}"])):
            planned, used = [], []
            for every in (0, 2):
                deck = [DECKS / "worker_states_memory.yaml", *keys, f"checkpoint.every_steps={every}", f"run.output_dir={name}-{every}"]
                value, unit = re.search(r"peak memory +([\d.]+) (\w+)", self.lockstep("check", *deck, "--ranks", ranks).out).groups()
                planned.append(float(value) * UNITS[unit])
                self.lockstep("train", *deck, ranks=ranks)
                used.append(summary(self.folder / f"{name}-{every}")["peak_rss_bytes"])
            self.assertLess(abs(planned[1] - planned[0] - used[1] + used[0]), 8e6, f"{name}: {planned} planned, {used} used")

    def test_compression_changes_nothing_on_one_node(self):
        whole = self.train("compress_noise", ranks=2, run="whole")
        self.assertTrue(whole[-1]["noise_scale"])
        self.assertEqual(without_times(self.train("compress_noise", "parallel.compress.method=int8", ranks=2)), without_times(whole))

    def test_peak_memory_is_that_of_the_program(self):
        with tempfile.TemporaryFile() as out:
            large = ("import subprocess, sys\nlarge = bytearray(300_000_000)\nlarge[::4096] = b'1' * len(large[::4096])\n"
                     "sys.exit(subprocess.run(sys.argv[1:]).returncode)")
            subprocess.run([sys.executable, "-c", large, program.PROGRAM, "train", DECKS / "peak_rss.yaml", "run.output_dir=run"], cwd=self.folder, stdout=out, check=True, timeout=120)
        self.assertLess(summary(self.folder / "run")["peak_rss_bytes"], 200e6)

    @unittest.skipIf(runs_on_device(), "on devices, divided sums always go by messages")
    def test_bits_of_divided_sums_by_messages(self):
        """docs/user/parallel.md says where the bits of `shard: none` are promised."""
        whole = {}
        for name, ranks, nodes in (("two", 2, 0), ("three", 3, 0), ("two_by_two", 4, 2)):
            network = nodes_of(nodes) if nodes else ()
            whole[name] = self.train("share_parameters_bits", *network, ranks=ranks, run=f"{name}-none")
            shared = self.train("share_parameters_bits", "parallel.shard=optimizer", *network, ranks=ranks, run=f"{name}-shared")
            self.assertEqual(without_times(shared), without_times(whole[name]), name)
            alone = self.train("share_parameters_bits", "parallel.shard=optimizer", "parallel.share_parameters=false", *network, ranks=ranks, run=f"{name}-alone")
            self.assertAlmostEqual(float(alone[-1]["loss"]), float(whole[name][-1]["loss"]), delta=1e-8 * float(whole[name][-1]["loss"]))
            if ranks == 2:
                self.assertEqual(without_times(alone), without_times(whole[name]), name)


class CheckEndsAsTrain(LockstepTest):
    """`check` ends with the status and the error of `train`, and changes nothing."""

    def both_refuse(self, status, words, *overrides):
        said = self.refused(status, words, "check", "deck.yaml", *overrides).errors()
        self.assertEqual(self.refused(status, words, "train", "deck.yaml", *overrides).errors(), said)

    def test_folders_that_hold_something_else(self):
        self.deck()
        self.lockstep("train", "deck.yaml")
        before = program.snapshot(self.folder)
        self.both_refuse(73, ["run: holds an earlier run, which is not overwritten"], "run.resume=never")
        self.both_refuse(78, ["batch.global: was 16 in run/checkpoints/step-00000004.h5 and is 8"], "batch.global=8", "run.steps=8")
        self.both_refuse(78, ["optimizer.learning_rate: was 0.1 in the run in run, which is complete, and is 0.2"], "optimizer.learning_rate=0.2")
        self.both_refuse(73, ["run/checkpoints/step-00000004.h5 belongs to the earlier run"], "run.resume=never", "run.overwrite=true", "model.weights=run/checkpoints/step-00000004.h5")
        self.write("foreign/summary.json", "not ours")
        self.both_refuse(73, ["foreign/summary.json: was not written by Lockstep"], "run.output_dir=foreign")
        self.lockstep("check", "deck.yaml")
        (self.folder / "foreign/summary.json").unlink()
        (self.folder / "foreign").rmdir()
        self.assertEqual(program.snapshot(self.folder), before)

    def test_groups_that_lie_on_nodes_differently(self):
        self.deck(parallel={"shard": "optimizer", "shard_group": 2}, batch={"global": 12})
        words = ["parallel.shard_group: the nodes of this job have different numbers of ranks, or groups are placed on them differently"]
        self.refused(78, words, "check", "deck.yaml", "--ranks", 6, "--nodes", 2)
        self.refused(78, words, "train", "deck.yaml", *nodes_of(3), ranks=6)
        self.lockstep("check", "deck.yaml", "--ranks", 4, "--nodes", 2)
        self.deck(parallel={"shard_group": 3})  # has no effect
        self.assertRegex(self.lockstep("check", "deck.yaml", "--ranks", 4, "--nodes", 2).out, r"by parallel.shard +none [0-9.]+ KB per rank")

    def test_groups_that_average_in_nodes_lie_within_them(self):
        self.deck(parallel={"local": {"every": 4, "node_every": 2, "group": 2}}, batch={"global": 12})
        words = ["parallel.local.node_every: rank 3 is on a different node from the rest of its group (2 ranks from rank 2 on)"]
        self.refused(78, words, "check", "deck.yaml", "--ranks", 6, "--nodes", 2)
        self.refused(78, words, "train", "deck.yaml", *nodes_of(3), ranks=6)
        self.lockstep("check", "deck.yaml", "--ranks", 4, "--nodes", 2)
        self.lockstep("check", "deck.yaml", "--ranks", 4)

    @unittest.skipIf(runs_on_device(), "states are offloaded to files on hosts")
    def test_folders_of_offloaded_states(self):
        self.write("file", "")
        self.deck(optimizer={"type": "adam"}, parallel={"offload": {"optimizer": "none"}})
        self.both_refuse(66, ["none: no such folder; create it"])
        self.both_refuse(73, ["file: no file can be created there"], "parallel.offload.optimizer=file")
        said = self.lockstep("check", "deck.yaml", "--ranks", 4, "--nodes", 2).err
        self.assertIn("warning: parallel.offload: on this machine, none: no such folder", said)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["deck.yaml", "file"])

    def test_a_missing_file_and_a_contradiction_are_both_said(self):
        missing = "data.file: nowhere.h5: no such file"
        for why, parallel in (("parallel.shard: optimizer needs sums that can be divided", {"compress": {}, "shard": "optimizer"}),
                              ("data.sampler: distributed_sampler needs", {"deterministic": {"shards": 4}})):
            self.deck(data={"file": "nowhere.h5", "sampler": "distributed_sampler"}, parallel=parallel)
            for command in ("check", "train"):
                for ranks in (1, 2):
                    result = self.lockstep(command, "deck.yaml", ranks=ranks, status=78)
                    errors = result.err.split("error: ")[1:]
                    self.assertEqual(sum(why in line for line in errors), 1, result)
                    self.assertEqual(sum(missing in line for line in errors), 1, result)
        self.deck(data={"file": "nowhere.h5"})
        self.both_refuse(66, [missing])


class OneRule(LockstepTest):
    def test_a_batch_larger_than_the_data_is_the_data(self):
        for drop_last in (False, True):
            self.deck(data={"synthetic": {"kind": "glyphs", "train": 12, "validation": 8}, "drop_last": drop_last}, batch={"global": 50}, run={"epochs": 3, "output_dir": f"run-{drop_last}"})
            for command in ("check", "train"):
                self.assertEqual(self.lockstep(command, "deck.yaml", ranks=2).err.count("batch.global: 50 examples are more than the 12 training examples; each step takes all of them"), 1)
        self.assertEqual(without_times(metrics(self.folder / "run-True")), without_times(metrics(self.folder / "run-False")))
        self.assertEqual(summary(self.folder / "run-True")["steps"], 3)

    def test_keys_that_a_way_of_training_does_not_use(self):
        """They are warned of, have no effect, and stand in the resolved deck as what they do: nothing."""
        ways = {"deterministic": "deterministic: {shards: 4}, sync_batch_norm: false", "asynchronous": "asynchronous: {collect: 2, schedule: {simulate: {ranks: 2}}}"}
        if not runs_on_device():
            ways["backup"] = "backup: 1"
        keys = {"all_reduce": "ring", "between_nodes": "ring", "leaders": 1, "wire": "bf16", "overlap": "poll", "bucket_mb": 0.01, "all_reduce_table": "nowhere.yaml"}
        self.deck(data={"synthetic": {"kind": "glyphs", "train": 64, "validation": 20}, "drop_last": True})
        for way, parallel in ways.items():
            self.lockstep("train", "deck.yaml", f"parallel={{{parallel}}}", f"run.output_dir={way}", ranks=2)
            given = ", ".join(f"{key}: {value}" for key, value in keys.items())
            result = self.lockstep("train", "deck.yaml", f"parallel={{{parallel}, {given}}}", f"run.output_dir={way}-all", ranks=2)
            for key in keys:
                self.assertEqual(result.err.count(f"warning: parallel.{key}: has no effect ({way} sums gradients in its own way, after the backward pass); leave it out"), 1, result)
            self.assertEqual((self.folder / way / "deck.yaml").read_text(), (self.folder / f"{way}-all/deck.yaml").read_text().replace(f'"{way}-all"', f'"{way}"'))
            if way != "backup":
                self.assertEqual(without_times(metrics(self.folder / way)), without_times(metrics(self.folder / f"{way}-all")))
        result = self.lockstep("check", "deck.yaml", "parallel.servers=1")
        self.assertEqual(result.err.count("warning: parallel.servers: has no effect (only ranks that run freely"), 1)

    @unittest.skipIf(runs_on_device(), "ranks that run freely are refused on devices")
    def test_a_run_that_patience_ended_is_replayed(self):
        self.deck(run={"steps": 60, "evaluate_every": "5 steps", "patience": {"metric": "validation_loss", "evaluations": 1}, "output_dir": "free", "seed": 7},
                  data={"synthetic": {"kind": "glyphs", "train": 96, "validation": 40}, "drop_last": True}, model={"layers": ["flatten", {"linear": 10}]},
                  optimizer={"type": "sgd", "learning_rate": 60.0}, parallel={"asynchronous": {"collect": 2, "schedule": {"free": True, "record": "order.txt"}}})
        self.lockstep("train", "deck.yaml", ranks=2)
        ended = summary(self.folder / "free")
        self.assertEqual(ended["status"], "out_of_patience")
        self.assertLess(ended["steps"], 60)
        replay = "parallel={asynchronous: {collect: 2, schedule: {replay: order.txt}}}"
        for ranks in (1, 2):
            self.lockstep("train", "deck.yaml", replay, f"run.output_dir=replay{ranks}", ranks=ranks)
            again = summary(self.folder / f"replay{ranks}")
            for key in ("status", "steps", "validation"):
                self.assertEqual(again[key], ended[key])
        self.refused(65, [f"order.txt: ends after step {ended['steps']}", "run.patience", "give the keys of that run"], "train", "deck.yaml", replay, "run.output_dir=longer", "run.patience.evaluations=20", ranks=2)


if __name__ == "__main__":
    program.main()
