#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Steps of a transformer with parameters sharded on two ranks: Lockstep's `shard: parameters`, PyTorch's FSDP2 and DeepSpeed's stage 3, in
turns, each rank on a core; called by perf/run sharded-peers. Memory is the sum of the ranks' proportional set sizes, programs included.
"""
import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from proportional import proportional_bytes

HERE = pathlib.Path(__file__).resolve().parent
PEERS = {"fsdp2": "PyTorch FSDP2", "deepspeed": "DeepSpeed, stage 3"}
VOCABULARY, SEQUENCE, WIDTH, DEPTH, HEADS = 4096, 128, 512, 8, 8
BATCH, RANKS = 8, 2


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def peer(options, way):
    """Measures a peer; None if it does not run here."""
    port, cores = free_port(), sorted(os.sched_getaffinity(0))
    command = [options.python, HERE / "fsdp.py", way, "--shape", VOCABULARY, SEQUENCE, WIDTH, DEPTH, HEADS, "--batch", BATCH // RANKS, "--seconds", options.seconds]
    ranks = [subprocess.Popen(["taskset", "-c", str(cores[rank % len(cores)]), *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env=dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS), LOCAL_WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1",
                                       MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1"))
             for rank in range(RANKS)]
    try:
        outputs = [rank.communicate(timeout=60 + 10 * options.seconds) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    found = [line for out, _ in outputs for line in out.splitlines() if line.startswith('{"step_ms"')]
    if any(rank.returncode for rank in ranks) or not found:
        print(f"{way}: {(outputs[0][1].strip().splitlines() or ['no result'])[-1]}", file=sys.stderr)
        return None
    return json.loads(found[0])


def lockstep(options, seconds_of_a_step, folder):
    """Measures Lockstep for as many steps as fill the time of a peer."""
    steps = max(8, int(options.seconds / seconds_of_a_step))
    (folder / "deck.yaml").write_text(json.dumps({
        "run": {"steps": steps, "output_dir": str(folder / "run"), "log_every": 1000000, "resume": "never", "overwrite": True},
        "data": {"synthetic": {"kind": "random", "vocabulary": VOCABULARY, "sequence_length": SEQUENCE, "train": 4 * BATCH}},
        "model": {"preset": "transformer", "vocabulary": VOCABULARY, "sequence": SEQUENCE, "d_model": WIDTH, "depth": DEPTH, "heads": HEADS},
        "optimizer": {"type": "adamw", "learning_rate": 0.001}, "batch": {"global": BATCH}, "checkpoint": {"every_epochs": 0},
        "parallel": {"shard": "parameters", "unit_mb": 8}}))
    run = subprocess.Popen([*options.env, "mpirun", "-n", str(RANKS), "--bind-to", "core", str(options.program), "train", str(folder / "deck.yaml")],
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    most = 0
    while run.poll() is None:
        most = max(most, proportional_bytes(options.program))
        time.sleep(0.2)
    if run.returncode != 0:
        sys.exit(f"error: {run.stderr.read()}")
    return {"step_ms": json.loads((folder / "run/summary.json").read_text())["step_ms"]["median"], "bytes": most}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=lambda path: pathlib.Path(path).resolve(), required=True, help="lockstep")
    parser.add_argument("--env", nargs=argparse.REMAINDER, required=True, help="prefix of commands that run in the toolchain")
    parser.add_argument("--python", required=True, help="a Python with PyTorch; DeepSpeed is left out if it is not installed")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8, help="seconds of each measurement")
    options = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory(prefix="lockstep-sharded-") as name:
        for _ in range(options.rounds):
            results = {way: peer(options, way) for way in PEERS}
            fastest = min(result["step_ms"] for result in results.values() if result)
            ours = lockstep(options, fastest / 1e3, pathlib.Path(name))
            found.setdefault("lockstep", []).append(ours)
            for way, result in results.items():
                if result:
                    found.setdefault(way, []).append(dict(result, ratio=result["step_ms"] / ours["step_ms"], memory=ours["bytes"] / result["bytes"]))

    def median(way, what):
        return statistics.median(result[what] for result in found[way])

    print(f"Transformer ({VOCABULARY} tokens, {SEQUENCE} positions, width {WIDTH}, {DEPTH} blocks), AdamW, fp32, batch {BATCH} on {RANKS} ranks; medians of {options.rounds} alternating rounds\n")
    print("| | examples/s | MB, all ranks | Lockstep's speed to it | Lockstep's memory to it |\n|---|--:|--:|--:|--:|")
    for way in found:
        beside = f"{median(way, 'ratio'):.2f} | {median(way, 'memory'):.2f}" if way in PEERS else "– | –"
        print(f"| {PEERS.get(way, 'Lockstep, shard: parameters')} | {1e3 * BATCH / median(way, 'step_ms'):.1f} | {median(way, 'bytes') / 1e6:.0f} | {beside} |")


if __name__ == "__main__":
    main()
