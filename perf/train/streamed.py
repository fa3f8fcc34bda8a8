#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The additional memory of rank 0 while it writes and reads a checkpoint of a run with sharded optimizer states; called by perf/run
streamed.

The largest VmRSS of rank 0, read every 10 ms, is taken in the steps before the first checkpoint (its own part, with the copy that is kept for checkpoints), and
from there to the end (with a checkpoint in the background, and one at the end). For reading: VmHWM of a run that resumes, beside that of one that begins anew.
`--before PROGRAM`: also measures another build.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time


def deck(features):
    return {"run": {"steps": 4, "log_every": 1, "resume": "never", "overwrite": True},
            "data": {"synthetic": {"kind": "random", "shape": [256], "classes": 10, "train": 64}},
            "model": {"layers": [{"linear": {"features": features}}, "relu", {"linear": {"features": features}}, "relu", {"linear": {"features": 10}}]},
            "optimizer": {"type": "adamw"}, "batch": {"global": 4}, "parallel": {"shard": "optimizer"},
            "checkpoint": {"every_steps": 2, "every_epochs": 0, "keep": 1}, "providers": {"matmul": "portable"}}


def rank_zero(program):
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "exe") == str(program) and b"\0OMPI_COMM_WORLD_RANK=0\0" in b"\0" + (process / "environ").read_bytes():
                return process
        except OSError:
            pass
    return None


def megabytes(process, key):
    return int(re.search(rf"^{key}:\s+(\d+)", (process / "status").read_text(), re.M)[1]) * 1024 / 1e6


def watch(program, folder, ranks, *options):
    """The largest VmRSS of rank 0 before the first checkpoint and in all, and VmHWM at the end, in MB."""
    run = subprocess.Popen(["mpirun", "--oversubscribe", "-n", str(ranks), "--bind-to", "none", str(program), "train", "deck.yaml", *options],
                           cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    process, before, peak, high = None, 0, 0, 0
    while run.poll() is None:
        process = process or rank_zero(program)
        try:
            if process:
                now = megabytes(process, "VmRSS")
                high = megabytes(process, "VmHWM")
                peak = max(peak, now)
                if not any((folder / "run/checkpoints").glob("step-*")):
                    before = max(before, now)
        except (OSError, TypeError):
            pass  # the process has ended
        time.sleep(0.01)
    out = run.stdout.read()
    if run.returncode != 0:
        sys.exit(f"error: {out}")
    return before, peak, high


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--before", type=pathlib.Path)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--features", type=int, default=12800, help="12800: a checkpoint of 2 GB")
    arguments = parser.parse_args()
    print("| program | checkpoint, MB | rank 0, in steps | while it writes | above | begins anew, at most | goes on, at most | above |\n"
          "|---|--:|--:|--:|--:|--:|--:|--:|")
    programs = {"blocks": arguments.build.resolve() / "app/lockstep"} | ({"before": arguments.before.resolve()} if arguments.before else {})
    for name, program in programs.items():
        with tempfile.TemporaryDirectory() as path:
            folder = pathlib.Path(path)
            (folder / "deck.yaml").write_text(json.dumps(deck(arguments.features)))
            before, peak, _ = watch(program, folder, arguments.ranks, "run.output_dir=run")
            size = (folder / "run/checkpoints/latest").stat().st_size / 1e6
            *_, anew = watch(program, folder, arguments.ranks, "run.output_dir=anew", "run.steps=2", "checkpoint.every_steps=0")
            *_, on = watch(program, folder, arguments.ranks, "run.output_dir=on", "run.resume=run/checkpoints/latest", "run.steps=6", "checkpoint.every_steps=0")
            print(f"| {name} | {size:.0f} | {before:.0f} | {peak:.0f} | {peak - before:.0f} | {anew:.0f} | {on:.0f} | {on - anew:.0f} |", flush=True)


if __name__ == "__main__":
    main()
