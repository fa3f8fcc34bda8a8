#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs that share cores: three runs of two ranks each at once, beside one run alone; called by perf/run shared.

If two ranks fill the machine, the fair share of each run is a third of the speed. Runs are started by mpirun with its own binding (which
puts all of them on the same two cores), without binding, by scripts/lockstep, and, where a Slurm is installed (the tests start it), by
srun and by mpirun in a job. Speeds are those of the time in which all runs train.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "tests/faults"), str(SOURCE / "tests/regression"), str(SOURCE / "perf/train")]
ROUNDS, RUNS, SECONDS = 3, 3, 12
DECK = {
    "run": {"steps": 10000000, "output_dir": "run", "log_every": 20, "seed": 7, "wall_time": "5 min"},
    "data": {"synthetic": {"kind": "glyphs", "train": 2000, "validation": 100}},
    "model": {"layers": [{"conv2d": {"filters": 16, "kernel": 5}}, "relu", "flatten", {"dropout": {"rate": 0.2}}, {"linear": {"features": 10}}]},
    "optimizer": {"type": "sgd", "learning_rate": 0.05, "momentum": 0.9},
    "batch": {"global": 64},
}


def folders(root, count):
    for i in range(count):
        folder = root / f"run{i}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / "deck.yaml").write_text(json.dumps(DECK))
        yield folder


def steps_done(folder):
    metrics = folder / "run/metrics.csv"
    rows = metrics.read_text().split("\n")[1:-1] if metrics.exists() else []
    return int(rows[-1].split(",")[0]) if rows else 0


def speeds(where, ended):
    """Examples per second of each run while all of them train. `ended()`: true if a run has stopped, which is an error."""
    def wait(seconds):
        time.sleep(seconds)
        if ended():
            sys.exit("error: a run ended before it was measured")

    while not all(map(steps_done, where)):
        wait(0.1)
    wait(1)
    begin, before = time.monotonic(), list(map(steps_done, where))
    wait(SECONDS)
    after, seconds = list(map(steps_done, where)), time.monotonic() - begin
    return [DECK["batch"]["global"] * (last - first) / seconds for first, last in zip(before, after)]


def started_here(root, launcher, count):
    where = list(folders(root, count))
    children = [subprocess.Popen([*launcher, "train", "deck.yaml"], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                for folder in where]
    try:
        return speeds(where, lambda: any(child.poll() is not None for child in children))
    finally:
        for child in children:
            child.terminate()
        for child in children:
            child.wait()


def started_by_slurm(root, launcher, count):
    from slurm_test import output_of
    where = list(folders(root, count))
    for folder in where:
        (folder / "job.sh").write_text(f"#!/bin/bash\nexec {' '.join(map(str, launcher))} train deck.yaml > out 2>&1\n")
        output_of("sbatch", "--nodes=1", "--ntasks-per-node=2", "--cpus-per-task=1", "--time=5", "job.sh", cwd=folder,
                  environment={**os.environ, "TMPDIR": str(folder), "OMP_NUM_THREADS": "1"})
    try:
        return speeds(where, lambda: len(output_of("squeue", "--noheader").splitlines()) < count)
    finally:
        output_of("scancel", "--me")
        while output_of("squeue", "--noheader"):
            time.sleep(0.5)


def measure(name, root, start, launcher):
    alone, shares = [], []
    for _ in range(ROUNDS):
        alone += start(root, launcher, 1)
        shares.append([each / alone[-1] for each in start(root, launcher, RUNS)])
    least, most = min(map(min, shares)), max(map(max, shares))
    middle = statistics.median(each for round_ in shares for each in round_)
    print(f"| {name} | {statistics.median(alone):.0f} | {middle:.2f} | {least:.2f} to {most:.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--slurm", action="store_true", help=argparse.SUPPRESS)  # this program again, in a namespace of its own
    options = parser.parse_args()
    program = options.build / "app/lockstep"
    os.environ.update(LOCKSTEP_PROGRAM=str(program), LOCKSTEP_SOURCE_DIR=str(SOURCE), LOCKSTEP_MPIEXEC="mpirun|-n")
    with tempfile.TemporaryDirectory(prefix="lockstep-perf-") as folder:
        root = pathlib.Path(folder)
        if options.slurm:
            import slurm_test
            cluster = slurm_test.Cluster(root)
            cluster.start()
            try:
                measure("Slurm: srun", root, started_by_slurm, ["srun", "--mpi=pmix", program])
                measure("Slurm: mpirun", root, started_by_slurm, ["mpirun", "-n", "2", program])
            finally:
                cluster.stop()
            return
        import measure as steps
        print(f"{steps.machine()}, {os.cpu_count()} cores; {RUNS} runs of 2 ranks at once, {ROUNDS} rounds alternating with one alone, {SECONDS} s each\n")
        print("| started by | one alone, examples/s | each of three, of that | least to most |\n|---|--:|--:|--:|")
        measure("mpirun", root, started_here, ["mpirun", "-n", "2", program])
        measure("scripts/lockstep", root, started_here, [SOURCE / "scripts/lockstep", "--preset", options.build.name, "-n", "2"])
        measure("mpirun --bind-to none", root, started_here, ["mpirun", "-n", "2", "--bind-to", "none", program])
        import slurm_test
        if all(map(shutil.which, slurm_test.DAEMONS)):
            subprocess.run([*slurm_test.NAMESPACE, sys.executable, "-B", __file__, "--build", options.build, "--slurm"], check=True)


if __name__ == "__main__":
    main()
