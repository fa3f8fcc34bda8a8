# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Settings that do not suit each other, the data or the build are refused; see bad_input_test.py."""
import re
import unittest

import program
from mistakes import MOSTLY, RANKS, MistakeTest


class BadSettings(MistakeTest):
    def test_schedules_and_ramps(self):
        self.train(78, [":1:", "schedule.points", "ends at 1 steps, before the end of the run"], "schedule={type: points, points: [[0, 1], [1 steps, 0]]}")
        self.train(78, [":1:", "schedule.decay", "longer than the run"], "schedule={type: warmup_stable_decay, decay: 9999 steps}")
        self.train(78, ["schedule.warmup", "a length with its unit"], "schedule={warmup: 10}")
        self.train(78, ["batch.ramp", "is not after the point before it"], "batch.ramp=[[20 steps, 32], [10 steps, 64]]")
        self.train(78, ["batch.ramp", "not a whole number"], "batch.ramp=[[20 steps, 32.5]]")
        self.train(78, ["batch.ramp", "a pair"], "batch.ramp=[20 steps, 32]")
        self.refused(78, ["batch.ramp", "2 examples, from 10 steps on, are less than one per rank on 4 ranks"],
                     "train", "deck.yaml", "run.overwrite=true", "run.resume=never", "batch.ramp=[[10 steps, 2]]", ranks=4)
        self.deck("bad.yaml", schedule={"type": "points", "points": [[0, 1], ["1 steps", 0]]})
        self.check(78, ["bad.yaml:6:", "schedule.points: ends at 1 steps"], "train", "bad.yaml", "run.overwrite=true", "run.resume=never")
        self.deck("bad.yaml", batch={"global": 16, "ramp": [["10 steps", 2]]})
        self.refused(78, ["bad.yaml:5:", "batch.ramp: 2 examples, from 10 steps on"], "train", "bad.yaml", "run.overwrite=true", "run.resume=never", ranks=4)

    def test_metrics_that_are_not_measured(self):
        values = {"data": {"synthetic": {"kind": "linear", "train": 64, "validation": 20}}, "model": {"layers": [{"linear": {"features": 1}}]},
                  "loss": {"type": "mse"}}
        for metric, words, sections in (("validation_accuracy", "this loss has no accuracy", values), ("validation_r_squared", "do not compute r_squared", values),
                                        ("validation_top_5", "do not compute top_5", {}), ("perplexity", "'perplexity' is unknown", {})):
            self.deck("bad.yaml", run={"steps": 4, "output_dir": "run", "target": {"metric": metric, "value": 1}}, **sections)
            for command in ("check", "train"):
                self.check(78, ["bad.yaml:1:", "run.target.metric: ", words], command, "bad.yaml", "run.overwrite=true", "run.resume=never")

    def test_parameter_groups(self):
        self.train(78, [":1:", "optimizer.groups", "'body/*' matches no trained parameter"], "optimizer={groups: [{match: body/*, weight_decay: 0.1}]}")
        self.deck("bad.yaml", optimizer={"groups": [{"match": "body/*"}]})
        self.check(78, ["bad.yaml:4:", "optimizer.groups: 'body/*' matches no trained parameter"], "train", "bad.yaml", "run.overwrite=true", "run.resume=never")
        self.train(78, ["optimizer.groups.0.match", "is missing"], "optimizer={groups: [{weight_decay: 0.1}]}")
        self.train(78, ["optimizer.groups.0.decay", "unknown key"], "optimizer={groups: [{match: a, decay: 0.1}]}")

    def test_nodes_of_too_many_ranks(self):
        for many in (2**32, 2**32 + 1, 0):
            network = ("--emulate-network", f"ranks_per_node={many}")
            self.train(64, [f"ranks_per_node: {many} is out of range"], *network)
            self.check(64, [f"ranks_per_node: {many} is out of range"], "bench", "allreduce", *network, on=MOSTLY if many else RANKS)

    def test_networks_that_are_none(self):
        for text, words in (("latency_us", ["no '='"]), ("latency=1", ["unknown key", "latency_us"]), ("latency_us=-1", ["out of range"]), (",", ["no '='"]),
                            ("latency_us=many", ["a finite number is expected"])):
            self.train(64, [f"--emulate-network {text}: ", *words, "ranks_per_node=1"], "--emulate-network", text)

    def test_negative_batch(self):
        self.train(78, ["batch.global: -16 is out of range"], "batch.global=-16")

    def test_tokens_of_another_length(self):
        self.train(65, ["its examples are 20, but the model reads 16 (model.input); set model.sequence: 20 (of a preset), or the data's sequence_length: 16"],
                   "data={synthetic: {kind: random, vocabulary: 8, sequence_length: 20, train: 16, validation: 4}}",
                   "model={preset: transformer, vocabulary: 8, sequence: 16, d_model: 8, depth: 1, heads: 2}")

    def test_deck_and_data_that_do_not_fit(self):
        places = {"data.normalize.mean": {"normalize": {"mean": [0.1, 0.2], "std": [1, 1]}},
                  "data.augment": {"augment": {"horizontal_flip": True}}}
        for key, section in places.items():
            data = {"synthetic": {"kind": "glyphs", "train": 64, "validation": 20}} if key.endswith("mean") else \
                {"synthetic": {"kind": "random", "shape": [784], "train": 64, "validation": 20}}
            self.deck("bad.yaml", data={**data, **section}, model={"layers": [{"linear": {"features": 10}}]} if "augment" in key else
                      {"layers": ["flatten", {"linear": {"features": 10}}]})
            for command in ("check", "train"):
                self.check(78, ["bad.yaml:2:", f": {key}: "], command, "bad.yaml", "run.resume=never", "run.overwrite=true",
                           on=RANKS if command == "train" else MOSTLY)

    def test_contradictions(self):
        self.train(78, ["model.layers: cannot be combined with preset", "on the command line: 'model={preset: …}'"], "model.preset=fc")
        self.train(78, ["data.synthetic: cannot be combined with file", "'data={file: …}'"], "data.file=deck.yaml")
        self.deck("bad.yaml", model={"layers": ["flatten"], "preset": "fc"})
        error = self.refused(78, ["model.layers: cannot be combined with preset"], "check", "bad.yaml").errors()[0]
        self.assertTrue(error.endswith("remove one of them"), error)
        self.train(78, ["parallel.asynchronous.schedule.simulate: neither"], "parallel={asynchronous: {schedule: {}}}")
        self.check(78, ["parallel.asynchronous.collect: 1 gradient per update cannot be divided evenly among 2 ranks"], "check", "deck.yaml", "--ranks", 2,
                   "parallel={asynchronous: {collect: 1, schedule: {simulate: {ranks: 2}}}}")
        self.train(78, ["run.epochs: neither run.epochs nor run.steps"], "run={output_dir: run}")
        self.train(78, ["run.epoch: unknown key; did you mean 'epochs'?"], "run={output_dir: run, epoch: 3}")
        self.train(78, ["run.evaluate_every: 0 cannot be combined with run.target"], "run.target={value: 1}", "run.evaluate_every=0")
        self.train(78, ["run.target: needs validation examples"], "run.target={value: 1}", "data.synthetic.validation=0")
        self.train(78, ["model.layers: has no layer with parameters (nothing would be trained); give one"], "model.layers=[flatten]")
        self.train(78, ["model.input: has more than four dimensions"], "model.input=[1, 1, 1, 1, 1, 1, 1]")

    def test_layers_that_do_not_fit(self):
        self.train(78, ["deck.yaml", "put a flatten before it"], "model.layers.0=relu", on=RANKS)

    def test_targets_of_another_kind(self):
        self.train(65, ["classes", "this loss reads values"], "loss={type: mse}", on=RANKS)
        self.train(65, ["classes", "this loss reads values"], "loss={type: huber}")
        for smoothing in (1, -0.1, "nan"):
            self.train(78, ["command line", "loss.label_smoothing: "], f"loss={{label_smoothing: {smoothing}}}")
        self.deck("bad.yaml", loss={"label_smoothing": 1.5})
        self.check(78, ["bad.yaml:6:", "loss.label_smoothing: 1.5 is out of range"], "train", "bad.yaml", "run.overwrite=true", "run.resume=never")
        self.train(78, ["command line", "loss.class_weights: has 2 weights (the model's output has 10 classes)"], "loss={class_weights: [1, 2]}")
        self.train(78, ["loss.class_weights: are all 0"], "loss={class_weights: [0, 0]}")
        self.train(78, ["loss.delta: 0 is out of range"], "loss={type: huber, delta: 0}")
        self.train(65, ["cross_entropy"], "data={synthetic: {kind: linear}}", "model={layers: [{linear: {features: 1}}]}")

    def test_samplers_that_do_not_suit(self):
        self.train(78, ["data.sampler: 'random' is unknown"], "data.sampler=random")
        self.train(78, ["data.sampler: weighted needs weights"], "data.sampler=weighted")
        self.train(78, ["data.sampler: class_balanced needs examples of one class"], "data={synthetic: {kind: linear}, sampler: class_balanced}",
                   "model={layers: [{linear: {features: 1}}]}", "loss={type: mse}")
        self.train(78, ["shuffle: false cannot be combined with a sampler that draws"], "data.sampler=class_balanced", "data.shuffle=false")
        self.train(78, ["data.sampler: class_balanced draws no examples of class 0 (loss.ignore_class)"], "loss.ignore_class=0",
                   "data={synthetic: {kind: random, shape: [28, 28, 1], classes: 1}, sampler: class_balanced}")
        self.train(78, ["data.sampler: distributed_sampler needs one share of each batch for each rank", "parallel.deterministic (command line", "it cuts batches in its own way"], "data.sampler=distributed_sampler", "batch.global=8",
                   "parallel={deterministic: {shards: 4}}")

    def test_shares_that_cannot_be_measured(self):
        for others, words in (({"shard": "optimizer"}, "shares: measured needs passes that wait for no other rank"), ({"local": 5}, "shares: measured needs steps that all ranks take together"),
                              ({"virtual_replicas": 2, "sync_batch_norm": False}, "virtual_replicas: needs one share of each batch for each rank"),
                              ({"group_size": 2}, "group_size: needs statistics of batch_norm that neighbouring ranks share"),
                              ({"deterministic": {"shards": 2048}, "sync_batch_norm": False}, "shares: measured distributes at most 1024 shards")):
            self.deck("bad.yaml", parallel={"shares": "measured", **others})
            self.check(78, ["bad.yaml:6:", f"parallel.{words}"], "check", "bad.yaml")
        norms = {"layers": ["flatten", {"linear": {"features": 6}}, "batch_norm", {"linear": {"features": 10}}]}
        for others, batch, words in (({"sync_batch_norm": False}, {"global": 8}, "which examples a rank's batch_norm"), ({}, {"global": 8, "micro": 2}, "which examples share a micro-batch")):
            self.deck("bad.yaml", parallel={"shares": "measured", **others}, model=norms, batch=batch)
            self.refused(78, ["bad.yaml:", "parallel.shares: measured would change", words], "train", "bad.yaml", "run.overwrite=true", "run.resume=never", ranks=2)
        self.refused(78, ["data.sampler: distributed_sampler needs one share", "parallel.shares: measured"], "train", "deck.yaml", "run.overwrite=true", "run.resume=never",
                     "data.sampler=distributed_sampler", "parallel.shares=measured", "batch.global=8", ranks=2)

    def test_virtual_replicas_beside_a_sampler_by_ranks(self):
        """They are refused: of 10 examples, 2 ranks with 2 replicas have 6 and 4; reading every other one would take one twice, and another never."""
        norms = {"layers": ["flatten", {"linear": {"features": 6}}, "batch_norm", {"linear": {"features": 10}}]}
        self.deck("bad.yaml", parallel={"virtual_replicas": 2, "sync_batch_norm": False}, model=norms, batch={"global": 10})
        self.refused(78, ["data.sampler: distributed_sampler needs one share", "parallel.virtual_replicas"], "train", "bad.yaml",
                     "run.overwrite=true", "run.resume=never", "data.sampler=distributed_sampler", ranks=2)

    def test_batches_that_cannot_be_dealt_out(self):
        self.refused(78, ["batch.global: 9 examples cannot be divided evenly among 2 ranks"], "train", "deck.yaml", "run.overwrite=true",
                     "run.resume=never", "data.sampler=distributed_sampler", "batch.global=9", ranks=2)

    def test_augmentation_that_does_not_suit(self):
        self.train(78, ["data.augment.random_resized_crop: cannot be combined with random_crop"], "data.augment={random_crop: 1, random_resized_crop: {}}")
        self.train(78, ["data.augment.color_jitter.saturation: the number of channels is 1"], "data.augment={color_jitter: {saturation: 0.5}}")
        self.train(78, ["data.augment.color_jitter.hue: 0.6 is out of range"], "data.augment={color_jitter: {hue: 0.6}}")
        self.train(78, ["data.augment.random_resized_crop.size: the images are 28×28×1, smaller than 32×32"], "data.augment={random_resized_crop: {size: 32}}")
        self.train(78, ["loss: with class_weights or ignore_class needs one class for each target", "data.augment with mixup or cutmix"], "data.augment={mixup: 0.2}",
                   "loss={class_weights: [1, 1, 1, 1, 1, 1, 1, 1, 1, 2]}")

    def test_provider_that_is_not_there(self):
        self.train(78, ["providers.matmul", "'mkl' is unknown"], "providers.matmul=mkl")
        present = self.lockstep("info").out
        absent = [name for name in ("onednn", "kokkos_kernels") if name not in present]
        if not absent:
            self.skipTest("this build has every provider")
        self.deck("bad.yaml", providers={"matmul": absent[0]})
        for command in ("check", "train"):
            self.check(78, ["bad.yaml:6:", f"providers.matmul: {absent[0]} is not in this build"], command, "bad.yaml",
                       "run.resume=never", "run.overwrite=true")

    def test_sums_between_devices_that_are_not_there(self):
        if not re.search(r"^nccl +none$", self.lockstep("info").out, re.MULTILINE):
            self.skipTest("this build has NCCL, or its stand-in")
        self.deck("bad.yaml", parallel={"all_reduce": "nccl"})
        for command in ("check", "train"):
            self.check(78, ["bad.yaml:6:", "parallel.all_reduce: nccl is not in this build"], command, "bad.yaml",
                       "run.resume=never", "run.overwrite=true")

    def test_removed_copies_in_memory(self):
        self.train(78, ["checkpoint.neighbours_every: was removed from Lockstep (checkpoints are written while the next steps run); use every_minutes"],
                   "checkpoint={neighbours_every: 5}")

    def test_removed_names_of_local_steps(self):
        for wrong, message in [("outer: slowmo", "outer: 'slowmo' is unknown; it was removed from Lockstep (nesterov has a momentum, too); use nesterov"),
                               ("outer: elastic", "outer: 'elastic' is unknown; it was removed from Lockstep"),
                               ("outer: delayed_nesterov", "outer: 'delayed_nesterov' is unknown; it was removed from Lockstep"),
                               ("state: average", "state: was removed from Lockstep (each group keeps the states of its optimizer); leave it out"),
                               ("mix: 0.5", "mix: was removed from Lockstep"), ("momentum_every: 2", "momentum_every: was removed from Lockstep"),
                               ("steps_by_speed: true", "steps_by_speed: was removed from Lockstep")]:
            self.train(78, ["parallel.local." + message], "parallel={local: {every: 4, %s}}" % wrong)

    def test_compression_that_does_not_suit(self):
        for wrong, message in [("method: zip", "method: 'zip' is unknown"), ("method: qsgd", "method: 'qsgd' is unknown; it was removed from Lockstep (int8 has the same size and needs no random draws); use int8"),
                               ("method: dgc", "method: 'dgc' is unknown; it was removed from Lockstep (the optimizer applies its momentum to the sums of topk); use topk"),
                               ("levels: 4", "levels: was removed from Lockstep (with qsgd, which it belonged to); leave it out"),
                               ("method: topk, keep: 0", "keep: 0 is out of range"), ("method: topk, keep: 1.5", "keep: 1.5 is out of range"),
                               ("method: powersgd, rank: 0", "rank: 0 is out of range"), ("from_step: -1", "from_step: -1 is out of range"),
                               ("method: topk, ramp_steps: -1", "ramp_steps: -1 is out of range"),
                               ("method: int8, ramp_steps: 4", "ramp_steps: is for topk, and has no effect with int8"), ("keep: 0.1", "keep: is for topk, and has no effect with int8"),
                               ("method: topk, rank: 3", "rank: is for powersgd, and has no effect with topk"), ("method: sign, block: 9", "block: is for int8, and has no effect with sign"), ("method: topk, keep: 0.3, ramp_steps: 4", "ramp_steps: begins with a quarter")]:
            self.train(78, ["parallel.compress." + message], "parallel={compress: {%s}}" % wrong)
        for other, message, place in [("shard: gradients", "shard: gradients needs sums that can be divided among ranks", "compress"), ("deterministic: {shards: 4}", "deterministic: needs exact sums", "compress"),
                                      ("wire: bf16", "compress: needs gradients that travel in fp32", "wire: bf16"), ("all_reduce: mpi", "compress: needs sums in the memory of nodes", "all_reduce: mpi"),
                                      ("all_reduce: tree", "compress: needs sums in the memory of nodes", "all_reduce: tree"), ("leaders: 2", "compress: needs one rank of each node that sends", "leaders"),
                                      ("local: 5", "compress: needs steps that all ranks take together", "local")]:
            self.train(78, ["parallel." + message, f"but parallel.{place} (line 1, column "], "parallel={compress: {}, %s}" % other)
        self.train(78, ["parallel.compress: needs gradients without a loss scale", "precision.compute: fp16", "compute in bf16"], "parallel={compress: {}}", "precision.compute=fp16")
        self.train(78, ["loss_watch.on_anomaly: skip needs gradients that can be left out for good", "use rollback or stop"], "parallel={compress: {}}", "loss_watch={on_anomaly: skip}")
        self.deck("bad.yaml", parallel={"compress": {"method": "topk"}, "shard": "optimizer"})
        self.check(78, ["bad.yaml:6:", "parallel.shard: optimizer needs sums that can be divided", "parallel.compress (line 6, column 24)"], "train", "bad.yaml", "run.resume=never", "run.overwrite=true", on=RANKS)


if __name__ == "__main__":
    program.main()
