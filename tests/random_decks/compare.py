# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares what two runs have left: their rows of metrics.csv, and their last checkpoints."""
import math

import numpy

import traits
from case import Failure, numbers
from program import TIMES

# Relative differences that rounding may make in a few steps. In 16 bits a rounded parameter may change by a bit, and all that follows with
# it.
ROUNDING = {"fp64": 1e-8, "fp32": 2e-4, "bf16": 5e-2, "fp16": 5e-2}
ROUNDED_COLUMNS = ("loss", "grad_norm", "perplexity")
# These divide by the size of what may be a rounding error (a gradient that is zero but for rounding, as that of a bias before a
# batch_norm).
NORMALIZING = {"lion": (), "lars": ("exclude_bias_and_norm",), "lamb": ("exclude_bias_and_norm", "epsilon"), "adam": ("epsilon",),
               "adamw": ("epsilon",), "rmsprop": ("epsilon",),
               "adafactor": ("epsilons",)}


def finished(case, *runs):
    """True if all runs have ended well; an oracle has nothing to compare where a situation refuses a deck, or numbers are not finite."""
    for run in runs:
        if run.status not in (0, 70, 78):
            raise Failure("status", f"ends with status {run.status}: {run}")
    return all(run.status == 0 for run in runs)


def fail(kind, a, b, what):
    raise Failure(kind, f"{what}\n  A: {a.command}   in {a.folder.name}\n  B: {b.command}   in {b.folder.name}")


def rows_of(run, first, evaluations):
    """The rows after a step, with those of evaluations or without."""
    return [row for row in run.rows() if int(row["step"]) > first and (evaluations or row["split"] == "train")]


def same_bits(case, a, b, first=0, without=(), parts=("model", "optimizer", "replicas", "outer", "compression", "workers"),
              evaluations=True):
    """All numbers of the rows after step `first` are equal, but for times, and so are all bits of the last checkpoints. Evaluations are
    sums over the examples of all
    ranks: on another number of ranks they agree to rounding alone."""
    case.counts["bits"] += 1
    left, right = rows_of(a, first, evaluations), rows_of(b, first, evaluations)
    if len(left) != len(right):
        fail("rows", a, b, f"metrics.csv: {len(left)} rows in A, {len(right)} in B")
    for row, other in zip(left, right):
        for column in row.keys() & other.keys() - {*TIMES, *without}:
            if row[column] != other[column]:
                fail(f"bits of {column}", a, b,
                     f"metrics.csv: step {row['step']} ({row['split']}): {column} {row[column]} in A, {other[column]} in B "
                     "(bits are promised)")
    mine, others = numbers(a.checkpoints()[-1]), numbers(b.checkpoints()[-1])
    for name in sorted(mine.keys() | others.keys()):
        if not name.startswith(parts):
            continue
        if name not in mine or name not in others:
            fail("datasets", a, b, f"{name} is only in the checkpoint of {'A' if name in mine else 'B'}")
        if mine[name].tobytes() != others[name].tobytes():
            off = numpy.max(numpy.abs(mine[name].astype("f8") - others[name].astype("f8")))
            fail("bits of parameters", a, b, f"{name} differs by up to {off:.3g} in the last checkpoints (bits are promised)")


def is_conditioned(case):
    """True if small differences stay small in later steps. In fp32, norms of nearly equal values enlarge rounding errors above any
    epsilon."""
    kind, precision = case.get("optimizer.type", "sgd"), case.get("precision.compute", "fp32")
    if kind == "lion" or precision not in ("fp64", "fp32"):
        return False
    if kind in NORMALIZING and precision == "fp32" and traits.has_norm(case):
        return False
    known = {"exclude_bias_and_norm": kind == "lamb"}
    return all(case.get(f"optimizer.{key}", known.get(key)) for key in NORMALIZING.get(kind, ()))


