#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures whole training steps with the lockstep program; called by perf/run.

step     share of one core's FMA peak that a step reaches (peak and step measured in turns)
scaling  throughput of 2 ranks, relative to that of 1 at the same batch a rank and to what is possible (in turns)
audit    cost of comparing the ranks' parameters every 100 steps (2 ranks; runs with and without it in turns)
checkpoint  how long a step waits for a checkpoint in the background, and for one in the foreground; the cost of both (in turns)
overlap  how much of the sums over an emulated network the backward pass hides, for each overlap (in turns)
threads  throughput of 2 OpenMP threads, relative to that of 1 at the same batch and to what is possible (in turns)
startup  seconds from the start of the program to the end of its first step
against  steps of this build and of another one (in turns): --other FOLDER, such as build/compare/build/serial, which
scripts/compare_numbers leaves
"""
import argparse
import concurrent.futures
import csv
import json
import os
import pathlib
import platform
import statistics
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROUNDS = 5


def machine():
    for line in open("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return platform.processor()


def train(program, deck, ranks, folder, overrides=(), threads=None):
    """Runs a deck and returns its summary."""
    output = pathlib.Path(folder) / "run"
    command = [str(program), "train", str(deck), f"run.output_dir={output}", *overrides]
    if ranks > 1:
        command = ["mpirun", "-n", str(ranks), "--bind-to", "core", *command]
    openmp = {"OMP_NUM_THREADS": str(threads), "OMP_PROC_BIND": "spread" if threads > 1 else "false"} if threads else {}
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=dict(os.environ, **openmp))
    return json.loads((output / "summary.json").read_text())


def step(build, folder):
    print("| network, batch 128, fp32 | examples/s | GFLOP/s | FMA peak of the core | share of it |\n|---|--:|--:|--:|--:|")
    for network in ("simple_cnn", "fc"):
        rows = []
        for _ in range(ROUNDS):
            peak = float(subprocess.run([build / "app/lockstep", "bench", "peak"], check=True, capture_output=True, text=True).stdout.split()[1])
            summary = train(build / "app/lockstep", HERE / f"{network}.yaml", 1, folder)
            seconds = summary["step_ms"]["median"] / 1e3
            gflops = summary["flops_per_step"] / seconds / 1e9
            rows.append((128 / seconds, gflops, peak, gflops / peak))
        rate, gflops, peak, share = (statistics.median(column) for column in zip(*rows))
        spread = f"{min(r[3] for r in rows):.0%} to {max(r[3] for r in rows):.0%}"
        print(f"| {network} | {rate:.0f} | {gflops:.1f} | {peak:.1f} | {share:.1%} ({spread}) |", flush=True)


def step_times(folder):
    """Milliseconds of every step of a run with log_every: 1."""
    rows = csv.DictReader(open(folder / "run" / "metrics.csv"))
    return [float(row["step_ms"]) for row in rows if row["split"] == "train"]


def slower_of_two(program, deck, folder, overrides, threads=None):
    """Runs two independent programs; returns the median, in milliseconds, of the slower of their n-th steps.
    Ranks or threads that wait for each other run at the speed of the slower one: if neighbours disturb the
    cores, even waiting at no cost does not double the speed."""
    folders = [pathlib.Path(folder) / name for name in ("a", "b")]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(lambda where: train(program, deck, 1, where, overrides, threads), folders))
    return statistics.median(max(pair) for pair in zip(*map(step_times, folders)))


def print_speedup(network, rows):
    """rows: for every round, examples/s of one and of two, their ratio, the possible ratio, and the share of it."""
    one, two, ratio, possible, share = (statistics.median(column) for column in zip(*rows))
    spread = f"{min(r[2] for r in rows):.2f} to {max(r[2] for r in rows):.2f}"
    print(f"| {network} | {one:.0f} | {two:.0f} | {ratio:.3f} ({spread}) | {possible:.3f} | {share:.1%} |", flush=True)


def scaling(build, folder):
    """`possible` is the ratio that two ranks would reach if they only waited for each other."""
    print("| network, batch a rank, fp32 | 1 rank, examples/s | 2 ranks, examples/s | ratio | possible | share of it |\n"
          "|---|--:|--:|--:|--:|--:|")
    for network, batch, steps in (("simple_cnn", 128, 20), ("fc", 128, 60), ("fc", 64, 120), ("resnet8", 128, 20), ("resnet18_cifar", 32, 6),
                                  ("transformer", 8, 10), ("lstm", 16, 8)):
        program, deck = build / "app/lockstep", HERE / f"{network}.yaml"
        every = ["run.log_every=1", f"run.steps={steps}", f"batch.global={batch}"]
        rows = []
        for _ in range(ROUNDS):
            train(program, deck, 1, folder, every)
            one = statistics.median(step_times(pathlib.Path(folder)))
            train(program, deck, 2, folder, [*every, f"batch.global={2 * batch}"])
            two = statistics.median(step_times(pathlib.Path(folder)))
            waiting = slower_of_two(program, deck, folder, every)
            rows.append((1e3 * batch / one, 2e3 * batch / two, 2 * one / two, 2 * one / waiting, waiting / two))
        print_speedup(f"{network}, {batch}", rows)


def overlap(build, folder):
    """Each rank is an emulated node; a message takes 50 µs, and travels at 1 GB/s. The time that ranks wait for each other
    without such a network is no communication."""
    print("Emulated network between 2 ranks: 50 µs, 1 GB/s; resnet18_cifar, 16 examples a rank\n\n"
          "| overlap | step, ms | waiting, ms a step | without that network | communication that is left | hidden |\n|---|--:|--:|--:|--:|--:|")
    common = ["batch.global=32", "run.steps=8", "run.log_every=1"]
    networks = ("latency_us=50,bandwidth_gbps=1", "latency_us=0")
    rows = {(way, network): [] for way in ("none", "poll", "thread") for network in networks}
    for _ in range(ROUNDS):
        for (way, network), found in rows.items():
            train(build / "app/lockstep", HERE / "resnet18_cifar.yaml", 2, folder, [*common, f"parallel.overlap={way}", "--emulate-network", network])
            steps = [row for row in csv.DictReader(open(pathlib.Path(folder) / "run" / "metrics.csv")) if row["split"] == "train"][2:]
            found += [(float(row["step_ms"]), float(row["reduce_exposed_ms"])) for row in steps]
    for way in ("none", "poll", "thread"):
        (step_ms, waiting), (_, without) = (tuple(statistics.median(column) for column in zip(*rows[way, network])) for network in networks)
        if way == "none":
            all_of_it = waiting - without
        left = waiting - without
        print(f"| {way} | {step_ms:.1f} | {waiting:.2f} | {without:.2f} | {left:.2f} | {1 - left / all_of_it:.1%} |", flush=True)


def audit(build, folder):
    """Parameters are compared in every step, so that the cost exceeds the noise; every 100 steps, it is a hundredth of that."""
    print("| network, batch a rank, fp32 | step, ms | comparison, ms | share of 100 steps |\n|---|--:|--:|--:|")
    for network, batch, steps in (("fc", 64, 200), ("resnet18_cifar", 16, 12)):
        rows = []
        for _ in range(ROUNDS):
            seconds = []
            for every in (0, 1):
                begun = time.monotonic()
                train(build / "app/lockstep", HERE / f"{network}.yaml", 2, folder,
                      [f"batch.global={2 * batch}", f"run.steps={steps}", "run.log_every=1", f"parallel.audit_every={every}"])
                seconds.append(time.monotonic() - begun)
            step_ms = statistics.median(step_times(pathlib.Path(folder)))
            rows.append((step_ms, 1e3 * (seconds[1] - seconds[0]) / steps))
        step_ms, cost = (statistics.median(column) for column in zip(*rows))
        spread = f"{min(r[1] for r in rows):.2f} to {max(r[1] for r in rows):.2f}"
        print(f"| {network}, {batch} | {step_ms:.1f} | {cost:.2f} ({spread}) | {cost / (100 * step_ms):.3%} |", flush=True)


def checkpoint(build, folder):
    """A checkpoint is written in every step, so that the cost exceeds the noise; every 100 steps, it is a hundredth of that."""
    print("| network, batch | state, MB | written in the open, ms | a step waits, ms | ratio | step, ms | cost of one, ms | share of 100 steps | "
          "restart to the first step, s |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for network, batch, steps in (("resnet50", 2, 6), ("resnet18_cifar", 16, 12)):
        rows = []
        for _ in range(ROUNDS):
            seconds, summaries = [], []
            for every, more in ((0, []), (1, []), (1, ["run.resume=auto", f"run.steps={steps + 1}"])):
                begun = time.monotonic()
                summaries.append(train(build / "app/lockstep", HERE / f"{network}.yaml", 1, folder,
                                       [f"run.steps={steps}", f"batch.global={batch}", f"checkpoint.every_steps={every}", *more]))
                seconds.append(time.monotonic() - begun)
            alone, after, again = summaries
            open_ms, wait_ms, step_ms = alone["checkpoints"]["write_ms"], after["checkpoints"]["wait_ms"], alone["step_ms"]["median"]
            cost_ms = 1e3 * (seconds[1] - seconds[0]) / (steps - 1)
            rows.append((open_ms, wait_ms, open_ms / wait_ms, step_ms, cost_ms, cost_ms / (100 * step_ms), again["start_s"]))
        size = next((pathlib.Path(folder) / "run/checkpoints").glob("step-*.h5")).stat().st_size / 1e6
        open_ms, wait_ms, ratio, step_ms, cost_ms, share, start = (statistics.median(column) for column in zip(*rows))
        ratios = f"{min(r[2] for r in rows):.0f} to {max(r[2] for r in rows):.0f}"
        print(f"| {network}, {batch} | {size:.0f} | {open_ms:.0f} | {wait_ms:.1f} | 1/{ratio:.0f} ({ratios}) | {step_ms:.0f} | {cost_ms:.0f} | {share:.2%} | "
              f"{start:.2f} |", flush=True)


def threads(build, folder):
    """`possible` is the ratio that two threads would reach with half of the batch each, and one wait a step."""
    print("| network, batch 128, fp32 | 1 thread, examples/s | 2 threads, examples/s | ratio | possible | share of it |\n"
          "|---|--:|--:|--:|--:|--:|")
    for network in ("resnet8", "simple_cnn"):
        program, deck, every = build / "app/lockstep", HERE / f"{network}.yaml", ["run.log_every=1"]
        rows = []
        for _ in range(ROUNDS):
            times = []
            for count in (1, 2):
                train(program, deck, 1, folder, every, count)
                times.append(statistics.median(step_times(pathlib.Path(folder))))
            waiting = slower_of_two(program, deck, folder, every + ["batch.global=64"], threads=1)
            one, two = times
            rows.append((128e3 / one, 128e3 / two, one / two, one / waiting, waiting / two))
        print_speedup(network, rows)


def startup(build, folder):
    print("| deck | ranks | seconds to the end of the first step |\n|---|--:|--:|")
    for deck, ranks in ((HERE.parent.parent / "inputs/quickstart.yaml", 1), (HERE.parent.parent / "inputs/quickstart.yaml", 2)):
        times = []
        for _ in range(ROUNDS):
            command = [build / "app/lockstep", "train", deck, f"run.output_dir={folder}/start", "run.resume=never",
                       "run.overwrite=true", "run.steps=2", "run.log_every=1"]
            if ranks > 1:
                command = ["mpirun", "-n", str(ranks), "--bind-to", "core", *command]
            begun = time.monotonic()
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                for line in process.stdout:
                    if line.startswith("step "):
                        times.append(time.monotonic() - begun)
                        break
                process.stdout.read()
        print(f"| {deck.name} | {ranks} | {statistics.median(times):.2f} ({min(times):.2f} to {max(times):.2f}) |", flush=True)


def against(build, folder, other):
    print("| network, batch a rank, fp32 | ranks | other, ms a step | this, ms a step | this / other |\n|---|--:|--:|--:|--:|")
    for network, batch, steps, ranks in (("fc", 128, 200, 1), ("simple_cnn", 128, 40, 1), ("resnet8", 128, 20, 1), ("transformer", 8, 12, 1),
                                         ("lstm", 16, 12, 1), ("fc", 64, 200, 2), ("simple_cnn", 128, 40, 2), ("resnet8", 128, 20, 2)):
        times = {build: [], other: []}
        for _ in range(ROUNDS):
            for which, found in times.items():
                train(which / "app/lockstep", HERE / f"{network}.yaml", ranks, folder, [f"batch.global={ranks * batch}", f"run.steps={steps}", "run.log_every=1"])
                found.append(statistics.median(step_times(pathlib.Path(folder))))
        before, after = (statistics.median(times[which]) for which in (other, build))
        ratios = [b / a for a, b in zip(times[other], times[build])]
        print(f"| {network}, {batch} | {ranks} | {before:.2f} | {after:.2f} | {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}) |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["step", "scaling", "audit", "checkpoint", "overlap", "threads", "startup", "against"])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--other", type=pathlib.Path, help="another build's folder, for `against`")
    options = parser.parse_args()
    print(f"{machine()}, median (and extremes) of {ROUNDS} alternating runs\n")
    with tempfile.TemporaryDirectory(prefix="lockstep-perf-") as folder:
        if options.what == "against":
            if not options.other or not (options.other / "app/lockstep").exists():
                parser.error("--other must name a build folder with app/lockstep")
            return against(options.build, folder, options.other)
        {"step": step, "scaling": scaling, "audit": audit, "checkpoint": checkpoint, "overlap": overlap, "threads": threads, "startup": startup}[options.what](options.build, folder)


if __name__ == "__main__":
    main()
