#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The memory that sharding optimizer states, gradients and parameters saves, and the time that it costs; called by perf/run shards.

Memory: the sum of the proportional set sizes of 4 ranks while they train, on one node and on two emulated ones; a shared page counts
once. That of a narrower network is subtracted, which leaves the model's state, in bytes a parameter. Time: steps of a transformer on 2 ranks of a node and of emulated networks, with all stages in turns; medians over rounds.
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
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from proportional import proportional_bytes

SHARDS = ("none", "optimizer", "gradients", "parameters")
LAYERS = 8  # large layers of the network whose memory is measured; each is a unit
INPUTS = 64
WIDTHS = (520, 1400)
NETWORKS = {"one node": None, "20 µs, 1.25 GB/s": "latency_us=20,bandwidth_gbps=1.25"}


def command(lockstep, ranks, binding, deck, shard, network, *options):
    emulated = ["--emulate-network", network] if network else []
    return ["mpirun", "--oversubscribe", "-n", str(ranks), "--bind-to", binding, str(lockstep), "train", str(deck), f"parallel.shard={shard}", *options, *emulated]


def parameters_of(out):
    return int(re.search(r"run: (\d+) parameters", out)[1])


def largest_unit(features):
    """Parameters of the largest unit: a large layer with the first layer, which is small."""
    return features * (features + 1) + (INPUTS + 1) * features


def formula(shard, nodes, shares, unit):
    """Bytes of four ranks for each parameter; `unit`: the largest unit's share of all parameters."""
    copies, window = nodes if shares else 4, 4 * unit
    if shard == "none":
        return 64
    if shard == "optimizer":
        return 4 * copies + 16 + 8
    gradients = 4 + 4 * 2 * window  # owned gradients, and two windows on each rank
    if shard == "gradients" or (shares and nodes == 1):
        return 4 * copies + gradients + 8
    return 4 + copies * 2 * window + gradients + 8


def memory_of(lockstep, features, shard, network, shares):
    deck = {"run": {"steps": 1000000, "output_dir": "run", "log_every": 1, "overwrite": True, "resume": "never", "wall_time": "5 min"},
            "data": {"synthetic": {"kind": "random", "shape": [INPUTS], "classes": 10, "train": 64}},
            "model": {"layers": [{"linear": {"features": features}}, "relu"] * (LAYERS + 1) + [{"linear": {"features": 10}}]},
            "optimizer": {"type": "adamw"}, "batch": {"global": 4}, "checkpoint": {"every_epochs": 0},
            "providers": {"matmul": "portable"}}  # libraries may keep copies of weights in other layouts
    pathlib.Path("memory.yaml").write_text(json.dumps(deck))
    run = subprocess.Popen(command(lockstep, 4, "none", "memory.yaml", shard, network, f"parallel.share_parameters={str(shares).lower()}", "parallel.unit_mb=0.1"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    count, found = None, []
    try:
        for line in run.stdout:
            if line.startswith("run: "):
                count = parameters_of(line)
            if line.startswith("step "):
                found.append(proportional_bytes(lockstep))
            if len(found) == 6:
                break
    finally:
        run.terminate()
        run.communicate()
    return count, statistics.median(found[2:])


def summary_of(lockstep, deck, shard, network, *options):
    done = subprocess.run(command(lockstep, 2, "core", deck, shard, network, "run.output_dir=run", "parallel.unit_mb=8", *options), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"error: {done.stdout}{done.stderr}")
    return json.loads(pathlib.Path("run/summary.json").read_text())


def step_ms(lockstep, deck, shard, network):
    return summary_of(lockstep, deck, shard, network)["step_ms"]["median"]


def print_hidden(lockstep, deck, rounds):
    """Prints how much of the gathers of sharded parameters is hidden: without prefetch a pass waits for each gather from beginning to end; the time that prefetch saves of that is hidden."""
    print("\n| 2 ranks, shard: parameters | gathers, ms a step | waits without prefetch, ms a step | waits, ms a step | gathers hidden |\n|---|--:|--:|--:|--:|")
    for name, network in NETWORKS.items():
        if not network:
            continue
        gigabytes_per_s = float(re.search(r"bandwidth_gbps=([0-9.]+)", network)[1])
        rows = []
        for _ in range(rounds):
            bare, ahead = (summary_of(lockstep, deck, "parameters", network, *options) for options in (["parallel.prefetch=0"], []))
            sums = 2 * ahead["parameters"]  # the bytes of sums that a rank sends
            gathers = 1e-6 * (ahead["sent_bytes_per_step"] / 2 - sums) / gigabytes_per_s
            waits = [summary["phases_ms"]["reduce_exposed"] for summary in (bare, ahead)]
            rows.append((gathers, *waits, (waits[0] - waits[1]) / gathers))
        gathers, bare, ahead, hidden = (statistics.median(column) for column in zip(*rows))
        print(f"| {name} | {gathers:.1f} | {bare:.1f} | {ahead:.1f} | {hidden:.0%} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=30)
    arguments = parser.parse_args()
    lockstep = arguments.build.resolve() / "app/lockstep"
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        print("| 4 ranks, AdamW, fp32 | shard | bytes a parameter | by the formula |\n|---|---|--:|--:|")
        two = "latency_us=1,ranks_per_node=2"
        for name, network, nodes, shares in (("one node", None, 1, True), ("two nodes", two, 2, True), ("no memory shared", None, 1, False)):
            for shard in SHARDS:
                if shard == "none" and not shares:
                    continue
                (few, least), (many, most) = (memory_of(lockstep, features, shard, network, shares) for features in WIDTHS)
                unit = (largest_unit(WIDTHS[1]) - largest_unit(WIDTHS[0])) / (many - few)
                print(f"| {name} | {shard} | {(most - least) / (many - few):.2f} | {formula(shard, nodes, shares, unit):.2f} |", flush=True)
        deck = pathlib.Path("transformer.yaml")
        deck.write_text(json.dumps({
            "run": {"steps": arguments.steps, "log_every": 1000000, "resume": "never", "overwrite": True},
            "data": {"synthetic": {"kind": "random", "vocabulary": 4096, "sequence_length": 64, "train": 64, "validation": 0}},
            "model": {"preset": "transformer", "vocabulary": 4096, "sequence": 64, "d_model": 384, "depth": 6, "heads": 6},
            "optimizer": {"type": "adamw", "learning_rate": 0.001}, "batch": {"global": 8}, "checkpoint": {"every_epochs": 0}}))
        times = {}
        for _ in range(arguments.rounds):
            for name, network in NETWORKS.items():
                for shard in SHARDS:
                    times.setdefault((name, shard), []).append(step_ms(lockstep, deck, shard, network))
        if not times:
            return
        print("\n| 2 ranks | " + " | ".join(f"{shard}, ms" for shard in SHARDS) + " | " + " | ".join(f"{shard} / none" for shard in SHARDS[1:]) + " |")
        print("|---|" + "--:|" * (2 * len(SHARDS) - 1))
        for name in NETWORKS:
            of = {shard: statistics.median(times[name, shard]) for shard in SHARDS}
            print(f"| {name} | " + " | ".join(f"{of[shard]:.1f}" for shard in SHARDS) + " | " + " | ".join(f"{of[shard] / of['none']:.3f}" for shard in SHARDS[1:]) + " |")
        print_hidden(lockstep, deck, arguments.rounds)


if __name__ == "__main__":
    main()
