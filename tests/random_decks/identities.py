# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Identities of loose synchrony (docs/user/loose_synchrony.md): two sections `parallel` that train to the same numbers. Each is a row of
IDENTITIES."""
from typing import NamedTuple

import traits
from case import Failure
from compare import finished, same_bits, same_to_rounding
from decks import changed


class Identity(NamedTuple):
    """`left`, `right`: functions of chance and of the ranks on the right that give a section `parallel`."""
    name: str
    left: callable
    right: callable
    bits: bool = False                       # else they are the same to rounding
    ranks: tuple = ((2, 2), (3, 3), (4, 4))  # on the left, and on the right
    holds: callable = lambda case: True      # for this deck


def local(**keys):
    return lambda chance, ranks: {"local": keys}


def nothing(chance, ranks):
    return {}


def simulated(workers, **keys):
    return lambda chance, ranks: {"asynchronous": {"schedule": {"simulate": {"ranks": workers}}, **keys}}


def averages(case):
    """A group's own statistics, and shares that are not weighted by examples, make averages another thing than sums."""
    return traits.is_plain_sgd(case) and not traits.has_batch_norm(case)


def plain_batches(case):
    """Parts of a batch are summed as the shares of ranks are."""
    return not traits.has_batch_norm(case) and not traits.is_weighted(case)


def deterministic(chance, ranks):
    return {"deterministic": {"shards": ranks}, "sync_batch_norm": False}


def drawn(change_left, change_right):
    """Two sections `local` with the same period, and keys of their own."""

    def section(change):
        return lambda chance, ranks: {"local": {"every": chance.choice((2, 3, 4)), **change}}

    return section(change_left), section(change_right)


def divided_groups():
    """Groups of two ranks that divide the parameters, and the same groups with whole ones."""

    def section(is_divided):
        def keys(chance, ranks):
            local = {"every": chance.choice((2, 3, 4)), "group": 2, "outer": chance.choice(("average", "nesterov"))}
            shard = chance.choice(("optimizer", "gradients", "parameters"))
            return {"local": local, **({"shard": shard} if is_divided else {})}

        return keys

    return section(True), section(False)


ONE = ((1, 1),)
IDENTITIES = [
    Identity("averages after each step are synchronous steps", local(every=1), nothing, holds=averages),
    Identity("nesterov without momentum is an average", *drawn({"outer": "nesterov", "momentum": 0, "learning_rate": 1}, {})),
    Identity("periods that are the same are not nested", local(every=3, node_every=3), local(every=3), bits=True),
    Identity("one part and no delay are the defaults", *drawn({"fragments": 1, "delay": 0}, {}), bits=True),
    Identity("local steps that begin after the end are synchronous", local(every=2, from_step=1000), nothing),
    Identity("groups may divide their parameters", *divided_groups(), ranks=((2, 2), (4, 4), (6, 6))),
    Identity("a group of all ranks is synchronous", lambda chance, ranks: {"local": {"every": 2, "group": ranks}}, nothing),
    Identity("one worker is serial", simulated(1), nothing, bits=True, ranks=ONE),
    Identity("a weight of 0 compensates nothing", simulated(3, staleness="compensate", **{"lambda": 0}), simulated(3), bits=True,
             ranks=ONE),
    Identity("no worker may be ahead: synchronous", lambda chance, ranks: simulated(ranks, collect=ranks, bound=0)(chance, ranks), nothing,
             ranks=((1, 2), (1, 3)), holds=plain_batches),
    Identity("one worker of local steps is serial", lambda chance, ranks: {"local": {"every": 2}, **simulated(1)(chance, ranks)}, nothing,
             ranks=ONE),
    Identity("a batch without backup ranks is deterministic", lambda chance, ranks: {"backup": {"ranks": 1}}, deterministic, bits=True,
             ranks=((2, 1), (3, 2), (4, 3))),
    Identity("one free group is deterministic", lambda chance, ranks: {"asynchronous": {"groups": 1, "schedule": {"free": True}}},
             deterministic, bits=True),
]


def other_columns(section):
    """Columns that mean something else (loose_synchrony.md): with local steps the gradient is that of rank 0's group; rows of ranks that run
    freely, and of workers that step by themselves, have the loss of all gradients since these last came together."""
    free = "backup" in section or section.get("asynchronous", {}).get("schedule", {}).get("free")
    return ("noise_scale", *(("grad_norm",) if "local" in section else ()),
            *(("loss", "accuracy") if free or "local" in section and "asynchronous" in section else ()))


def identity(case):
    """Two ways of training that are the same."""
    chance = case.chance("identity")
    row = chance.choice(IDENTITIES)
    ranks = chance.choice(row.ranks)
    if not row.holds(case):
        return
    # Workers need parts of equal size; evaluations of local steps wait for synchronizations, so nothing may depend on them.
    changes = {"data.drop_last": True, "batch.global": 12, "batch.ramp": None, "run.patience": None, "run.target": None,
               "checkpoint.keep_best": None}
    sections = [side(case.chance(row.name), ranks[1]) for side in (row.left, row.right)]
    left, right = (case.train({**changes, "parallel": section}, ranks=own) for section, own in zip(sections, ranks))
    if not finished(case, left, right):
        return
    case.counts[f"identity: {row.name}"] += 1
    try:
        if row.bits:
            same_bits(case, left, right, parts=("model",), without=other_columns(sections[0]), evaluations=False)
        else:
            same_to_rounding(case, left, right, evaluations=False, without=other_columns(sections[0]))
    except Failure as failure:
        raise Failure(failure.kind, f"{row.name}: {failure}") from None


def replayed(case):
    """A record is replayed to the same bits, in one process too (loose_synchrony.md#ranks-that-run-freely)."""
    name = "parallel.asynchronous.schedule"
    recorded = case.train({f"{name}.record": "order.txt"})
    if not finished(case, recorded):
        return
    collect = case.get("parallel.asynchronous.collect", 1)
    ranks = case.chance("replay").choice([n for n in range(1, 5) if collect % n == 0])
    deck = changed(case.deck, {name: {"replay": "order.txt"}, "parallel.asynchronous.groups": None, "parallel.servers": None,
                               "parallel.asynchronous.bound": None})
    folder = case.place(deck)
    (folder / "order.txt").write_bytes((recorded.folder / "order.txt").read_bytes())
    replay = case.run(folder, "train", "deck.yaml", ranks=ranks)
    if finished(case, replay):
        free = case.get(f"{name}.free", False)
        same_bits(case, recorded, replay, parts=("model",), evaluations=False, without=("noise_scale", "loss", "accuracy") if free
                  else ("noise_scale",))
