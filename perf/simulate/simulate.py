#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The all-reduces of lib/comm, run by SimGrid SMPI on a cluster that is described here: what it prints is simulated time.
Called by perf/run simulate; needs smpicxx and smpirun (Debian's libsimgrid-dev)."""
import argparse
import collections
import csv
import pathlib
import subprocess
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
# A node's ranks share memory; nodes hang on one switch that is never the limit.
RANKS_PER_NODE, LINK_GB, LATENCY_US = 4, 12.5, 0.75
PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <cluster id="cluster" prefix="node-" suffix="" radical="0-{last}" speed="100Gf" core="{ranks_per_node}" bw="{gb}GBps" lat="{us}us"
           sharing_policy="SPLITDUPLEX" loopback_bw="20GBps" loopback_lat="0.3us"/>
</platform>
"""
COMM = "all_reduce all_reduce_rounds communicator link make_all_reduce node_all_reduce node_memory parallel_config topology".split()
CORE = "dtype memory_plan shape tensor".split()


def build(folder, base):
    """With SMPI's MPI in the place of the real one; everything else is the code that trains."""
    program = folder / "all_reduce"
    sources = [SOURCE / "perf/simulate/all_reduce.cpp", *(SOURCE / f"lib/comm/{name}.cpp" for name in COMM), *(SOURCE / f"lib/core/{name}.cpp" for name in CORE)]
    subprocess.run(["smpicxx", "-O2", "-std=c++20", "-w", "-DSMPI_NO_OVERRIDE_MALLOC", "-DFMT_SHARED", f"-I{SOURCE / 'lib'}", "-I/usr/include/kokkos", *sources,
                    *base, "-o", program, "-lkokkoscore", "-lyaml-cpp", "-lspdlog", "-lfmt", "-ldl"], check=True)
    return program


def simulate(folder, program, ranks, sizes):
    """Rows of (ranks, nodes, all-reduce, bytes, µs)."""
    nodes = (ranks + RANKS_PER_NODE - 1) // RANKS_PER_NODE
    (folder / "cluster.xml").write_text(PLATFORM.format(last=max(1, nodes - 1), ranks_per_node=RANKS_PER_NODE, gb=LINK_GB, us=LATENCY_US))
    (folder / "hosts").write_text("".join(f"node-{node}:{RANKS_PER_NODE}\n" for node in range(nodes)))
    done = subprocess.run(["smpirun", "-np", str(ranks), "-platform", "cluster.xml", "-hostfile", "hosts", "--cfg=contexts/factory:ucontext",
                           "--cfg=contexts/stack-size:1024", "--cfg=smpi/test:1e-7", "--cfg=smpi/host-speed:100Gf", "--log=root.thresh:warning", program,
                           *map(str, sizes)], cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
    return [row for row in csv.reader(done.stdout.splitlines()) if len(row) == 5]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 8, 32, 128])
    parser.add_argument("--bytes", type=int, nargs="+", default=[4096, 65536, 1 << 20, 4 << 20])
    options = parser.parse_args()
    print(f"Simulated by SimGrid SMPI: {RANKS_PER_NODE} ranks a node, links of {LINK_GB} GB/s and {LATENCY_US} µs between nodes.\n")
    print("| ranks | bytes | ring, µs | halving_doubling, µs | tree, µs | hierarchical, µs |\n|--:|--:|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory(prefix="lockstep-simulate-") as name:
        folder = pathlib.Path(name)
        program = build(folder, [options.build / "lib/base/liblockstep_base.a"])
        for ranks in options.ranks:
            table = collections.defaultdict(dict)
            for _, _, kind, size, microseconds in simulate(folder, program, ranks, options.bytes):
                table[int(size)][kind] = float(microseconds)
            for size, of in sorted(table.items()):
                print(f"| {ranks} | {size} | {of['ring']:.0f} | {of['halving_doubling']:.0f} | {of['tree']:.0f} | {of['hierarchical']:.0f} |", flush=True)


if __name__ == "__main__":
    main()
