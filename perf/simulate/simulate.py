#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training steps with the gradient sums of lib/comm, run by SimGrid SMPI on a cluster that is described here: what it
prints is simulated time. Called by perf/run simulate; needs smpicxx and smpirun (Debian's libsimgrid-dev)."""
import argparse
import pathlib
import subprocess
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
# A node's ranks share memory; nodes hang on one switch that is never the limit.
RANKS_PER_NODE, LINK_GB, LATENCY_US = 4, 12.5, 0.75
# Of a step: gradients, buckets and computing.
MEGABYTES, BUCKET_MB, FORWARD_MS, BACKWARD_MS = 16, 4, 5, 10
PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <cluster id="cluster" prefix="node-" suffix="" radical="0-{last}" speed="100Gf" core="{ranks_per_node}" bw="{gb}GBps" lat="{us}us"
           sharing_policy="SPLITDUPLEX" loopback_bw="20GBps" loopback_lat="0.3us"/>
</platform>
"""
CORE = "dtype memory_plan shape tensor".split()
SMPIRUN = ["smpirun", "--cfg=contexts/factory:ucontext", "--cfg=contexts/stack-size:1024", "--cfg=network/model:CM02", "--cfg=smpi/test:1e-7",
           "--cfg=smpi/host-speed:100Gf", "--log=root.thresh:warning"]


def build(folder, base):
    """With SMPI's MPI in the place of the real one; everything else is the code that trains."""
    program = folder / "step"
    comm = [path for path in sorted((SOURCE / "lib/comm").glob("**/*.cpp")) if path.stem != "spin_backoff"]  # step.cpp waits in its own way
    sources = [SOURCE / "perf/simulate/step.cpp", SOURCE / "lib/parallel/bucketed_reducer.cpp", *comm, *(SOURCE / f"lib/core/{name}.cpp" for name in CORE)]
    subprocess.run(["smpicxx", "-O2", "-std=c++20", "-w", "-DSMPI_NO_OVERRIDE_MALLOC", "-DFMT_SHARED", f"-I{SOURCE / 'lib'}",
                    "-I/usr/include/kokkos", *sources, *base, "-o", program, "-lkokkoscore", "-lyaml-cpp", "-lspdlog", "-lfmt",
                    "-ldl"], check=True)
    return program


def simulate(folder, program, ranks, algorithm):
    """Milliseconds of a step and of a sum."""
    step = map(str, (MEGABYTES, BUCKET_MB, FORWARD_MS, BACKWARD_MS, algorithm))
    counted, _, step_ms, sum_ms = run(folder, program, ranks, *step).split()[-1].split(",")
    assert int(counted) == ranks
    return float(step_ms), float(sum_ms)


def run(folder, program, ranks, *arguments):
    """What the program prints on so many simulated ranks."""
    nodes = (ranks + RANKS_PER_NODE - 1) // RANKS_PER_NODE
    (folder / "cluster.xml").write_text(PLATFORM.format(last=max(1, nodes - 1), ranks_per_node=RANKS_PER_NODE, gb=LINK_GB, us=LATENCY_US))
    (folder / "hosts").write_text("".join(f"node-{node}:{RANKS_PER_NODE}\n" for node in range(nodes)))
    return subprocess.run([*SMPIRUN, "-np", str(ranks), "-platform", "cluster.xml", "-hostfile", "hosts", program, *arguments], cwd=folder,
                          check=True, stdout=subprocess.PIPE, text=True).stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8, 16, 32, 64, 128, 256, 512])
    parser.add_argument("--algorithms", nargs="+", help="default: all of lib/comm/collective/algorithm.cpp that are no library's")
    options = parser.parse_args()
    print(f"Simulated by SimGrid SMPI: {RANKS_PER_NODE} ranks a node, links of {LINK_GB} GB/s and {LATENCY_US} µs between nodes; "
          f"{MEGABYTES} MB of gradients in buckets of {BUCKET_MB} MB, {FORWARD_MS} ms forward, {BACKWARD_MS} ms backward, sums advanced every 50 µs meanwhile. "
          "Milliseconds of a step (and of its sums with nothing beside them).\n")
    with tempfile.TemporaryDirectory(prefix="lockstep-simulate-") as name:
        folder = pathlib.Path(name)
        program = build(folder, [options.build / f"lib/{part}/liblockstep_{part}.a" for part in ("config", "base")])
        algorithms = options.algorithms or run(folder, program, 1).split()
        print(f"| ranks | {' | '.join(algorithms)} |\n|--:|{'--:|' * len(algorithms)}")
        for ranks in options.ranks:
            times = [simulate(folder, program, ranks, algorithm) for algorithm in algorithms]
            print(f"| {ranks} | " + " | ".join(f"{step:.2f} ({total:.2f})" for step, total in times) + " |", flush=True)


if __name__ == "__main__":
    main()