def same_to_rounding(case, a, b, first=0, loosely=1, evaluations=True, without=()):
    """Losses, gradients and parameters agree to rounding; where that grows, only those of the first step. Without the loss no rows are
    compared."""
    case.counts["rounding"] += 1
    tolerance = loosely * ROUNDING[case.get("precision.compute", "fp32")]
    left, right = rows_of(a, first, evaluations), rows_of(b, first, evaluations)
    if "loss" in without:
        left, right = (), ()
    elif not is_conditioned(case):
        left, right = [[row for row in rows if int(row["step"]) == first + 1 and row["split"] == "train"] for rows in (left, right)]
    elif [(row["step"], row["split"]) for row in left] != [(row["step"], row["split"]) for row in right]:
        fail("rows", a, b, f"metrics.csv: {len(left)} rows in A, {len(right)} in B, or of other steps")
    exact = None
    for number, (row, other) in enumerate(zip(left, right)):
        for column in (column for column in ROUNDED_COLUMNS if column not in without):
            if not is_off(row.get(column), other.get(column), tolerance):
                continue
            if int(row["step"]) > first + 1:
                exact = exact or in_fp64(case, a, b, first, evaluations, without)
            if not exact or exceeds_rounding(*(rows[number].get(column) for rows in (left, right, *exact))):
                fail(f"rounding of {column}", a, b,
                     f"metrics.csv: step {row['step']} ({row['split']}): {column} {row[column]} in A, {other[column]} in B")
    if is_conditioned(case) and not exact:
        mine, others = numbers(a.checkpoints()[-1]), numbers(b.checkpoints()[-1])
        for name in sorted(key for key in mine.keys() & others.keys() if key.startswith("model/")):
            off = numpy.max(numpy.abs(mine[name] - others[name]) / (1e-2 + numpy.max(numpy.abs(others[name]))), initial=0)
            if not off < 10 * tolerance:
                fail("rounding of parameters", a, b, f"{name} differs by {off:.3g} of its largest value in the last checkpoints")


def in_fp64(case, a, b, first, evaluations, without):
    """The rows of both runs in fp64, where they agree; None if they are no fp32 runs from the start to the end, or have
    other steps."""
    if case.get("precision.compute", "fp32") != "fp32":
        return None
    exact = [case.again(run, {"precision.compute": "fp64"}) for run in (a, b)]
    if None in exact or not finished(case, *exact):
        return None
    case.counts["ill-conditioned"] += 1
    left, right = (rows_of(run, first, evaluations) for run in exact)
    steps = [[(row["step"], row["split"]) for row in rows] for rows in (left, right, rows_of(a, first, evaluations))]
    if steps[0] != steps[1] or steps[0] != steps[2]:
        return None
    for row, other in zip(left, right):
        for column in (column for column in ROUNDED_COLUMNS if column not in without):
            if is_off(row.get(column), other.get(column), 100 * ROUNDING["fp64"]):
                fail(f"fp64 of {column}", *exact, f"metrics.csv: step {row['step']}: {column} {row[column]} in A, {other[column]} in B, in fp64")
    return left, right


def exceeds_rounding(a, b, exact_a, exact_b):
    """True if two numbers in fp32 differ by more than what rounding does to them, by their distances from the same numbers in fp64."""
    if not (a and b and exact_a and exact_b):
        return True
    a, b, exact_a, exact_b = map(float, (a, b, exact_a, exact_b))
    return not abs(a - b) <= 10 * (abs(a - exact_a) + abs(b - exact_b))


def is_off(a, b, tolerance):
    """True if two numbers of metrics.csv are not equal to rounding. Texts of both are empty, or neither."""
    if not a or not b:
        return bool(a) != bool(b)
    a, b = float(a), float(b)
    if not (math.isfinite(a) and math.isfinite(b)):
        return math.isnan(a) != math.isnan(b)
    return abs(a - b) > tolerance * max(abs(a), abs(b), 1e-3)
