#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The memory that parallel.offload saves, and the time that it costs; called by perf/run offload.

Memory: the sum of the ranks' proportional set sizes while they train, with and without offloading, beside the formulas. AdamW's states save 8 bytes a parameter, less three
blocks a rank; offloaded parameters save 4 more, less the buffers that each rank fetches units through and, on one rank, less the windows that it then needs. Time: steps with
and without offloading in turns, medians over rounds, beside the time that the disk takes to read and write the states (and the parameters, which each pass reads once more), at the
rate that as many processes as ranks reach together between the rounds: they read and write blocks in turns, past the page cache, in files as large as a rank's states. With
clip_norm, an update waits for the end of the backward pass.
"""
import argparse
import json
import mmap
import multiprocessing
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

LAYERS, WIDTH, INPUTS = 11, 2048, 64
BLOCK = 16 * 10**6
FILE_BLOCK = BLOCK // 4096 * 4096
FETCHED_THROUGH = 2 << 20  # BlockFile::copied_bytes


def deck(steps):
    return {"run": {"steps": steps, "output_dir": "run", "log_every": 1, "overwrite": True, "resume": "never"},
            "data": {"synthetic": {"kind": "random", "shape": [INPUTS], "classes": 10, "train": 8192, "validation": 0}},
            "model": {"layers": [{"linear": {"features": WIDTH}}, "relu"] * LAYERS + [{"linear": {"features": 10}}]},
            "optimizer": {"type": "adamw"}, "checkpoint": {"every_epochs": 0}}


NOTHING, STATE, BOTH = (), ("optimizer",), ("optimizer", "parameters")
WINDOWS = 2 * 4 * (WIDTH * (WIDTH + 1) + (INPUTS + 1) * WIDTH)  # a unit is a layer; the largest unit also has the first layer


def command(lockstep, ranks, shard, elsewhere, *options):
    offload = [f"parallel.offload.{key}=." for key in elsewhere]
    launcher = ["mpirun", "--oversubscribe", "-n", str(ranks), "--bind-to", "core"] if ranks > 1 else []
    return [*launcher, str(lockstep), "train", "deck.yaml", f"parallel.shard={shard}", *offload, *options]


def memory_of(lockstep, ranks, shard, elsewhere, *options):
    run = subprocess.Popen(command(lockstep, ranks, shard, elsewhere, "run.steps=100000", "batch.global=4", *options), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    count, found = None, []
    try:
        for line in run.stdout:
            if line.startswith("run: "):
                count = int(re.search(r"run: (\d+) parameters", line)[1])
            if line.startswith("step "):
                found.append(proportional_bytes(lockstep))
            if len(found) == 6:
                break
    finally:
        run.terminate()
        run.communicate()
    return count, statistics.median(found[2:])


def pass_blocks(file_bytes, start, seconds):
    """Reads and writes the blocks of a file in turns; puts the seconds that this took into the queue `seconds`."""
    blocks = max(3, file_bytes // FILE_BLOCK)
    name = f"rate-{os.getpid()}"
    file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600)
    os.unlink(name)
    whole = mmap.mmap(-1, 3 * FILE_BLOCK + (2 << 20), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    whole.madvise(mmap.MADV_HUGEPAGE)
    whole.write(os.urandom(3 * FILE_BLOCK))
    memory = [memoryview(whole)[i * FILE_BLOCK:(i + 1) * FILE_BLOCK] for i in range(3)]
    for block in range(blocks):
        os.pwrite(file, memory[0], block * FILE_BLOCK)
    start.wait()
    begun = time.monotonic()
    for block in range(blocks):
        os.preadv(file, [memory[block % 3]], block * FILE_BLOCK)
        os.pwrite(file, memory[(block + 1) % 3], (block - 2) % blocks * FILE_BLOCK)
    seconds.put((time.monotonic() - begun) / (2 * blocks * FILE_BLOCK))


def disk_rate(ranks, file_bytes):
    """Bytes a second of each of `ranks` processes at once."""
    start, seconds = multiprocessing.Barrier(ranks), multiprocessing.Queue()
    processes = [multiprocessing.Process(target=pass_blocks, args=(file_bytes, start, seconds)) for _ in range(ranks)]
    for process in processes:
        process.start()
    slowest = max(seconds.get() for _ in processes)
    for process in processes:
        process.join()
    return 1 / slowest


def step_ms(*arguments):
    done = subprocess.run(command(*arguments), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"error: {done.stdout}{done.stderr}")
    return json.loads(pathlib.Path("run/summary.json").read_text())["step_ms"]["median"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--folder", help="folder on the disk to measure (default: the folder for temporary files)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batches", default="4,32,64,128,512,2048", help="examples per step and rank")
    arguments = parser.parse_args()
    lockstep = arguments.build.resolve() / "app/lockstep"
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        os.chdir(folder)
        pathlib.Path("deck.yaml").write_text(json.dumps(deck(arguments.steps)))
        print("| ranks | shard | in memory, MB | offloaded, MB | less by | by the formula | ratio |\n|--:|---|--:|--:|--:|--:|--:|")
        for ranks, shard in ((1, "none"), (2, "none"), (2, "optimizer"), (2, "parameters")):
            (count, inside), (_, outside) = (memory_of(lockstep, ranks, shard, elsewhere) for elsewhere in (NOTHING, STATE))
            expected = 8 * count * (ranks if shard == "none" else 1) - 3 * BLOCK * ranks
            print(f"| {ranks} | {shard} | {inside / 1e6:.0f} | {outside / 1e6:.0f} | {(inside - outside) / 1e6:.1f} | {expected / 1e6:.1f} | {(inside - outside) / expected:.3f} |",
                  flush=True)
        print("\n| ranks | shard, one copy a rank | state offloaded, MB | parameters, too, MB | less by | by the formula | ratio |\n|--:|---|--:|--:|--:|--:|--:|")
        for ranks, shard in ((1, "none"), (2, "parameters")):
            alone = "parallel.share_parameters=false"
            (count, states), (_, both) = (memory_of(lockstep, ranks, *how, alone) for how in ((shard, STATE), ("parameters", BOTH)))
            expected = 4 * count - ranks * FETCHED_THROUGH - (WINDOWS if ranks == 1 else 0)
            print(f"| {ranks} | {shard} | {states / 1e6:.0f} | {both / 1e6:.0f} | {(states - both) / 1e6:.1f} | {expected / 1e6:.1f} | {(states - both) / expected:.3f} |", flush=True)
        print("\n| ranks, shard | offloaded | clip_norm | batch a rank | in memory, ms | offloaded, ms | disk, MB/s a rank | disk, ms | larger of the two | offloaded / that | offloaded / sum |\n"
              "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
        for ranks, shard, elsewhere, clip in ((1, "none", STATE, 0), (1, "none", STATE, 1), (2, "optimizer", STATE, 0), (2, "optimizer", STATE, 1),
                                              (1, "parameters", BOTH, 0), (2, "parameters", BOTH, 0)):
            bytes_of_disk, bytes_moved = (8, 16) if elsewhere == STATE else (12, 32)
            for batch in map(int, arguments.batches.split(",")):
                steps = f"run.steps={arguments.steps if batch <= 512 else max(4, arguments.steps // 2)}"
                rows = []
                for _ in range(arguments.rounds):
                    rate = disk_rate(ranks, bytes_of_disk * count // ranks)
                    inside, outside = (step_ms(lockstep, ranks, shard, where, steps, f"batch.global={batch * ranks}", f"optimizer.clip_norm={clip}", "run.log_every=1000") for where in (NOTHING, elsewhere))
                    rows.append((inside, outside, rate / 1e6, 1e3 * bytes_moved * count / ranks / rate))
                inside, outside, rate, disk = (statistics.median(column) for column in zip(*rows))
                larger = max(inside, disk)
                print(f"| {ranks}, {shard} | {elsewhere[-1]} | {clip} | {batch} | {inside:.0f} | {outside:.0f} | {rate:.0f} | {disk:.0f} | {larger:.0f} | {outside / larger:.2f} | {outside / (inside + disk):.2f} |",
                      flush=True)


if __name__ == "__main__":
    main()
