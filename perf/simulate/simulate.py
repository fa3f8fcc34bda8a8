#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training steps with the gradient sums of lib/comm, simulated by SimGrid SMPI on a cluster that this file describes; prints
simulated times. Called by perf/run simulate; needs smpicxx and smpirun (Debian's libsimgrid-dev).

With --stages: steps of ranks that shard a model, by traces of the rounds of lib/comm (traces.cpp) that SimGrid replays, beside lib/comm itself where it can run."""
import argparse
import pathlib
import re
import resource
import shutil
import subprocess
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
# The ranks of a node share memory; all nodes are on one switch, which is never the bottleneck.
RANKS_PER_NODE, LINK_GB, LATENCY_US = 4, 12.5, 0.75
# A step: the sizes of gradients and buckets, and the times of the passes.
MEGABYTES, BUCKET_MB, FORWARD_MS, BACKWARD_MS = 16, 4, 5, 10
PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <cluster id="cluster" prefix="node-" suffix="" radical="0-{last}" speed="100Gf" core="{cores}" bw="{gb}GBps" lat="{us}us"
           sharing_policy="SPLITDUPLEX" loopback_bw="20GBps" loopback_lat="0.3us"/>
</platform>
"""
NETWORK = (MEGABYTES, BUCKET_MB, FORWARD_MS, BACKWARD_MS)
WHAT = "gather scatter none optimizer parameters".split()  # with one micro-batch a step, `gradients` sends the same as `optimizer`
MOST_RANKS_OF_BOTH = 64
PARALLEL = ("parallel_memory", "reducers/bucketed_reducer", "reducers/gradient_reducer")  # the files that step.cpp needs, besides config/
REAL = ["--cfg=smpi/simulate-computation:no", "--cfg=smpi/grow-injected-times:no"]  # adding takes no time, and looking for a message as long each time
SMPIRUN = ["smpirun", "--cfg=contexts/factory:ucontext", "--cfg=contexts/stack-size:1024", "--cfg=network/model:CM02", "--cfg=smpi/test:1e-7",
           "--cfg=smpi/host-speed:100Gf", "--log=root.thresh:warning"]


def build(folder, base):
    """Builds with SMPI's MPI in place of a real one; everything else is the code of training."""
    program = folder / "step"
    comm = [path for path in sorted((SOURCE / "lib/comm").glob("**/*.cpp")) if path.stem not in ("spin_backoff", "stand_in") and path.parts[-2:] != ("nccl", "all_reduce.cpp")]  # step.cpp has its own spin_backoff
    sources = [SOURCE / "perf/simulate/step.cpp", *(SOURCE / f"lib/parallel/{name}.cpp" for name in PARALLEL), *sorted((SOURCE / "lib/parallel/config").glob("*.cpp")), *comm]
    subprocess.run(["smpicxx", "-O2", "-std=c++20", "-w", "-DSMPI_NO_OVERRIDE_MALLOC", "-DFMT_SHARED", "-DLOCKSTEP_FAKE_DEVICE=0", f"-I{SOURCE / 'lib'}", f"-I{SOURCE}",
                    "-I/usr/include/kokkos", *sources, *base, "-o", program, "-lkokkoscore", "-lyaml-cpp", "-lspdlog", "-lfmt", "-ltrilinos_kokkoskernels", "-ldnnl", "-lopenblas",
                    "-ldl"], check=True)
    return program


def libraries(build_folder):
    return [build_folder / f"lib/{part}/liblockstep_{part}.a" for part in ("nn", "ops", "core", "config", "base")]


def simulate(folder, program, ranks, algorithm):
    """Simulated milliseconds of a step and of a sum."""
    step = map(str, (*NETWORK, algorithm))
    counted, _, step_ms, sum_ms = run(folder, program, ranks, *step).split()[-1].split(",")
    assert int(counted) == ranks
    return float(step_ms), float(sum_ms)


def run(folder, program, ranks, *arguments, options=(), processes=1):
    """Runs the program on simulated ranks, each of which is `processes` processes; returns its output."""
    nodes, of_node = (ranks + RANKS_PER_NODE - 1) // RANKS_PER_NODE, processes * RANKS_PER_NODE
    (folder / "cluster.xml").write_text(PLATFORM.format(last=max(1, nodes - 1), cores=of_node, gb=LINK_GB, us=LATENCY_US))
    (folder / "hosts").write_text("".join(f"node-{node}:{of_node}\n" for node in range(nodes)))
    return subprocess.run([*SMPIRUN, *options, "-np", str(processes * ranks), "-platform", "cluster.xml", "-hostfile", "hosts", program, *arguments], cwd=folder,
                          check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout


def build_traces(folder):
    program = folder / "traces"
    sources = [SOURCE / "perf/simulate/traces.cpp", SOURCE / "lib/comm/collective/schedule.cpp"]
    subprocess.run(["c++", "-O2", "-std=c++20", f"-I{SOURCE / 'lib'}", f"-I{SOURCE}", "-I/usr/include/kokkos", *sources, "-o", program, "-lkokkoscore"], check=True)
    return program


def replay(folder, traces, ranks, what):
    """Simulated milliseconds of the traces of `what`."""
    files, processes = folder / "trace", 3 * ranks
    files.mkdir()
    subprocess.run([traces, files, *map(str, (ranks, what, *NETWORK))], check=True)
    (folder / "list").write_text("".join(f"{files / str(process)}\n" for process in range(processes)))
    said = run(folder, "-replay", ranks, "list", processes=3,
               options=["--cfg=smpi/privatization:no", "--cfg=contexts/stack-size:256", "--cfg=contexts/guard-size:0", "--log=smpi_replay.thresh:info"])
    shutil.rmtree(files)
    return 1e3 * float(re.search(r"Simulation time ([0-9.e-]+)", said)[1])


def print_stages(folder, program, all_ranks):
    traces = build_traces(folder)
    resource.setrlimit(resource.RLIMIT_NOFILE, [resource.getrlimit(resource.RLIMIT_NOFILE)[1]] * 2)  # each process has a trace file
    print(f"Simulated by SimGrid: traces of the rounds of lib/comm, replayed; {RANKS_PER_NODE} ranks a node, which share no memory, links of {LINK_GB} GB/s and {LATENCY_US} µs between nodes; {MEGABYTES} MB of parameters in units of "
          f"{BUCKET_MB} MB, {FORWARD_MS} ms forward, {BACKWARD_MS} ms backward; adding takes no time. Milliseconds; in brackets, what lib/comm itself takes there, by what the trace is.\n")
    print(f"| ranks | {' | '.join(WHAT)} |\n|--:|{'--:|' * len(WHAT)}")
    for ranks in all_ranks:
        cells = []
        for what in WHAT:
            replayed = replay(folder, traces, ranks, what)
            cells.append(f"{replayed:.2f}")
            if ranks <= MOST_RANKS_OF_BOTH:
                real = float(run(folder, program, ranks, *map(str, NETWORK), "stage", what, options=REAL).split()[-1])
                cells[-1] += f" ({real:.2f}, {replayed / real:.3f})"
        print(f"| {ranks} | {' | '.join(cells)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--ranks", type=int, nargs="+")
    parser.add_argument("--stages", action="store_true")
    parser.add_argument("--algorithms", nargs="+", help="default: all in lib/comm/collective/algorithm.cpp except those of libraries")
    options = parser.parse_args()
    if options.stages:
        with tempfile.TemporaryDirectory(prefix="lockstep-simulate-") as name:
            folder = pathlib.Path(name)
            program = build(folder, libraries(options.build))
            return print_stages(folder, program, options.ranks or [2**i for i in range(1, 13)])
    print(f"Simulated by SimGrid SMPI: {RANKS_PER_NODE} ranks a node, links of {LINK_GB} GB/s and {LATENCY_US} µs between nodes; "
          f"{MEGABYTES} MB of gradients in buckets of {BUCKET_MB} MB, {FORWARD_MS} ms forward, {BACKWARD_MS} ms backward, sums advanced every 50 µs meanwhile. "
          "Milliseconds of a step (and of its sums with nothing beside them).\n")
    with tempfile.TemporaryDirectory(prefix="lockstep-simulate-") as name:
        folder = pathlib.Path(name)
        program = build(folder, libraries(options.build))
        algorithms = options.algorithms or run(folder, program, 1).split()
        print(f"| ranks | {' | '.join(algorithms)} |\n|--:|{'--:|' * len(algorithms)}")
        for ranks in options.ranks or [2**i for i in range(1, 10)]:
            times = [simulate(folder, program, ranks, algorithm) for algorithm in algorithms]
            print(f"| {ranks} | " + " | ".join(f"{step:.2f} ({total:.2f})" for step, total in times) + " |", flush=True)


if __name__ == "__main__":
    main()
