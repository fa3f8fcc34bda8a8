# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the schema cannot say of keys: which belong together, how often each is drawn, and which values keep a run small."""
from typing import NamedTuple

import networks


class Way(NamedTuple):
    """A way of training: keys of `parallel` (or paths from the top) that a deck has, and keys that it often has beside them."""
    weight: int
    keys: tuple
    often: tuple = ()


SUMS = ("parallel.bucket_mb", "parallel.all_reduce", "parallel.between_nodes", "parallel.leaders", "parallel.wire", "parallel.overlap")
WORKERS = ("data.drop_last", "parallel.asynchronous.collect", "parallel.asynchronous.staleness", "parallel.asynchronous.bound")
WAYS = {
    "synchronous": Way(6, (), SUMS),
    "divided": Way(12, ("parallel.shard",), ("batch.micro", "parallel.shard_group", "parallel.share_parameters", "parallel.unit_mb",
                                             "parallel.prefetch", "parallel.bucket_mb", *SUMS)),
    "offload": Way(4, ("parallel.offload", "parallel.shard"),
                   ("parallel.offload.parameters", "parallel.offload.block_mb", "batch.micro", "parallel.shard_group")),
    "deterministic": Way(5, ("parallel.deterministic", "parallel.sync_batch_norm"),
                         ("parallel.shard", "parallel.shares", "parallel.shard_group", "batch.micro")),
    "shares": Way(2, ("parallel.shares",), ("batch.micro", *SUMS)),
    "replicas": Way(2, ("parallel.virtual_replicas",), ("parallel.sync_batch_norm", "parallel.group_size", "batch.micro",
                                                        "parallel.shard")),
    "local": Way(4, ("parallel.local",), tuple(f"parallel.local.{key}"
                                               for key in ("outer", "learning_rate", "momentum", "group", "from_step", "node_every",
                                                           "fragments", "delay"))),
    "divided groups": Way(2, ("parallel.local", "parallel.local.group", "parallel.shard"),
                          ("parallel.local.outer", "parallel.local.learning_rate", "parallel.local.node_every", "parallel.shard_group",
                           "parallel.share_parameters", "parallel.unit_mb", "batch.micro")),
    "compress": Way(4, ("parallel.compress",), tuple(f"parallel.compress.{key}"
                                                     for key in ("method", "block", "keep", "rank", "min_ratio", "error_feedback",
                                                                 "from_step", "ramp_steps"))),
    "simulated": Way(5, ("parallel.asynchronous.collect", "parallel.asynchronous.schedule.simulate"),
                     (*WORKERS, "parallel.asynchronous.adaptive", "parallel.asynchronous.schedule.record")),
    "simulated steps": Way(2, ("parallel.asynchronous.collect", "parallel.local", "parallel.asynchronous.schedule.simulate"),
                           (*WORKERS, "parallel.local.outer")),
    "free": Way(2, ("parallel.asynchronous.schedule.free",), (*WORKERS, "parallel.servers", "parallel.asynchronous.groups",
                                                              "parallel.asynchronous.schedule.record")),
    "free steps": Way(1, ("parallel.local", "parallel.asynchronous.schedule.free"), (*WORKERS, "parallel.local.outer", "parallel.servers")),
    "backup": Way(2, ("parallel.backup",), ("data.drop_last", "parallel.backup.mode", "parallel.servers")),
}

# How likely an optional key is: the entry of the longest beginning of its path counts.
LIKELY = {"": 0.05, "run": 0.06, "run.log_every": 1, "run.seed": 0.7, "run.evaluate_every": 0.5, "data": 0.06, "data.augment": 0.15,
          "loss": 0.3, "optimizer.type": 0.85, "optimizer": 0.25,
          "optimizer.epsilon": 0.9, "optimizer.epsilons": 0.9, "optimizer.clip_norm": 0.3, "schedule.type": 0.4, "schedule": 0.15,
          "batch.global": 1, "batch.micro": 0.3, "batch.ramp": 0.06,
          "precision.compute": 0.9, "schedule.reference_batch": 1, "schedule.points": 1, "schedule.milestones": 1, "parallel": 0.03,
          "providers": 0.02, "checkpoint": 0.1, "checkpoint.every_steps": 0.3, "metrics": 0.15}


