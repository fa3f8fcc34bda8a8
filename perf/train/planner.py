#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the planner's memory and times of steps with measured ones; called by perf/run planner.

Memory: the proportional set sizes of 2 ranks while they train, without files and less those of a narrower network, beside the difference of
the memory of their steps that `check` prints. Time: steps with each parallel.shard on one node and on emulated networks, in turns, medians over rounds, beside `predict-scaling` with a
machine file measured there.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import shards

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from proportional import proportional_bytes

TRANSFORMER = {"data": {"synthetic": {"kind": "random", "vocabulary": 4096, "sequence_length": 64, "train": 64}},
               "model": {"preset": "transformer", "vocabulary": 4096, "sequence": 64, "d_model": 384, "depth": 6, "heads": 6}}


def layers(width):
    return {"data": {"synthetic": {"kind": "random", "shape": [64], "classes": 10, "train": 64}}, "model": {"layers": [{"linear": width}, "relu"] * 9 + [{"linear": 10}]}}


def transformer(width):
    return {**TRANSFORMER, "model": {**TRANSFORMER["model"], "d_model": width}}


def lstm(width):
    return {"data": TRANSFORMER["data"], "model": {"preset": "lstm", "vocabulary": 4096, "sequence": 64, "embedding": width, "units": width}}


def convolutions(width):
    return {"data": {"synthetic": {"kind": "random", "shape": [16, 16, 3], "classes": 10, "train": 64}},
            "model": {"layers": [*[{"conv2d": {"filters": width, "kernel": 3, "padding": "same"}}, "relu"] * 5, "global_avg_pool", {"linear": 10}]}}


NETWORKS_BY_WIDTH = {layers: (520, 1200), transformer: (126, 384), lstm: (256, 768), convolutions: (96, 320)}  # a narrow network, whose memory is subtracted, and a wide one
SETTINGS = ("parallel.unit_mb=4", "parallel.unit_mb=4 parallel.share_parameters=false parallel.bucket_mb=4", "parallel.unit_mb=4 model.activation_checkpointing=blocks batch.micro=4")
TIMED = ((transformer, 384, 8), (layers, 1200, 64))  # with their widths and batches
MPIRUN = ["mpirun", "-n", "2", "--bind-to", "core"]
NETWORKS = {"one node": None, "20 µs, 1.25 GB/s": "latency_us=20,bandwidth_gbps=1.25", "50 µs, 0.5 GB/s": "latency_us=50,bandwidth_gbps=0.5",
            "10 µs, 5 GB/s": "latency_us=10,bandwidth_gbps=5", "200 µs, 1 GB/s": "latency_us=200,bandwidth_gbps=1"}


def run(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(map(str, command))} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def deck_of(parts):
    return {"run": {"steps": 1000000, "output_dir": "run", "log_every": 1, "overwrite": True, "resume": "never", "wall_time": "5 min"}, "optimizer": {"type": "adamw", "learning_rate": 1e-4},
            "batch": {"global": 16}, "checkpoint": {"every_epochs": 0}, "providers": {"matmul": "portable", "convolution": "portable"}, **parts}


def planned_bytes(lockstep, options):
    value, unit = re.search(r"memory of a step +([0-9.]+) (\w+) per rank", run(lockstep, "check", "deck.yaml", "--ranks", 2, "--nodes", 1, *options)).groups()
    return float(value) * {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9}[unit]


