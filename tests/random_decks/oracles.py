# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The table of oracles: what must be true of a deck in a situation, and for which decks."""
from typing import NamedTuple

import going_on
import identities
import reported
import same_numbers
import traits


class Oracle(NamedTuple):
    weight: int          # how often it is chosen beside others that apply
    applies: callable    # to a case
    check: callable      # raises a Failure


def synchronous(case):
    return traits.is_synchronous(case)


def same_on_other_ranks(case):
    """Not local and asynchronous training, whose numbers depend on groups and workers, nor what depends on a rank's examples."""
    return synchronous(case) and not traits.depends_on_ranks(case)


def same_with_micro_batches(case):
    """Not with statistics of micro-batches, nor where a sign or a place that is sent follows from a rounding error."""
    return not traits.has_batch_norm(case) and not traits.depends_on_time(case) and not traits.parallel(case, "compress")


def divisible(case):
    """Decks that can be divided; those that cannot are refused, which costs nothing but time."""
    return synchronous(case) and case.get("optimizer.type") != "adafactor" and case.ranks > 1


def offloadable(case):
    return divisible(case) and (case.get("optimizer.type", "sgd") != "sgd" or case.get("optimizer.momentum"))


def any_deck(case):
    return True


def keeps_bits(case):
    return not traits.depends_on_time(case)


ORACLES = {
    "ranks": Oracle(6, same_on_other_ranks, same_numbers.other_ranks),
    "micro": Oracle(4, same_with_micro_batches, same_numbers.micro_batches),
    "stages": Oracle(8, divisible, same_numbers.stages),
    "offload": Oracle(3, offloadable, same_numbers.offloaded),
    "deterministic": Oracle(3, lambda case: synchronous(case) and not case.get("parallel.virtual_replicas"), same_numbers.deterministic),
    "compress": Oracle(2, any_deck, same_numbers.compressed_on_one_node),
    "repeat": Oracle(2, keeps_bits, same_numbers.repeated),
    "identities": Oracle(4, any_deck, identities.identity),
    "replay": Oracle(6, lambda case: traits.parallel(case, "asynchronous"), identities.replayed),
    "resume": Oracle(6, keeps_bits, going_on.resumed),
    "resume elsewhere": Oracle(4, same_on_other_ranks, going_on.resumed_elsewhere),
    "interrupt": Oracle(3, keeps_bits, going_on.interrupted),
    "check": Oracle(3, any_deck, reported.accepted),
    "refusal": Oracle(3, lambda case: case.drafts, reported.refused),
    "folder": Oracle(2, any_deck, reported.folder_of_a_run),
    "summary": Oracle(3, any_deck, reported.summarized),
    "evaluate": Oracle(3, any_deck, reported.evaluated),
    "predict": Oracle(4, lambda case: case.file and case.file["validation"], reported.predicted),
    "own memory": Oracle(1, any_deck, reported.own_memory),
    "planned memory": Oracle(1, any_deck, reported.planned_memory),
}


def choose(case, number):
    """The names of different oracles that apply to the case."""
    chance, left, chosen = case.chance("oracles"), {name: oracle for name, oracle in ORACLES.items() if oracle.applies(case)}, []
    while left and len(chosen) < number:
        chosen.append(chance.choices(list(left), [oracle.weight for oracle in left.values()])[0])
        del left[chosen[-1]]
    return chosen
