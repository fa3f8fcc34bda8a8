# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Settings of parallel that must not change results, and settings that must."""
import json
import os
import re
import unittest

import program
from program import LockstepTest, metrics, runs_on_device, summary, without_times

try:
    import h5py
except ImportError:
    h5py = None

NETWORK = {"layers": [{"conv2d": {"filters": 4, "kernel": 5, "stride": 2}}, {"batch_norm": {}, "name": "norm"}, "relu", {"max_pool": {"kernel": 2}},
                      "flatten", {"dropout": {"rate": 0.2}}, {"linear": {"features": 10}}]}


class Parallel(LockstepTest):
    def train(self, name, *overrides, ranks=1, status=0):
        return self.lockstep("train", "deck.yaml", f"run.output_dir={name}", *overrides, ranks=ranks, status=status)

    def losses(self, name):
        return [float(row["loss"]) for row in metrics(self.folder / name)]

    def expect_near(self, a, b, tolerance):
        for x, y in zip(self.losses(a), self.losses(b), strict=True):
            self.assertAlmostEqual(x / y, 1, delta=tolerance)

    def expect_same_state(self, a, b, step):
        files = [h5py.File(self.folder / name / "checkpoints" / f"step-{step:08}.h5") for name in (a, b)]
        names = []
        files[0].visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) and name.split("/")[0] in ("model", "optimizer") else None)
        self.assertGreater(len(names), 8)
        for name in names:
            self.assertEqual(files[0][name][()].tobytes(), files[1][name][()].tobytes(), name)

    def test_batch_norm_of_all_ranks(self):
        self.deck(model=NETWORK, batch={"global": 13}, run={"steps": 12, "log_every": 1, "seed": 7})
        self.train("one", "precision.compute=fp64")
        for ranks, overrides in ((3, ()), (2, ("parallel.overlap=thread", "parallel.all_reduce=ring")), (4, ("--emulate-network", "ranks_per_node=2"))):
            self.train(f"on_{ranks}", "precision.compute=fp64", *overrides, ranks=ranks)
            self.expect_near(f"on_{ranks}", "one", 1e-9)

    def test_batch_norm_of_groups_of_which_one_is_a_rank(self):
        self.deck(model=NETWORK, batch={"global": 13}, run={"steps": 8, "hang_timeout": 20})
        self.train("run", "parallel.local={every: 4, group: node}", "--emulate-network", "latency_us=1,ranks_per_node=2", ranks=3)
        self.assertIn("batch_norm_exposed", summary(self.folder / "run")["ranks_ms"])

    def test_sums_in_the_memory_of_devices(self):
        if "stand-in" not in self.lockstep("info").out:
            self.skipTest("needs preset fake_device; gpu_check has the like for GPUs")
        self.deck(model=NETWORK, batch={"global": 13}, run={"steps": 8, "log_every": 1, "seed": 7})
        self.train("hosts", "precision.compute=fp64", "parallel.all_reduce=hierarchical", ranks=3)
        for overlap in ("auto", "none"):
            self.train(overlap, "precision.compute=fp64", "parallel.all_reduce=nccl", f"parallel.overlap={overlap}", "parallel.bucket_mb=0.001", ranks=3)
            self.expect_near(overlap, "hosts", 1e-12)
        self.train("rounded", "parallel.all_reduce=nccl", "parallel.wire=bf16", ranks=2)
        self.expect_near("rounded", "hosts", 1e-2)

    def test_states_go_where_they_save_memory(self):
        adamw = {"type": "adamw", "learning_rate": 0.01}
        self.deck(optimizer=adamw, parallel={"offload": {"optimizer": "memory"}})
        if "stand-in" not in self.lockstep("info").out:
            self.refused(78, ["deck.yaml:", "parallel.offload: optimizer: memory is host memory, where this build computes"], "check", "deck.yaml")
            return
        self.assertRegex(self.lockstep("check", "deck.yaml").out, "optimizer's state +[0-9.]+ KB per rank in the host's memory")
        self.train("host", "checkpoint.every_steps=2", ranks=2)
        self.deck(optimizer=adamw)
        self.train("device", ranks=2)
        self.expect_same_state("host", "device", 4)
        self.deck(parallel={"offload": {"optimizer": "states"}})
        self.refused(78, ["deck.yaml:", "parallel.offload: this build computes on devices, which cannot read the state from files"], "check", "deck.yaml")

    def test_more_ranks_than_examples(self):
        self.deck(model=NETWORK, batch={"global": 2}, run={"steps": 8, "log_every": 1, "seed": 7})
        self.train("one", "precision.compute=fp64")
        self.train("four", "precision.compute=fp64", ranks=4)
        self.expect_near("four", "one", 1e-9)
        for name, *network in (("node",), ("nodes", "--emulate-network", "ranks_per_node=1")):
            self.train(name, "precision.compute=fp64", "parallel.shard=optimizer", *network, ranks=4)
            self.expect_near(name, "one", 1e-9)

    def test_waits_are_of_no_phase(self):
        # The network is so slow that forward passes mostly wait for gathered parameters, and backward passes for sums of gradients.
        self.deck(model={"layers": ["flatten", {"linear": {"features": 300}}, "relu", {"linear": {"features": 300}}, "relu", {"linear": {"features": 10}}]},
                  run={"steps": 6})
        for shard in ("optimizer", "gradients", "parameters"):
            self.train(shard, f"parallel.shard={shard}", "parallel.unit_mb=0.1", "--emulate-network", "latency_us=3000,ranks_per_node=1", ranks=2)
            phases = json.loads((self.folder / shard / "summary.json").read_text())["phases_ms"]
            self.assertGreater(phases["reduce_exposed"], 6, shard)
            self.assertGreaterEqual(min(phases.values()), 0, f"{shard}: {phases}")

    def test_replicas_are_ranks(self):
        self.deck(model=NETWORK, batch={"global": 13}, parallel={"sync_batch_norm": False}, run={"steps": 12, "log_every": 1, "seed": 7})
        self.train("ranks", "precision.compute=fp64", ranks=4)
        self.train("replicas", "precision.compute=fp64", "parallel.virtual_replicas=4")
        self.train("both", "precision.compute=fp64", "parallel.virtual_replicas=2", ranks=2)
        self.train("none", "precision.compute=fp64")
        self.expect_near("replicas", "ranks", 1e-9)
        self.expect_near("both", "ranks", 1e-9)
        self.assertNotEqual(self.losses("none"), self.losses("ranks"), "each replica has its own mean and variance")

    @unittest.skipUnless(h5py, "Python's h5py is not here")
    def test_deterministic_goes_on_on_other_ranks(self):
        self.deck(model=NETWORK, batch={"global": 21}, parallel={"deterministic": {"shards": 4}, "sync_batch_norm": False},
                  run={"steps": 24, "log_every": 1, "seed": 7})
        self.train("whole", ranks=2)
        for steps, ranks, options in ((7, 4, ("--emulate-network", "latency_us=1")), (12, 1, ()), (18, 4, ("parallel.shard=optimizer",)), (24, 2, ())):
            self.train("parts", f"run.steps={steps}", *options, ranks=ranks)
        self.expect_same_state("parts", "whole", 24)

    @unittest.skipUnless(h5py, "Python's h5py is not here")
    def test_divided_states_go_on_on_other_ranks(self):
        # Checkpoints do not depend on the sharding. (A sum over two ranks is the same in any order.)
        self.deck(model={"layers": ["flatten", {"linear": {"features": 40}}, {"batch_norm": {}}, "relu", {"linear": {"features": 10}}]},
                  optimizer={"type": "adamw", "learning_rate": 0.003, "clip_norm": 1, "ema_decay": 0.9}, batch={"global": 22},
                  run={"steps": 24, "log_every": 1, "seed": 7}, checkpoint={"every_steps": 5}, parallel={"audit_every": 4})
        self.train("whole", ranks=2)
        self.train("divided", "parallel.shard=optimizer", ranks=2)
        self.expect_same_state("divided", "whole", 24)
        self.train("parts", "parallel.shard=optimizer", "run.steps=8", ranks=2)
        self.train("parts", "run.steps=13", ranks=2)
        self.train("parts", "parallel={shard: optimizer, share_parameters: false}", ranks=2)
        self.expect_same_state("parts", "whole", 24)
        for ranks, network in ((3, ()), (4, ("--emulate-network", "ranks_per_node=2")), (1, ())):
            self.train(f"from_{ranks}", "precision.compute=fp64", "run.steps=9", "parallel.shard=optimizer", *network, ranks=ranks)
            self.train(f"from_{ranks}", "precision.compute=fp64", "parallel.shard=optimizer", ranks=5 - ranks)
        self.expect_near("from_3", "from_1", 1e-9)
        self.expect_near("from_4", "from_1", 1e-9)

    @unittest.skipIf(runs_on_device(), "workers that run freely are refused on devices")
    @unittest.skipUnless(h5py, "no h5py here to look into checkpoints with")
    def test_what_workers_have_counted(self):
        """Workers' optimizer states count their own steps. Another number of workers begins with their mean; other ways of training ignore them."""
        self.deck(run={"steps": 12, "log_every": 4}, data={"synthetic": {"kind": "glyphs", "train": 64}, "drop_last": True},
                  optimizer={"type": "adam", "learning_rate": 0.01}, checkpoint={"every_steps": 4})
        workers = "parallel={{local: {{every: 2, outer: nesterov}}, asynchronous: {{collect: 2, schedule: {{simulate: {{ranks: {}}}}}}}}}".format
        self.train("run", workers(3))
        with h5py.File(self.folder / "run/checkpoints/step-00000012.h5") as file:
            counted = [file[f"replicas/{worker}/next_step/number"][0] - 1 for worker in range(3)]
        self.assertEqual(sum(counted), 12 / 2 * 2 * 2, counted)  # updates, rounds per update, steps per round
        file = "run/checkpoints/step-00000012.h5"
        self.train("more", f"run.resume={file}", "run.steps=16", workers(5))
        with h5py.File(self.folder / "more/checkpoints/step-00000016.h5") as more:
            begun = [more[f"replicas/{worker}/next_step/number"][0] - 1 for worker in range(5)]
        mean = round(sum(counted) / 3)
        self.assertEqual(sum(begun), 5 * mean + 4 / 2 * 2 * 2, begun)
        for arguments, key in (((f"run.resume={file}", "run.steps=16"), "parallel.local"), ((f"run.branch_from={file}", workers(3)), "run.branch_from")):
            self.refused(78, [key, "groups of ranks counted their own steps"], "train", "deck.yaml", "run.output_dir=other", *arguments)
        self.train("other", f"model.weights={file}")

    def test_groups_of_ranks_are_replicas(self):
        self.deck(model=NETWORK, batch={"global": 13}, run={"steps": 12, "log_every": 1, "seed": 7})
        self.train("groups", "precision.compute=fp64", "parallel.group_size=2", ranks=4)
        self.train("nodes", "precision.compute=fp64", "parallel.group_size=2", "--emulate-network", "ranks_per_node=1", ranks=4)
        self.train("uneven", "precision.compute=fp64", "parallel.group_size=2", "--emulate-network", "ranks_per_node=2", ranks=3)
        self.train("replicas", "precision.compute=fp64", "parallel={virtual_replicas: 2, sync_batch_norm: false}")
        self.expect_near("groups", "replicas", 1e-9)
        self.expect_near("nodes", "replicas", 1e-9)
        self.assertNotEqual(self.losses("uneven"), self.losses("groups"))

    def test_clocks_that_differ(self):
        # Rank 0 decides when a checkpoint is due by time; all ranks take part in the audit before it.
        self.deck(run={"steps": 100, "log_every": 1}, parallel={"audit_every": 1000}, checkpoint={"every_minutes": 0.0002})
        self.train("run", ranks=3)
        self.deck(run={"steps": 100, "log_every": 1}, parallel={"audit_every": 5}, checkpoint={"every_steps": 5})
        self.train("again", ranks=3)
        (self.folder / "again/summary.json").unlink()  # as if the run had been killed before writing it
        self.train("again", ranks=3)
        self.assertEqual(summary(self.folder / "again")["steps"], 100)

    def test_keys_without_effect_are_warned_of_once(self):
        self.deck()
        for key, value in (("shard_group", 2), ("share_parameters", "false"), ("prefetch", 3), ("machine", "nowhere.yaml")):
            for command in (["check", "deck.yaml"], *([["train", "deck.yaml"]] if key == "prefetch" else [])):
                result = self.lockstep(*command, f"parallel.{key}={value}", ranks=2)
                self.assertEqual((result.out + result.err).count(f"parallel.{key}: has no effect with parallel.shard: none"), 1, result)
        for parallel in ("{shard: auto, shard_group: 2, share_parameters: false, prefetch: 3}", "{shard: parameters, shard_group: 2, share_parameters: false, prefetch: 3}",
                         "{shard_group: all, share_parameters: true, prefetch: 1}"):
            self.assertNotIn("has no effect", str(self.lockstep("check", "deck.yaml", "--ranks", 2, f"parallel={parallel}")))

    def test_audits_that_have_nothing_to_compare_are_warned_of(self):
        self.deck(run={"steps": 2})
        words = "parallel.audit_every: there is nothing to compare"
        for ranks, parallel, said in ((2, "{shard: parameters, share_parameters: false}", 1), (4, "{shard: parameters, shard_group: 2, share_parameters: false}", 0),
                                      (2, "{shard: gradients}", 0), (2, "{}", 0)):
            result = self.lockstep("train", "deck.yaml", "run.overwrite=true", f"parallel={parallel}", "parallel.audit_every=1", ranks=ranks)
            self.assertEqual((result.out + result.err).count(words), said, result)

    def test_what_does_not_go_together(self):
        for parallel, words in (("{wire: fp16}", ["parallel.wire", "use bf16"]),
                                ("{deterministic: {}, virtual_replicas: 2}", ["parallel.virtual_replicas", "leave one out"]),
                                ("{all_reduce: ring, leaders: 2}", ["parallel.leaders: needs sums in the memory of nodes", "all_reduce: ring (", "it does not distinguish nodes", "leave one out"]),
                                ("{all_reduce: halving_doubling, between_nodes: ring}", ["parallel.between_nodes", "all_reduce: halving_doubling"]),
                                *((f"{{{way}, group_size: 2}}", ["parallel.group_size: needs statistics of batch_norm", f"but parallel.{name} (", "leave one out"])
                                  for name, way in (("deterministic", "deterministic: {}"), ("backup", "backup: 1"), ("asynchronous", "asynchronous: {schedule: {free: true}}"),
                                                    ("sync_batch_norm: false", "sync_batch_norm: false"))),
                                ("{replicas: 2}", ["parallel.replicas: has another name here; write virtual_replicas"]),
                                ("{emulate: {}}", ["parallel.emulate: has another name here; write --emulate-network latency_us="]),
                                ("{all_reduce: mpi, wire: bf16}", ["parallel.wire: bf16 needs additions in fp32", "parallel.all_reduce: mpi (", "the library adds in the type"]),
                                ("{shard: optimizer, all_reduce: tree}", ["parallel.shard: optimizer needs sums that can be divided", "parallel.all_reduce: tree (", "it leaves all sums on all ranks", "ring, halving_doubling, hierarchical"]),
                                ("{shard: optimizer, all_reduce: mpi}", ["parallel.all_reduce: mpi (", "it leaves all sums"]),
                                ("{shard: optimizer, between_nodes: tree}", ["parallel.between_nodes: tree (", "it leaves all sums", "use one of auto, ring, halving_doubling"]),
                                ("{shard: optimizer, all_reduce_table: t.yaml}", ["parallel.all_reduce_table", "leave one out"]),
                                ("{shard: gradients, overlap: thread}", ["parallel.overlap", "use poll"]),
                                ("{shard: parameters, prefetch: -1}", ["parallel.prefetch", "0"]),
                                ("{shard: optimizer, shard_group: 3}", ["parallel.shard_group", "2 ranks cannot be divided into groups of 3"]),
                                ("{shard: optimizer, shard_group: nodes}", ["parallel.shard_group", "a whole number or 'all' or 'node'", "nodes"]),
                                ("{shard: optimiser}", ["parallel.shard", "none, optimizer, gradients, parameters"])):
            self.deck()
            self.refused(78, words, "check", "deck.yaml", "--ranks", "2", f"parallel={parallel}")
        self.refused(78, ["parallel.wire"], "train", "deck.yaml", "parallel={wire: fp16}", ranks=2)
        self.refused(78, ["parallel.shard_group"], "train", "deck.yaml", "parallel={shard: optimizer, shard_group: 3}", ranks=2)
        self.deck(model={"layers": ["flatten", *[{"linear": {"features": 600}}] * 6, {"linear": {"features": 10}}]}, optimizer={"type": "adamw"})
        of_a_step = ["parallel.memory_gb: a step needs", "on each of 4 ranks"]
        self.refused(78, [*of_a_step, "shard: gradients needs"], "train", "deck.yaml", "parallel={memory_gb: 0.0205, unit_mb: 1, share_parameters: false}", ranks=4)
        self.refused(78, [*of_a_step, "use more ranks"], "train", "deck.yaml", "parallel={shard: parameters, memory_gb: 0.001}", ranks=4)
        self.refused(78, of_a_step, "check", "deck.yaml", "parallel={memory_gb: 0.001}", "--ranks", "4")
        self.assertRegex(self.lockstep("check", "deck.yaml", "--ranks", "4").out, r"by parallel.shard +none [0-9.]+ MB, optimizer [0-9.]+ MB, gradients [0-9.]+ MB, parameters [0-9.]+ MB per rank")
        self.deck(optimizer={"type": "adafactor"}, parallel={"shard": "optimizer"})
        self.refused(78, ["deck.yaml:", "parallel.shard", "optimizer.type: adafactor (line ", "it keeps averages"], "train", "deck.yaml", ranks=2)
        self.deck()
        self.write("table.yaml", "ranks: 2\nnodes: 1\nfastest: [mpi]")
        self.refused(78, ["table.yaml", "parallel.wire"], "train", "deck.yaml", "parallel={all_reduce_table: table.yaml, wire: bf16}", ranks=2)
        network = ("--emulate-network", "latency_us=1")
        self.refused(78, ["table.yaml", "--emulate-network"], "train", "deck.yaml", "parallel.all_reduce_table=table.yaml", *network, ranks=2)
        self.refused(78, ["parallel.shard_group", "nodes of this job have different numbers of ranks"], "train", "deck.yaml", "parallel={shard: optimizer, shard_group: node}",
                     "--emulate-network", "latency_us=1,ranks_per_node=2", ranks=3)
        self.refused(64, ["check --nodes: 4 ranks cannot be divided evenly among 3 nodes"], "check", "deck.yaml", "--ranks", "4", "--nodes", "3")
        self.refused(78, ["parallel.all_reduce: mpi cannot be combined with --emulate-network"], "train", "deck.yaml", "parallel.all_reduce=mpi", *network, ranks=2)

    def test_deterministic_needs_a_divisor(self):
        self.deck(parallel={"deterministic": {"shards": 4}})
        self.refused(78, ["deck.yaml:", "parallel.deterministic.shards", "4 shards", "3 ranks"], "train", "deck.yaml", ranks=3)
        self.refused(78, ["deck.yaml:", "4 shards", "3 ranks"], "check", "deck.yaml", "--ranks", "3")
        # With four shards on one rank, the sum of the first two and the third one wait in buffers beside the gradients.
        memory = re.search(r"\(parameters ([\d.]+) KB, gradients ([\d.]+) KB", self.lockstep("check", "deck.yaml").out)
        self.assertAlmostEqual(float(memory[2]) / float(memory[1]), 1 + 2, places=2)
        self.deck(model=NETWORK, parallel={"deterministic": {"shards": 4}})
        self.refused(78, ["parallel.sync_batch_norm", "set it to false"], "train", "deck.yaml", ranks=2)

    def test_noise_scale_and_audit(self):
        self.deck(run={"steps": 40, "log_every": 10, "seed": 7}, parallel={"audit_every": 5})
        self.train("one")
        self.train("two", ranks=2)
        self.assertEqual({row["noise_scale"] for row in metrics(self.folder / "one")}, {""})
        self.assertTrue(any(float(row["noise_scale"] or 0) > 0 for row in metrics(self.folder / "two") if row["split"] == "train"))

    def test_no_shared_memory(self):
        # Three times 7.5 MB exceed the limit of 20 MB for a file here; MPI's own files have 17 MB.
        self.deck(data={"synthetic": {"kind": "glyphs", "train": 64}}, model={"preset": "fc"})
        self.train("with", "parallel.all_reduce=hierarchical", ranks=3)
        result = self.on_each_rank('trap "" XFSZ; ulimit -f 20480; exec "$0" train deck.yaml run.output_dir=without parallel.all_reduce=hierarchical', 3)
        self.assertEqual(result.status, 0, result)
        said = re.findall(r"cannot share (\d+) bytes of memory each", result.err)
        self.assertEqual(len(said), 1, result)
        least = 4 * 1863690  # each tensor's gradients are rounded up to 64 bytes, or 256 on devices; two large layers begin with blocks of 16 KiB
        self.assertTrue(least <= int(said[0]) < least + 256 * 6 + 2 * 16384, said)
        self.expect_near("without", "with", 1e-5)
        # Without shared memory, each rank has parameters of its own.
        result = self.on_each_rank('trap "" XFSZ; ulimit -f 20480; exec "$0" train deck.yaml run.output_dir=divided parallel.shard=optimizer', 3)
        self.assertEqual(result.status, 0, result)
        self.expect_near("divided", "with", 1e-5)

    def test_one_node_without_shared_memory(self):
        """All ranks must notice that there is no shared memory, or they would sum in different ways and wait for ever."""
        # Twice 12 MB exceed the same limit of 20 MB.
        result = self.on_each_rank('[ $rank -lt 2 ] || ulimit -f 20480; exec "$0" bench allreduce --emulate-network ranks_per_node=2 --rounds 1 --bytes 12000000', 4)
        self.assertEqual(result.status, 0, result)
        self.assertEqual(result.err.count("cannot share 12000000 bytes of memory each"), 1, result)
        self.assertRegex(result.out, r"\n\| 12000000 \|")

    def test_all_reduce_table(self):
        out = self.lockstep("bench", "allreduce", "--bytes", "4096", "65536", "--rounds", "1", "--save", "table.yaml", ranks=2).out
        self.assertRegex(out, r"2 ranks on 1 node\n(.* share .*\n\n)?\| bytes \| mpi, µs \| ring, µs \| halving_doubling, µs \| tree, µs \| hierarchical, µs \|")
        table = (self.folder / "table.yaml").read_text()
        self.assertRegex(table, r"^ranks: 2\nnodes: 1\nfastest:\n(  - \w+: \{up_to: \d+\}\n)*  - \w+\n$")
        self.deck(model=NETWORK, batch={"global": 13})
        self.train("plain", ranks=2)
        self.train("by_table", "parallel.all_reduce_table=table.yaml", ranks=2)
        self.expect_near("by_table", "plain", 1e-5)
        result = self.train("other_ranks", "parallel.all_reduce_table=table.yaml", ranks=3)
        self.assertEqual(result.err.count("table.yaml: was measured with 2 ranks on 1 nodes, not with 3 on 1"), 1, result)

    def test_bench_of_ranks_that_share_cores(self):
        allowed = os.sched_getaffinity(0)
        self.addCleanup(os.sched_setaffinity, 0, allowed)
        os.sched_setaffinity(0, {min(allowed)})  # inherited by the ranks that start here
        bench = ("bench", "allreduce", "--bytes", "4096", "--rounds", "1")
        self.assertRegex(self.lockstep(*bench, ranks=2).out, r"2 ranks share 1 core on \S+: they take turns on a core")
        self.assertNotIn("share", self.lockstep(*bench).out)

    def test_bad_all_reduce_tables(self):
        self.deck()
        for text, words in (("ranks: 2\nnodes: 1\nfastest: [rinng]", ["bad.yaml:3:", "rinng", "ring"]),
                            ("ranks: 2\nnodes: 1\nfastest: []", ["bad.yaml:3:10: fastest: the list is empty"]),
                            ("ranks: 2\nnodes: 1", ["bad.yaml:1:1: fastest: is missing", "bench allreduce --save"]),
                            ("ranks: 2\nnodes: 1\nfastest: [ring: {up_to: many}]", ["bad.yaml:3:", "up_to"]),
                            ("ranks: [2", ["bad.yaml:"])):
            self.write("bad.yaml", text)
            self.refused(78, words, "train", "deck.yaml", "parallel.all_reduce_table=bad.yaml", ranks=2 if "rinng" in text else 1)
        self.refused(66, ["none.yaml"], "train", "deck.yaml", "parallel.all_reduce_table=none.yaml", ranks=2)
        self.assertEqual(self.refused(73, ["none/table.yaml", "folder"], "bench", "allreduce", "--bytes", "4096", "--rounds", "1", "--save", "none/table.yaml", ranks=2).out, "")

    def test_emulated_network_takes_its_time(self):
        out = self.lockstep("bench", "allreduce", "--bytes", "4096", "--rounds", "1", "--emulate-network", "latency_us=2000", ranks=2).out
        self.assertIn("(emulated: 2000 µs, 0 GB/s)", out)
        times = [float(time) for time in out.splitlines()[-1].split("|")[2:6]]
        self.assertGreaterEqual(min(times), 2000, out)


if __name__ == "__main__":
    program.main()