class Facts(NamedTuple):
    """What rules for values need to know of a deck."""
    problem: networks.Problem
    batch: int
    steps: int
    ranks: int
    way: str


def of(*values_):
    return lambda chance, facts: chance.choice(values_)


def normalize(chance, facts):
    channels = chance.choice((1, facts.problem.shape[-1]))
    return {"mean": [round(chance.random(), 2) for _ in range(channels)], "std": [round(0.5 + chance.random(), 2) for _ in range(channels)]}


def parts_of_batch(chance, facts):
    """Parts that divide the batch, and that the ranks divide if there are such."""
    parts = [n for n in range(1, facts.batch + 1) if facts.batch % n == 0]
    return chance.choice([n for n in parts if n % facts.ranks == 0] or parts)


def optimizer_type(chance, facts):
    """Types without a state that could be divided, or kept elsewhere, are rare there."""
    kinds = ["sgd", "sgd", "adam", "adamw", "adamw", "rmsprop", "lion", "lars", "lamb", "adafactor"]
    return chance.choice(kinds[:-1] * 3 + kinds[-1:] if facts.way in ("divided", "offload") else kinds)


def weights_of_classes(chance, facts):
    return [chance.choice((0, 0.5, 1, 2)) for _ in range(max(1, facts.problem.classes))]


def group_of_parameters(chance, facts):
    return [{"match": chance.choice(("*/bias", "*/weight", "l*", "*_1/*")),
             **chance.choice(({"weight_decay": 0.05}, {"learning_rate_scale": chance.choice((0, 0.5, 2))}))}]


def points_of_schedule(chance, facts):
    return [["0", chance.choice((0.1, 0.5))], ["2 steps", 1], [f"{facts.steps + chance.choice((0, 1))} steps", 0.2]]


