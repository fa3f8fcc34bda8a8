#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares predicted steps with measured ones, on 1 and 2 ranks of a node and of emulated networks; called by perf/run predict.

Each round measures the machine (`bench machine`), and then trains the decks in turns; the results are medians over rounds.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

PERF = pathlib.Path(__file__).resolve().parent
NETWORKS = {"one node": None, "50 µs, 4 GB/s": "latency_us=50,bandwidth_gbps=4", "200 µs, 1 GB/s": "latency_us=200,bandwidth_gbps=1"}


def run(*command):
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(map(str, command))} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2, help="seconds of each batch that bench machine measures")
    parser.add_argument("--decks", nargs="+", default=["simple_cnn", "fc"])
    arguments = parser.parse_args()
    lockstep = arguments.build.resolve() / "app/lockstep"
    mpirun = ["mpirun", "-n", "2", "--bind-to", "core"]
    times = {}  # predicted and measured milliseconds of each case
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for _ in range(arguments.rounds):
            for deck in arguments.decks:
                file = PERF / f"{deck}.yaml"
                for name, network in NETWORKS.items():
                    emulated = ["--emulate-network", network] if network else []
                    run(*mpirun, lockstep, "bench", "machine", file, "--batches", "32,64,128", "--seconds", arguments.seconds,
                        "--save", "machine.yaml", "--overwrite", *emulated)
                    overlaps = ["none", "poll", "thread"] if network else ["none"]
                    for ranks, overlap in [(1, "none"), *((2, overlap) for overlap in overlaps)]:
                        if ranks == 1 and network:
                            continue
                        options = [f"parallel.overlap={overlap}", "run.output_dir=run"]
                        run(*(mpirun if ranks > 1 else []), lockstep, "train", file, *options, *(emulated if ranks > 1 else []))
                        measured = json.loads(pathlib.Path("run/summary.json").read_text())["step_ms"]["median"]
                        table = run(lockstep, "predict-scaling", file, *options, "--machine", "machine.yaml", "--ranks", ranks)
                        row = [line.split("|") for line in table.splitlines() if line.startswith("| ")][1]
                        case = (deck, name if ranks > 1 else "–", ranks, overlap if ranks > 1 else "–")
                        times.setdefault(case, []).append((float(row[4]), measured))
    print("| network | link | ranks | overlap | predicted, ms | measured, ms | predicted / measured |\n|---|---|--:|---|--:|--:|--:|")
    for (deck, network, ranks, overlap), pairs in times.items():
        predicted, measured = (statistics.median(values) for values in zip(*pairs))
        print(f"| {deck} | {network} | {ranks} | {overlap} | {predicted:.2f} | {measured:.2f} | {predicted / measured:.2f} |")


if __name__ == "__main__":
    main()
