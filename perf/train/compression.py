#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The accuracy that compressed gradients cost, and the time that they save; called by perf/run compression.

exposed   the time that steps wait for exact and for compressed sums, in turns, over an emulated network of 50 µs and 0.125 GB/s;
medians over rounds, on 2 and 4 ranks that share no memory
learning  validation accuracy of simple_cnn on MNIST's 10,000 test images (--mnist: a folder with the two t10k files), on 4 such ranks
"""
import argparse
import csv
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

INPUTS = pathlib.Path(__file__).resolve().parents[2] / "inputs"
EXPOSED = {"exact": "", "int8": ", compress: {method: int8}", "powersgd, rank 2": ", compress: {method: powersgd}"}
SCHEDULES = {"constant": "schedule={}", "cosine": "schedule={type: cosine, warmup: 1 epochs}"}
SIGNS = ("method: sign", "method: sign, error_feedback: false")
METHODS = ("", "method: int8", "method: powersgd", "method: topk")
LEARNING = (  # epochs, schedule, learning rate, parallel.compress
    (3, "constant", 0.04, (*METHODS, "method: topk, ramp_steps: 16", "method: sign")),
    (6, "cosine", 0.04, (*METHODS, "method: topk, ramp_steps: 32", *SIGNS)),
    (6, "cosine", 0.01, ("", *SIGNS)),
)


def summary_of(lockstep, ranks, network, deck, *options):
    command = ["mpirun", "--oversubscribe", "-n", str(ranks), "--bind-to", "none", str(lockstep), "train", str(deck), "--emulate-network", network,
               "run.output_dir=run", "run.overwrite=true", "run.resume=never", "checkpoint.every_epochs=0", *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return json.loads(pathlib.Path("run/summary.json").read_text())


def exposed(lockstep, arguments):
    deck = pathlib.Path("exposed.yaml")
    deck.write_text(json.dumps({
        "run": {"steps": arguments.steps, "log_every": 1000000}, "model": {"preset": "simple_cnn"}, "batch": {"global": 128},
        "data": {"synthetic": {"kind": "random", "shape": [28, 28, 1], "classes": 10, "train": 1024, "validation": 0}},
        "optimizer": {"type": "sgd", "learning_rate": 0.01, "momentum": 0.9}}))
    print("| ranks | sums | bytes a step, all ranks | exact / these | exposed, ms a step | exact / these | step, ms |\n|--:|---|--:|--:|--:|--:|--:|")
    for ranks in (2, 4):
        rows = {name: [] for name in EXPOSED}
        for _ in range(arguments.rounds):
            for name, compress in EXPOSED.items():
                summary = summary_of(lockstep, ranks, "latency_us=50,bandwidth_gbps=0.125", deck, f"parallel={{overlap: {arguments.overlap}{compress}}}")
                rows[name].append((summary["sent_bytes_per_step"], summary["phases_ms"]["reduce_exposed"], summary["step_ms"]["median"]))
        medians = {name: [statistics.median(column) for column in zip(*of)] for name, of in rows.items()}
        for name, (sent, waits, step) in medians.items():
            exact = medians["exact"]
            print(f"| {ranks} | {name} | {sent:,.0f} | {exact[0] / sent:.1f} | {waits:.1f} | {exact[1] / waits:.1f} | {step:.1f} |", flush=True)


def learning(lockstep, arguments):
    images, labels = (arguments.mnist.resolve() / f"t10k-{kind}-ubyte.gz" for kind in ("images-idx3", "labels-idx1"))
    subprocess.run([lockstep, "import", "idx", "--images", images, "--labels", labels, "--validation", "2000", "--output", "mnist.h5"], check=True, stdout=subprocess.DEVNULL)
    print("| epochs | learning rate | `compress` | validation loss | accuracy |\n|--:|---|---|--:|--:|")
    for epochs, schedule, rate, methods in LEARNING:
        for compress in methods:
            summary_of(lockstep, 4, "latency_us=1", INPUTS / "mnist_simple_cnn.yaml", "data.file=mnist.h5", f"run.epochs={epochs}", "batch.global=128", f"run.seed={arguments.seed}",
                       f"optimizer.learning_rate={rate}", SCHEDULES[schedule], f"parallel={{compress: {{{compress}}}}}" if compress else "parallel={}")
            last = [row for row in csv.DictReader(open("run/metrics.csv")) if row["split"] == "validation"][-1]
            print(f"| {epochs} | {rate}, {schedule} | {compress or 'exact'} | {float(last['loss']):.3f} | {float(last['accuracy']):.4f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("exposed", "learning"))
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--overlap", default="none", help="for exposed: parallel.overlap; none: nothing is hidden behind the backward pass")
    parser.add_argument("--mnist", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1, help="for learning")
    arguments = parser.parse_args()
    if arguments.what == "learning" and not arguments.mnist:
        parser.error("learning needs --mnist")
    arguments.mnist = arguments.mnist and arguments.mnist.resolve()
    lockstep = arguments.build.resolve() / "app/lockstep"
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        {"exposed": exposed, "learning": learning}[arguments.what](lockstep, arguments)


if __name__ == "__main__":
    main()
