#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The time that synchronizations of parallel.local cost, all at once and streamed beside steps; called by perf/run streaming.

Two ranks that share no memory, each on a core, over an emulated network, train a transformer whose parameters synchronize every 20 steps: all at
once; in four fragments, each of which stops the ranks; and in four fragments whose sums go on beside four steps (parallel.local.{fragments, delay}).
For comparison, ranks that synchronize only at the end show how much could be hidden. In turns, medians over rounds.
"""
import argparse
import json
import os
import pathlib
import statistics
import tempfile

from compression import summary_of

EVERY = 20
SYNCHRONIZATIONS = {"all at once": f"every: {EVERY}", "4 fragments": f"every: {EVERY}, fragments: 4", "4 fragments, delay 4": f"every: {EVERY}, fragments: 4, delay: 4",
            "at the end alone": "every: 1000000"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--network", default="latency_us=50,bandwidth_gbps=0.125")
    arguments = parser.parse_args()
    lockstep = arguments.build.resolve() / "app/lockstep"
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        deck = pathlib.Path("deck.yaml")
        deck.write_text(json.dumps({
            "run": {"steps": 8 * EVERY, "log_every": 1000000},
            "data": {"synthetic": {"kind": "random", "vocabulary": 4096, "sequence_length": 64, "train": 64, "validation": 0}},
            "model": {"preset": "transformer", "vocabulary": 4096, "sequence": 64, "d_model": 384, "depth": 6, "heads": 6},
            "optimizer": {"type": "adamw", "learning_rate": 0.001}, "batch": {"global": 8}}))
        rows = {name: [] for name in SYNCHRONIZATIONS}
        for _ in range(arguments.rounds):
            for name, local in SYNCHRONIZATIONS.items():
                summary = summary_of(lockstep, 2, arguments.network, deck, f"parallel.local={{{local}, outer: nesterov}}")
                rows[name].append((summary["sent_bytes_per_step"], summary["phases_ms"]["reduce_exposed"], summary["examples_per_s"]))
        print("| the parameters are synchronized | bytes a step, all ranks | exposed, ms a step | examples/s | of those that do not synchronize |\n|---|--:|--:|--:|--:|")
        medians = {name: [statistics.median(column) for column in zip(*of)] for name, of in rows.items()}
        for name, (sent, waits, speed) in medians.items():
            print(f"| {name} | {sent:,.0f} | {waits:.2f} | {speed:.1f} | {speed / medians['at the end alone'][2]:.3f} |")


if __name__ == "__main__":
    main()
