# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Oracles of the same numbers: other ranks, micro-batches, stages of `shard`, and repetitions."""
import traits
from compare import finished, same_bits, same_to_rounding


def other_situation(case, name, ranks=(1, 1, 1, 2, 3, 4, 5, 6, 7)):
    """Another number of ranks on other nodes."""
    chance = case.chance(name)
    while True:
        count = chance.choice(ranks)
        per_node = chance.choice((0, 0, 1, 2, 3)) if count > 1 else 0
        if (count, per_node) != (case.ranks, case.per_node):
            return count, per_node


def loosely(case):
    """Gradients that travel in 16 bits between nodes are rounded there (parallel.md#how-gradients-are-summed)."""
    return 1e6 if traits.sends_in_16_bits(case) else 1


def other_ranks(case):
    """The same curve on any number of ranks and nodes (parallel.md#the-same-result-on-any-number-of-ranks)."""
    ranks, per_node = other_situation(case, "ranks")
    base, other = case.train(), case.train(ranks=ranks, per_node=per_node)
    if finished(case, base, other):
        same_to_rounding(case, base, other, loosely=loosely(case))


def micro_batches(case):
    """Only batch_norm depends on batch.micro (models.md)."""
    micro = case.get("batch.micro")
    base, other = case.train(), case.train({"batch.micro": None if micro else case.chance("micro").choice((1, 2, 3))})
    if finished(case, base, other):
        same_to_rounding(case, base, other, loosely=loosely(case))


STAGE_KEYS = ("shard", "shard_group", "unit_mb", "prefetch", "share_parameters", "offload", "memory_gb")


def stages(case):
    """The numbers of shard: none (parallel.md#dividing-a-model-among-ranks)."""
    chance = case.chance("stages")
    if case.get("parallel.shard", "auto") == "auto":
        both = {"batch.micro": case.get("batch.micro") or chance.choice((None, 1, 2, 3))}
        keys = {"shard": chance.choice(("optimizer", "gradients", "parameters")),
                "shard_group": chance.choice((None, None, 1, 1, 2, 3, "node")), "unit_mb": chance.choice((None, 0.001, 0.002)),
                "share_parameters": chance.choice((None, False))}
    else:
        both, keys = {}, {key: case.get(f"parallel.{key}") for key in STAGE_KEYS}
    divided = case.train({**both, **{f"parallel.{key}": own for key, own in keys.items()}})
    whole = case.train({**both, **{f"parallel.{key}": None for key in STAGE_KEYS}})
    if finished(case, divided, whole):
        if stage_has_bits(case, keys, both.get("batch.micro", case.get("batch.micro"))):
            same_bits(case, divided, whole, parts=("model", "optimizer"))
        else:
            same_to_rounding(case, divided, whole, loosely=loosely(case))


def stage_has_bits(case, keys, micro):
    """Bits are promised with one micro-batch a step, in one group, where ranks of a node share the parameters, and in all deterministic
    runs."""
    if traits.parallel(case, "deterministic"):
        return True
    one_sum = keys["shard"] == "optimizer" or not micro and not traits.parallel(case, "virtual_replicas")
    whole_group = keys["shard_group"] in (None, "all")
    exact = not traits.sends_in_16_bits(case) and not traits.depends_on_time(case)
    return one_sum and whole_group and keys["share_parameters"] is not False and exact


def offloaded(case):
    """The same bits with the optimizer's state on a disk (parallel.md#the-optimizers-state-on-a-disk)."""
    if traits.parallel(case, "offload"):
        base, other = case.train(), case.train({"parallel.offload": None})
    else:
        place = {"optimizer": ".", "block_mb": case.chance("offload").choice((0.001, 0.002, 1))}
        if case.get("parallel.shard") == "parameters" and case.chance("parameters").random() < 0.5:
            place["parameters"] = "."
        base, other = case.train(), case.train({"parallel.offload": place})
    if finished(case, base, other):
        same_bits(case, base, other)


def deterministic(case):
    """The same bits on any number of ranks that divides the shards (parallel.md)."""
    changes = {}
    if not traits.parallel(case, "deterministic"):
        changes = {"parallel.deterministic": {"shards": case.chance("shards").choice((4, 6, 8, 12))}, "parallel.sync_batch_norm": False}
    shards = (changes.get("parallel.deterministic") or case.get("parallel.deterministic")).get("shards", 8)
    divisors = [n for n in range(1, 9) if shards % n == 0]
    chance = case.chance("deterministic")
    ranks = case.ranks if shards % case.ranks == 0 else chance.choice(divisors)
    other, per_node = other_situation(case, "other divisor", divisors)
    a, b = case.train(changes, ranks=ranks), case.train(changes, ranks=other, per_node=per_node)
    if finished(case, a, b):
        same_bits(case, a, b, evaluations=False)


COMPRESSED = ({"method": "int8"}, {"method": "sign"}, {"method": "topk", "keep": 0.1},
              {"method": "powersgd", "rank": 1, "min_ratio": 0.1})


def compressed_on_one_node(case):
    """On a single node `compress` changes nothing (loose_synchrony.md#compressed-gradients)."""
    if traits.parallel(case, "compress"):
        sections = {"parallel.compress": case.get("parallel.compress")}, {"parallel.compress": None}
    else:
        sections = {"parallel": {"compress": case.chance("compress").choice(COMPRESSED)}}, {"parallel": None}
    base, other = (case.train(section, ranks=max(2, case.ranks), per_node=0) for section in sections)
    if finished(case, base, other):
        same_bits(case, base, other, parts=("model", "optimizer"))


def repeated(case):
    """The same run twice is the same, bit for bit (deck_reference.md: run.seed)."""
    base = case.train()
    if finished(case, base):
        again = case.run(case.place(case.deck), "train", "deck.yaml", ranks=case.ranks, per_node=case.per_node)
        if finished(case, again):
            same_bits(case, base, again)
