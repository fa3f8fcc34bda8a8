#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes pruners.json and halton.json: decisions of Optuna's pruners, and SciPy's Halton points. Needs optuna and scipy:
    python3 tests/golden/make_study_golden.py"""
import json
import math
import pathlib

import optuna
from scipy.stats import qmc

HERE = pathlib.Path(__file__).parent
TRIALS, REPORTS = 20, 10  # 200 reports a case, without those after a decision to end


def value(trial, step, case):
    """A curve that falls towards a floor of its own, with ripples, and without random numbers of a library."""
    floor = math.modf(math.sin(12.9898 * (trial + 1) + 78.233 * case) * 43758.5453)[0] % 1
    ripple = math.sin(37.0 * trial + 11.0 * step + case)
    return round(floor + 2.0 / (1 + step) + 0.2 * ripple, 6)


def decisions(pruner, direction, case):
    """Trials one after the other, as in a study with one slot. Each ends at its last report."""
    study = optuna.create_study(direction=direction, pruner=pruner)
    trials = []
    for number in range(TRIALS):
        trial = study.ask()
        reports, pruned = [], False
        for report in range(1, REPORTS + 1):
            step = report * case["interval"]
            sign = 1 if direction == "minimize" else -1
            reports.append([step, sign * value(number, step, case["number"])])
            trial.report(reports[-1][1], step)
            if trial.should_prune():
                pruned = True
                break
        study.tell(trial, None if pruned else reports[-1][1],
                   optuna.trial.TrialState.PRUNED if pruned else optuna.trial.TrialState.COMPLETE)
        trials.append({"reports": reports, "pruned": pruned})
    return trials


def asha_cases():
    for number, (direction, interval, resource, factor, rate) in enumerate([
            ("minimize", 1, 1, 4, 0), ("maximize", 1, 1, 2, 0), ("minimize", 3, 2, 3, 0), ("maximize", 2, 1, 2, 1),
            ("minimize", 10, 7, 2, 0)]):
        case = {"number": number, "interval": interval}
        pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=resource, reduction_factor=factor,
                                                        min_early_stopping_rate=rate)
        yield {"direction": direction, "min_resource": resource, "reduction_factor": factor,
               "min_early_stopping_rate": rate, "trials": decisions(pruner, direction, case)}


def median_cases():
    for number, (direction, interval, startup, warmup) in enumerate([
            ("minimize", 1, 5, 0), ("maximize", 1, 5, 0), ("minimize", 5, 2, 12), ("maximize", 3, 0, 4)]):
        case = {"number": 10 + number, "interval": interval}
        pruner = optuna.pruners.MedianPruner(n_startup_trials=startup, n_warmup_steps=warmup)
        yield {"direction": direction, "startup_trials": startup, "warmup_steps": warmup,
               "trials": decisions(pruner, direction, case)}


def main():
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    pruners = {"asha": list(asha_cases()), "median": list(median_cases())}
    (HERE / "pruners.json").write_text(json.dumps(pruners) + "\n")
    points = qmc.Halton(d=6, scramble=False).random(200)
    (HERE / "halton.json").write_text(json.dumps({"first": 0, "points": points.tolist()}) + "\n")
    for kind, cases in pruners.items():
        for case in cases:
            print(kind, case["direction"], sum(len(t["reports"]) for t in case["trials"]), "reports,",
                  sum(t["pruned"] for t in case["trials"]), "pruned")


main()