# Values that the schema cannot know: sizes and times that stay small, files, and values that depend on the network. None: the key is never
# drawn.
VALUES = {
    "run.name": None, "run.output_dir": None, "run.resume": None, "run.branch_from": None,  # oracles choose these
    "run.wall_time": of("20 min"), "run.hang_timeout": of(0, 300), "run.log_every": of(1, 1, 1, 2, 3), "run.seed": lambda chance,
          facts: chance.randrange(1000),
    "run.steps": lambda chance, facts: facts.steps, "run.epochs": of(1, 2, 3),
          "run.evaluate_every": of("1 epoch", "2 steps", "3 steps", "0"), "run.target.value": of(0.3, 0.6),
    "data.validation_file": None, "data.test_file": None, "data.memory": None, "data.sequence_length": None,
          "data.augment.random_crop": of(1, 2), "data.augment.cutout": of(1, 2),
    "data.normalize": normalize,
    "data.augment.random_resized_crop": lambda chance, facts: {"area": [0.5, 1]},
    "model.input": None, "model.weights": None, "model.weights.freeze": None,
    "loss.class_weights": weights_of_classes, "loss.ignore_class": of(0, 1, 2),
    "optimizer.type": optimizer_type, "optimizer.learning_rate": of(0.001, 0.01, 0.03), "optimizer.weight_decay": of(0.01, 0.1),
          "optimizer.clip_norm": of(0.05, 0.5, 2), "optimizer.clip_value": of(0.01, 0.2),
    "optimizer.groups": group_of_parameters, "optimizer.ema_decay": of(0.5, 0.9), "optimizer.epsilon": of(1e-4, 1e-3, 1e-2),
          "optimizer.epsilons": of([1e-4, 1e-3], [1e-3, 1e-2]),
    "optimizer.betas": of([0.9, 0.999], [0.5, 0.9], [0.9, 0.5]),
    "schedule.points": points_of_schedule, "schedule.milestones": of(["2 steps"], ["1 steps", "3 steps"]),
          "schedule.warmup": of("1 steps", "2 steps", "7 examples"),
    "schedule.reference_batch": of(4, 16),
    "batch.global": lambda chance, facts: facts.batch, "batch.micro": of(1, 1, 2, 3), "batch.ramp": lambda chance,
          facts: [["2 steps", facts.batch + chance.choice((-2, 1, 3, 5))]],
    "precision.compute": of("fp64", "fp64", "fp64", "fp32", "fp32", "bf16", "fp16"), "precision.loss_scale.initial": of(1, 64, 1024, 1e9),
    "parallel.bucket_mb": of(0.001, 0.002, 0.01), "parallel.unit_mb": of(0.001, 0.002, 0.01),
          "parallel.shard": of("optimizer", "gradients", "gradients", "parameters", "parameters", "auto"),
    "parallel.shard_group": of(1, 1, 2, 3, "node", "all"), "parallel.machine": None, "parallel.all_reduce_table": None,
          "parallel.survive": None, "parallel.memory_gb": of(1, 10),
    "parallel.wire": of("bf16", "bf16", "fp16"), "parallel.virtual_replicas": of(2, 3), "parallel.group_size": of(1, 2, 3),
          "parallel.sync_batch_norm": of(False), "parallel.audit_every": of(1, 3),
    "parallel.deterministic.shards": of(4, 6, 8, 12), "parallel.shares": of("measured"),
    "parallel.asynchronous.collect": parts_of_batch, "parallel.asynchronous.groups": of(1, 2, 3),
          "parallel.asynchronous.bound": of(0, 1, 3, 8),
    "parallel.asynchronous.schedule.replay": None, "parallel.asynchronous.schedule.free": of(True),
          "parallel.asynchronous.schedule.record": of("order.txt"),
    "parallel.asynchronous.schedule.simulate.ranks": of(1, 2, 3, 4),
          "parallel.asynchronous.schedule.simulate.delays": of([1], [1, 2], [1, 1, 3], [0.7, 1.1]),
    "parallel.backup.record": of("order.txt"), "parallel.backup.ranks": of(1, 1, 2), "parallel.servers": of(1, 2),
    "parallel.local.every": of(1, 2, 3, 4, 6), "parallel.local.node_every": of(1, 2, 3), "parallel.local.from_step": of(1, 2, 3),
          "parallel.local.fragments": of(1, 2, 3),
    "parallel.local.delay": of(1, 1, 2), "parallel.local.group": of(1, 2, 3, "node"),
          "parallel.local.learning_rate": of(0.3, 0.7, 1),
    "parallel.offload.optimizer": of("."), "parallel.offload.parameters": of("."), "parallel.offload.block_mb": of(0.001, 0.002, 0.1),
    "parallel.compress.block": of(1, 3, 16, 256), "parallel.compress.keep": of(0.05, 0.3, 1), "parallel.compress.ramp_steps": of(1, 2),
    "checkpoint.every_steps": of(1, 2, 3, 5), "checkpoint.every_minutes": None, "checkpoint.keep": of(0, 1, 2, 3),
    "loss_watch": lambda chance, facts: {"on_anomaly": chance.choice(("stop", "skip", "rollback"))},
}
# Of keys of which a section needs one, those that are drawn (and how often).
ONE_OF = {"run": ("steps", "steps", "steps", "epochs")}
# Keys that have no effect without another one, or with other values of it.
NEEDS = {
    "schedule.warmup_start": ("warmup",), "schedule.reference_batch": ("scale_rule",), "optimizer.dampening": ("momentum",),
         "optimizer.nesterov": ("momentum",),
    "parallel.asynchronous.lambda": ("staleness", "compensate"), "parallel.asynchronous.adaptive": ("staleness", "compensate"),
    "parallel.local.learning_rate": ("outer", "nesterov", "adasum"),
         "parallel.local.momentum": ("outer", "nesterov"),
    "parallel.compress.block": ("method", None, "int8"),
    "parallel.compress.keep": ("method", "topk"), "parallel.compress.ramp_steps": ("method", "topk"),
         "parallel.compress.rank": ("method", "powersgd"),
    "parallel.compress.min_ratio": ("method", "powersgd"), "parallel.leaders": ("all_reduce", None, "auto", "hierarchical"),
         "parallel.between_nodes": ("all_reduce", None, "auto", "hierarchical"),
    "parallel.backup.record": ("mode", "drop"),
}
