# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Oracles of what the program says of a run, before it and after it: check, summary.json, evaluate, predict, and memory."""
import re
import sys

import h5py
import numpy

import traits
from case import Failure, as_text
from compare import ROUNDING, finished, is_off
from decks import changed


def accepted(case):
    """What `train` accepts, `check` accepts, also for nodes that are not here. It plans for nodes with equally many ranks."""
    base = case.train()
    ranks, per_node = case.ranks, min(case.per_node or case.ranks, case.ranks)
    if ranks % per_node == 0:
        same_verdict(case, base, case.run(case.place(case.deck), "check", "deck.yaml", "--ranks", ranks, "--nodes", ranks // per_node))
    if not case.per_node:  # without --nodes, each rank has a node
        same_verdict(case, base, case.run(case.place(case.deck), "check", "deck.yaml", "--ranks", ranks))


def same_verdict(case, train, check):
    case.counts["verdicts"] += 1
    if any("--emulate-network" in error for error in train.errors()):  # an option of `train` alone
        return
    if train.status in (0, 70) and check.status == 0:
        return
    if train.status != check.status or train.errors() != check.errors():
        raise Failure("verdict", f"train and check differ:\n{train}\n{check}")


def refused(case):
    """What `check` has refused while this deck was drawn, `train` refuses with the same words."""
    for deck in case.drafts[:1]:
        folder = case.place(deck)
        check = case.run(folder, "check", "deck.yaml", "--ranks", case.ranks)
        if check.status:
            same_verdict(case, case.run(folder, "train", "deck.yaml", ranks=case.ranks), check)


FOLDERS = ("resume never", "other batch", "other seed", "other optimizer", "other network", "foreign metrics", "filled stop", "the same",
           "more steps")


def folder_of_a_run(case):
    """`check` in the folder of an earlier run ends as `train` would."""
    base = case.train()
    if not finished(case, base):
        return
    folder = case.place(case.deck)
    first = case.run(folder, "train", "deck.yaml", ranks=case.ranks)
    if first.status:
        return
    chance = case.chance("folder")
    kind, deck = chance.choice(FOLDERS), case.deck
    if kind == "resume never":
        deck = changed(deck, {"run.resume": "never"})
    elif kind == "other batch":
        deck = changed(deck, {"batch.global": case.get("batch.global", 128) + 1, "run.steps": 100, "run.epochs": None})
    elif kind == "other seed":
        deck = changed(deck, {"run.seed": 1001})
    elif kind == "other optimizer":
        deck = changed(deck, {"optimizer": {"type": "adam" if case.get("optimizer.type") != "adam" else "adamw"}})
    elif kind == "other network" and "layers" in deck["model"]:
        deck = changed(deck, {"model.layers": ["tanh", *deck["model"]["layers"]] if case.get("data.sequence_length") is None
                              and not case.get("data.synthetic.vocabulary") else ["flatten"]})
    elif kind == "foreign metrics":
        (folder / "run/metrics.csv").write_text("mine\n1\n")
    elif kind == "filled stop":
        (folder / "run/stop").write_text("mine")
    elif kind == "more steps":
        deck = changed(deck, {"run.steps": case.get("run.steps", 40) + 3, "run.epochs": None})
    (folder / "deck.yaml").write_text(as_text(deck))
    check = case.run(folder, "check", "deck.yaml", "--ranks", case.ranks)
    train = case.run(folder, "train", "deck.yaml", ranks=case.ranks)
    case.counts[f"folder: {kind}"] += 1
    same_verdict(case, train, check)


def summarized(case):
    """summary.json has what metrics.csv has in its last rows, and rows do not depend on log_every (files.md)."""
    base = case.train()
    if not finished(case, base):
        return
    rows, summary = base.rows(), base.summary()
    case.counts["summaries"] += 1
    for split in ("train", "validation", "test"):
        last = next((row for row in reversed(rows) if row["split"] == split), None)
        said = summary.get(split, {})
        for column in ("loss", "accuracy", *(case.get("metrics") or ())):
            in_row, in_summary = last and last.get(column), said.get(column)
            if in_row == "nan":  # JSON has no such number: null there
                in_row = None
            if in_summary is not None and is_off(in_row, repr(in_summary), 1e-8) or in_row and in_summary is None and column in said:
                raise Failure("summary", f"{split} {column}: {in_row!r} in metrics.csv, {in_summary!r} in summary.json: {base}")
    steps = int(rows[-1]["step"])
    if summary["steps"] != steps or summary["status"] not in ("done", "target_reached", "out_of_patience"):
        raise Failure("summary", f"{summary['steps']} steps, {summary['status']} in summary.json, {steps} in metrics.csv: {base}")
    # Rows of workers that step by themselves are of all steps since the row before (loose_synchrony.md).
    if traits.depends_on_time(case) or summary["status"] != "done" or traits.parallel(case,
                                                                                      "asynchronous") and traits.parallel(case, "local"):
        return
    every = case.get("run.log_every", 50)
    other = case.train({"run.log_every": 1 if every > 1 else 3})
    if finished(case, other):
        mine = {(row["step"], row["split"]): row for row in rows}
        for row in other.rows():
            match = mine.get((row["step"], row["split"]))
            for column in ("loss", "accuracy", "learning_rate", "grad_norm"):
                if match and row[column] != match[column]:
                    raise Failure("log_every", f"step {row['step']} ({row['split']}): {column} {match[column]!r} by run.log_every {every}, "
                                               f"{row[column]!r} by another: {base}")


def last_validation(run):
    return next((row for row in reversed(run.rows()) if row["split"] == "validation"), None)


def evaluated(case):
    """`evaluate` of the last checkpoint prints what the run's last evaluation has found (validation.md#evaluate)."""
    base = case.train()
    if not finished(case, base) or not last_validation(base):
        return
    row, checkpoint = last_validation(base), base.checkpoints()[-1]
    if row["step"] != base.rows()[-1]["step"]:
        return
    ranks = case.chance("evaluate").choice((1, 1, 2, 3))
    answer = case.run(base.folder, "evaluate", "deck.yaml", "--checkpoint", checkpoint, ranks=ranks)
    if answer.status:
        raise Failure("evaluate", f"{answer}\n{base}")
    case.counts["evaluations"] += 1
    found = dict(re.findall(r"^(\w+) +(\S+)$", answer.out, re.M))
    tolerance = max(1e-5, ROUNDING[case.get("precision.compute", "fp32")])
    for column, value in found.items():
        if column in row and is_off(row[column], value, tolerance):
            raise Failure("evaluate", f"{column} {row[column]} in the run's last evaluation, {value} by {answer.command}: {base}")


def cross_entropy(outputs, targets):
    largest = outputs.max(-1)
    right = numpy.take_along_axis(outputs, targets[..., None], -1)[..., 0]
    return numpy.mean(numpy.log(numpy.exp(outputs - largest[..., None]).sum(-1)) + largest - right)


LOSSES = {
    "cross_entropy": cross_entropy,
    "mse": lambda outputs, targets: numpy.mean((outputs - targets) ** 2),
    "mae": lambda outputs, targets: numpy.mean(numpy.abs(outputs - targets)),
    "huber": lambda outputs, targets: numpy.mean(numpy.where(abs(outputs - targets) < 1, (outputs - targets) ** 2 / 2,
                                                             abs(outputs - targets) - 0.5)),
    "binary_cross_entropy": lambda outputs, targets: numpy.mean(numpy.logaddexp(0, outputs) - targets * outputs),
    "relative_l2": lambda outputs, targets: numpy.mean(numpy.linalg.norm(outputs - targets,
                                                                         axis=-1) / (numpy.linalg.norm(targets, axis=-1) + 1e-8)),
}


def predicted(case):
    """The loss of what `predict` writes is that of the run's last evaluation (predict.md)."""
    kind = case.get("loss.type", "cross_entropy")
    base = case.train({"loss": {"type": kind}, "run.patience": None, "run.target": None})
    if not finished(case, base):
        return
    row = last_validation(base)
    answer = case.run(base.folder, "predict", base.checkpoints()[-1], "--data", "data.h5", "--split", "validation", "--output",
                      "outputs.npy", ranks=case.chance("predict").choice((1, 1, 2)))
    if answer.status:
        raise Failure("predict", f"{answer}\n{base}")
    case.counts["predictions"] += 1
    with h5py.File(base.folder / "data.h5") as file:
        if "tokens" in file["validation"]:
            length = case.get("data.sequence_length")
            tokens = file["validation/tokens"][()]
            targets = tokens[1:1 + (len(tokens) - 1) // length * length].reshape(-1, length)
        else:
            targets = file["validation/targets"][()]
    outputs = numpy.load(base.folder / "outputs.npy").astype("f8")
    loss = LOSSES[kind](outputs, targets)
    if is_off(row["loss"], repr(float(loss)), max(1e-5, ROUNDING[case.get("precision.compute", "fp32")])):
        raise Failure("predict", f"loss {row['loss']} in the run's last evaluation, {loss:.9g} of the outputs by {answer.command}: {base}")


LARGE = 300 << 20  # bytes of the process that starts the program


def own_memory(case):
    """peak_rss_bytes is that of the program, whatever has started it (files.md#summaryjson)."""
    base = case.train()
    if not finished(case, base):
        return
    folder = case.place(case.deck)
    start = f"import os, sys; block = b'x' * {LARGE}; os.execv(sys.argv[1], sys.argv[1:])"
    run = case.run(folder, "train", "deck.yaml", around=[sys.executable, "-c", start])
    if finished(case, run):
        case.counts["memory"] += 1
        peak = run.summary()["peak_rss_bytes"]
        if peak > LARGE - (50 << 20):
            raise Failure("peak_rss_bytes",
                          f"{peak} bytes in summary.json, of a process of {LARGE} bytes that has started the program: {run}")


UNITS = {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9}


def planned_memory(case):
    """The peak memory of `check` is what training takes (testing.md: 3 % or 8 MB) for networks large enough."""
    deck = changed(case.deck, large_network(case))
    checked = case.run(case.place(deck), "check", "deck.yaml", "--ranks", 1)
    run = case.train(deck=deck, ranks=1, per_node=0)
    if not finished(case, run, checked):
        return
    case.counts["memory"] += 1
    value, unit = re.search(r"^peak memory +([\d.]+) (\w+) per rank", checked.out, re.M).groups()
    planned, used = float(value) * UNITS[unit], run.summary()["peak_rss_bytes"]
    if used > 1.03 * planned + 16e6:  # libraries' own code for products in 16 bits takes 10 MB
        raise Failure("memory", f"peak memory {planned / 1e6:.0f} MB by check, {used / 1e6:.0f} MB used: {run}")


def large_network(case):
    """Changes of a deck that give it a network of some tens of megabytes, and a checkpoint while it trains."""
    width = case.chance("large").choice((900, 1100))
    return {"data": {"synthetic": {"kind": "linear", "features": width, "train": 24, "validation": 0}, "drop_last": True},
            "model": {"layers": [{"linear": {"features": width}}, "relu", {"linear": {"features": width}}, "relu",
                                 {"linear": {"features": width}}, "relu", {"linear": {"features": 1}}]},
            "loss": {"type": "mse"}, "metrics": None, "batch": {"global": 12}, "run.steps": 4, "run.epochs": None, "run.patience": None,
            "run.target": None, "providers": {"matmul": "portable"},
            "checkpoint": {"every_steps": 2}, "optimizer.groups": None}
