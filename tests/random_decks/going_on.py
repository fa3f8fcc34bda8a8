# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Oracles of runs that end early and go on: from a checkpoint, elsewhere, after kills, signals and stop files."""
import os
import signal
import time

import program
from case import LIMIT, Failure
from compare import finished, same_bits, same_to_rounding
from decks import changed
from processes import ranks_of
from same_numbers import loosely, other_situation


def whole_run(case):
    """A run with checkpoints on the way, all of which stay, and the step of one of them; (None, None) if there is none."""
    every = case.get("checkpoint.every_steps") or case.chance("every").choice((1, 2, 3))
    whole = case.train({"checkpoint.every_steps": every, "checkpoint.keep": 0, "checkpoint.keep_best": None})
    if not finished(case, whole):
        return None, None
    before = [path for path in whole.checkpoints()[:-1]]
    return (whole, case.chance("checkpoint").choice(before)) if before else (None, None)


def step_of(checkpoint):
    return int(checkpoint.stem.split("-")[1])


def go_on(case, checkpoint, changes=None, ranks=None, per_node=None):
    """Goes on from a copy of a checkpoint, in a folder of its own."""
    deck = changed(case.deck, {"run.resume": "start.h5", "checkpoint.keep_best": None,
                               **(changes or {})})
    folder = case.place(deck)
    os.link(checkpoint, folder / "start.h5")
    case.counts["resumes"] += 1
    return case.run(folder, "train", "deck.yaml", ranks=ranks or case.ranks, per_node=case.per_node if per_node is None else per_node)


def expect_step(case, run, step):
    if f"at step {step}" not in run.out:
        raise Failure("resumed step", f"does not go on at step {step}: {run}\n{run.out[-1500:]}")


def resumed(case):
    """A run that goes on in the same situation equals one that was never interrupted, bit for bit (files.md, loose_synchrony.md)."""
    whole, checkpoint = whole_run(case)
    if whole:
        again = go_on(case, checkpoint)
        if finished(case, again):
            expect_step(case, again, step_of(checkpoint))
            same_bits(case, whole, again, first=step_of(checkpoint))


def resumed_elsewhere(case):
    """Checkpoints are the same files: a run goes on on other ranks, and with other ways to divide the model
    (parallel.md#windows-libraries-refusals)."""
    whole, checkpoint = whole_run(case)
    if not whole:
        return
    chance = case.chance("elsewhere")
    ranks, per_node = other_situation(case, "elsewhere")
    changes = {"parallel.offload": None, "parallel.memory_gb": None,
               "parallel.shard": chance.choice(("none", "optimizer", "gradients", "parameters")),
               "parallel.shard_group": chance.choice((None, None, 1, 2, "node")), "parallel.unit_mb": 0.001}
    if changes["parallel.shard"] == "none":
        changes["parallel.shard_group"] = changes["parallel.unit_mb"] = None
    again = go_on(case, checkpoint, changes, ranks, per_node)
    if finished(case, again):
        expect_step(case, again, step_of(checkpoint))
        same_to_rounding(case, whole, again, first=step_of(checkpoint), loosely=loosely(case))


STEPS = 150  # of runs that are interrupted


def interruption(case, chance, output):
    """A function that interrupts a run, some time after it has written a checkpoint."""
    kind = chance.choice(("kill", "kill", "signal", "stop"))
    pause = chance.choice((0, 0.005, 0.02, 0.05))
    before = {path.name for path in (output / "checkpoints").glob("step-*.h5")}

    def interrupt(child):
        until = time.monotonic() + LIMIT
        while child.poll() is None and time.monotonic() < until and not {path.name
                                                                         for path in (output / "checkpoints").glob("step-*.h5")} - before:
            time.sleep(0.002)
        time.sleep(pause)
        if child.poll() is not None:
            return
        if kind == "stop":
            (output / "stop").touch()
            return
        rank = chance.choice(ranks_of(child.pid, program.PROGRAM) or [child.pid])
        case.killed.append(rank)
        try:
            os.kill(rank, signal.SIGKILL if kind == "kill" else signal.SIGTERM)
            case.counts[kind + "s"] += 1
        except ProcessLookupError:  # it has just ended
            pass

    return interrupt


def interrupted(case):
    """Runs that are killed, or asked to stop, go on with the same command and end as if nothing had happened (files.md, batch_jobs.md)."""
    chance = case.chance("interrupted")
    deck = changed(case.deck, {"run.steps": STEPS, "run.epochs": None, "run.log_every": 10,
                               "checkpoint.every_steps": chance.choice((5, 13)), "checkpoint.keep_best": None,
                               "run.patience": None, "run.target": None})
    whole = case.train(deck=deck)
    if not finished(case, whole):
        return
    folder = case.place(deck)
    for attempt in range(4):
        meanwhile = interruption(case, chance, folder / "run") if attempt < 3 else None
        run = case.run(folder, "train", "deck.yaml", ranks=case.ranks, per_node=case.per_node, meanwhile=meanwhile)
        case.counts["resumes"] += attempt > 0
        if run.status == 0:
            break
        if not meanwhile or run.status not in (75, 76, 137, -signal.SIGKILL):
            raise Failure("status after an interruption", f"status {run.status}: {run}")
    same_bits(case, whole, run)
