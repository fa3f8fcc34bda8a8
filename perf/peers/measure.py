#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Steps of Lockstep and of PyTorch at its best, on one core or on a GPU, in turns; called by perf/run peers and scripts/gpu_check.

Of each network and precision every mode of PyTorch is tried once, and the fastest is then measured in pairs with
Lockstep, beside the peak of multiply-adds of the core (of the GPU: without matrix units). Prints medians and ratios in Markdown."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
# Of each device: the modes that are tried; batch of each network, and the ratios that are aimed at in fp32 and bf16.
MODES = {"cpu": ["eager", "channels_last", "compile"], "cuda": ["eager", "channels_last", "compile", "compile_channels_last"]}
NETWORKS = {"cpu": {
    "fc": (128, 1.2, 1.4), "simple_cnn": (128, 1.3, 1.35), "resnet8": (128, 1.4, 1.6), "resnet18_cifar": (32, 1.08, 1.05),
    "resnet50": (8, 1.2, 1.2), "transformer": (8, 1.4, 3.0), "lstm": (16, 1.15, 1.3),
    "vit_s": (8, 1.15, 1.15), "gpt2_124m": (1, 1.15, 1.15),
}, "cuda": {
    "fc": (1024, 1.6, 1.6), "simple_cnn": (1024, 1.6, 1.6), "resnet8": (1024, 1.6, 1.6), "resnet18_cifar": (512, 1.1, 1.1), "resnet50": (256, 1.1, 1.1),
    "transformer_124m": (16, 1.1, 1.1),
}}


def measured(options, command):
    """Its output. For CPUs on the last core, with one thread: the first one serves interrupts."""
    if options.device != "cpu":
        return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout
    environment = dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    core = sorted(os.sched_getaffinity(0))[-1]
    return subprocess.run(["taskset", "-c", str(core), *map(str, command)], check=True, capture_output=True, text=True, env=environment).stdout


def pytorch(options, network, mode, precision, seconds):
    try:
        command = [options.python, HERE / "pytorch.py", network, "--batch", NETWORKS[options.device][network][0], "--mode", mode, "--precision", precision, "--seconds", seconds,
                   "--device", options.device]
        return json.loads(measured(options, command).splitlines()[-1])
    except subprocess.CalledProcessError as error:
        reason = (error.stderr.strip().splitlines() or [f"status {error.returncode}"])[-1]
        print(f"{network}, {mode}, {precision}: {reason}", file=sys.stderr)
        return None


def lockstep(options, network, precision, step_ms, folder):
    """As many steps as fill the time that PyTorch got, by its speed."""
    batch = NETWORKS[options.device][network][0]
    steps = max(5, min(400, int(1e3 * options.seconds / step_ms)))
    measured(options, [*options.env, options.program, "train", HERE.parent / "train" / f"{network}.yaml", f"run.output_dir={folder}/run",
            f"run.steps={steps}", f"precision.compute={precision}", f"batch.global={batch}", f"data.synthetic.train={4 * batch}"])
    summary = json.loads((pathlib.Path(folder) / "run/summary.json").read_text())
    assert summary["examples_per_step"] == batch, "a step of less than a batch"
    return summary


def measure(options, network, precision, folder):
    batch, *wanted = NETWORKS[options.device][network]
    tried = {mode: pytorch(options, network, mode, precision, options.seconds / 2) for mode in options.modes or MODES[options.device]}
    best = min((mode for mode in tried if tried[mode]), key=lambda mode: tried[mode]["step_ms"])
    rows = []
    for _ in range(options.rounds):
        peak = float(measured(options, [*options.env, options.program, "bench", "peak"]).split()[1])
        theirs = pytorch(options, network, best, precision, options.seconds)
        ours = lockstep(options, network, precision, theirs["step_ms"], folder)
        gflops = ours["flops_per_step"] / 1e6
        rows.append((1e3 * batch / theirs["step_ms"], gflops / theirs["step_ms"] / peak, 1e3 * batch / ours["step_ms"]["median"],
                     gflops / ours["step_ms"]["median"] / peak, theirs["step_ms"] / ours["step_ms"]["median"],
                     theirs["peak_rss_bytes"] / 1e6, ours["peak_rss_bytes"] / 1e6))
        print(f"{network}, {precision}, round {len(rows)}: {theirs['step_ms']:.3f} ms ({best}), {ours['step_ms']['median']:.3f} ms, ratio {rows[-1][4]:.2f}", file=sys.stderr, flush=True)
    t, t_share, o, o_share, ratio, t_rss, o_rss = (statistics.median(column) for column in zip(*rows))
    spread = f"{min(r[4] for r in rows):.2f} to {max(r[4] for r in rows):.2f}"
    print(f"| {network}, {batch} | {precision} | {t:.1f} ({best}) | {t_share:.0%} | {o:.1f} | {o_share:.0%} | {ratio:.2f} ({spread}) | "
          f"{wanted[precision == 'bf16']:.2f} |" + (f" {t_rss:.0f} | {o_rss:.0f} | {o_rss / t_rss:.2f} |" if options.device == "cpu" else ""), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, required=True, help="lockstep")
    parser.add_argument("--device", choices=NETWORKS, default="cpu")
    parser.add_argument("--env", nargs=argparse.REMAINDER, required=True, help="prefix of commands that run in the toolchain")
    parser.add_argument("--python", required=True, help="a Python with PyTorch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=6, help="seconds of each measurement")
    parser.add_argument("--networks", nargs="+", help="networks to measure (default: all of the device)")
    parser.add_argument("--modes", nargs="+", choices=MODES["cuda"], help="modes of PyTorch to try; the fastest is measured (default: all)")
    parser.add_argument("--precisions", nargs="+", choices=["fp32", "bf16"], default=["fp32", "bf16"])
    options = parser.parse_args()
    unknown = set(options.networks or []) - set(NETWORKS[options.device])
    if unknown:
        parser.error(f"--networks: {', '.join(sorted(unknown))}: unknown (known: {', '.join(NETWORKS[options.device])})")
    version = subprocess.run([options.python, "-c", "import torch; print(torch.__version__, [l.strip(' -') for l in torch.__config__.show().splitlines() if 'DNN v' in l][0])"],
                             capture_output=True, text=True, check=True).stdout.strip()
    place = "one core" if options.device == "cpu" else subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()
    print(f"PyTorch {version}; {place}, median (and extremes) of {options.rounds} alternating pairs\n")
    memory = [" PyTorch, MB | Lockstep, MB | ratio |", "--:|--:|--:|"] if options.device == "cpu" else ["", ""]
    print(f"| network, batch | precision | PyTorch's best, examples/s (mode) | of peak | Lockstep, examples/s | of peak | ratio | aim |{memory[0]}\n"
          f"|---|---|--:|--:|--:|--:|--:|--:|{memory[1]}")
    with tempfile.TemporaryDirectory(prefix=".lockstep-peers-", dir=HERE) as folder:
        for network in options.networks or NETWORKS[options.device]:
            for precision in options.precisions:
                measure(options, network, precision, folder)


if __name__ == "__main__":
    main()