def used_bytes(lockstep, options):
    """Bytes of a rank while it trains, without files: these are code, which other programs' processes share."""
    training = subprocess.Popen(["mpirun", "--oversubscribe", "-n", "2", str(lockstep), "train", "deck.yaml", *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    found = []
    try:
        for line in training.stdout:
            if line.startswith("step "):
                found.append(proportional_bytes(lockstep, ("_Anon", "_Shmem")) / 2)
            if len(found) == 6:
                break
    finally:
        training.terminate()
        training.communicate()
    return statistics.median(found[2:])


def print_memory(lockstep):
    print("| network | shard | keys | planned, MB | used, MB | off, and of all that is planned |\n|---|---|---|--:|--:|--:|")
    within, cases = 0, 0
    for network, widths in NETWORKS_BY_WIDTH.items():
        for settings in SETTINGS:
            for shard in shards.SHARDS:
                if shard == "none" and "share_parameters" in settings:
                    continue
                options, planned, used = [f"parallel.shard={shard}", *settings.split()], [], []
                for width in widths:
                    pathlib.Path("deck.yaml").write_text(json.dumps(deck_of(network(width))))
                    planned.append(planned_bytes(lockstep, options))
                    used.append(used_bytes(lockstep, options))
                more, off = planned[1] - planned[0], used[1] - used[0] - planned[1] + planned[0]
                within, cases = within + (abs(off) <= max(0.03 * planned[1], 8e6)), cases + 1
                print(f"| {network.__name__} | {shard} | `{settings}` | {1e-6 * more:.1f} | {1e-6 * (more + off):.1f} | {1e-6 * off:+.1f} MB, {100 * off / planned[1]:+.1f} % |", flush=True)
    print(f"\n{within} of {cases} within 3 % or 8 MB.\n")


def taken_by_auto(lockstep, emulated):
    """The way that `parallel.shard: auto` takes without a memory limit."""
    said = run(*MPIRUN, lockstep, "train", "deck.yaml", "run.steps=1", "parallel.shard=auto", *emulated)
    return re.search(r"auto chooses (\w+)", said).group(1)


def print_times(lockstep, rounds, steps):
    print("| network | between ranks | micro-batches | shard | predicted, ms | measured, ms | predicted / measured | slower than the fastest by |\n|---|---|--:|---|--:|--:|--:|--:|")
    ratios, lost = [], {"the prediction": [], "`auto`": []}  # times of the choices, relative to the fastest way
    for network, width, batch in TIMED:
        deck = deck_of({**network(width), "batch": {"global": batch}, "run": {"steps": steps, "output_dir": "run", "log_every": 1000000, "overwrite": True, "resume": "never"}})
        del deck["providers"]
        pathlib.Path("deck.yaml").write_text(json.dumps(deck))
        for name, wire in NETWORKS.items():
            emulated = ["--emulate-network", wire] if wire else []
            run(*MPIRUN, lockstep, "bench", "machine", "deck.yaml", "--batches", f"{batch // 4},{batch // 2}", "--seconds", 1, "--save", "machine.yaml", "--overwrite", *emulated)
            auto = taken_by_auto(lockstep, emulated)
            for micro_batches in (1, 2):
                measured, predicted = {shard: [] for shard in shards.SHARDS}, {}
                for _ in range(rounds):
                    for shard in shards.SHARDS:
                        options = [f"parallel.shard={shard}", "parallel.unit_mb=8", f"batch.micro={batch // 2 // micro_batches}"]
                        run(*MPIRUN, lockstep, "train", "deck.yaml", *options, *emulated)
                        measured[shard].append(json.loads(pathlib.Path("run/summary.json").read_text())["step_ms"]["median"])
                        if shard not in predicted:
                            table = run(lockstep, "predict-scaling", "deck.yaml", *options, "--machine", "machine.yaml", "--ranks", 2)
                            predicted[shard] = float([line.split("|") for line in table.splitlines() if line.startswith("| ")][1][4])
                measured = {shard: statistics.median(times) for shard, times in measured.items()}
                best, foretold = min(measured.values()), min(predicted, key=predicted.get)
                for shard, of in measured.items():
                    ratios.append(predicted[shard] / of)
                    taken = ", predicted to be it" if shard == foretold else ""
                    print(f"| {network.__name__} | {name} | {micro_batches} | {shard} | {predicted[shard]:.1f} | {of:.1f} | {ratios[-1]:.2f} | {100 * (of / best - 1):.1f} %{taken} |", flush=True)
                for who, shard in (("the prediction", foretold), ("`auto`", auto)):
                    lost[who].append(measured[shard] / best)
    print(f"\n{sum(abs(ratio - 1) <= 0.15 for ratio in ratios)} of {len(ratios)} predictions within 15 %. Within 5 % of the fastest: " +
          ", ".join(f"what {who} takes in {sum(ratio <= 1.05 for ratio in of)} of {len(of)} cases" for who, of in lost.items()) + ".")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=3, help="rounds of timing (0: none)")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--no-memory", action="store_true")
    arguments = parser.parse_args()
    lockstep = arguments.build.resolve() / "app/lockstep"
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        if not arguments.no_memory:
            print_memory(lockstep)
        if arguments.rounds > 0:
            print_times(lockstep, arguments.rounds, arguments.steps)


if __name__ == "__main__":
    main()
