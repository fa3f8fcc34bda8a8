#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes power_sgd.json and quantization_hooks.json: the results of PyTorch's powerSGD_hook and of its quantization hooks for
gradients of 2 ranks in 20 steps. Needs torch with gloo:
    python3 tests/golden/make_compression_golden.py"""
import json
import os
import pathlib

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as hook
from torch.distributed.algorithms.ddp_comm_hooks import quantization_hooks

HERE = pathlib.Path(__file__).parent
SHAPES = [(24, 24), (7,), (20, 2, 13), (5, 9)]
STEPS, RANKS, EVERY = 20, 2, 17
COUNT = sum(torch.Size(shape).numel() for shape in SHAPES)


def filled(tag, shape):
    """The numbers of `filling` in fixtures.cpp: 24 bits of splitmix64."""
    count = torch.Size(shape).numel()
    with np.errstate(over="ignore"):
        i = np.arange(count, dtype=np.uint64)
        z = np.uint64(tag) * np.uint64(0xD1342543DE82EF95) + i * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x632BE59BD9B4E019)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return torch.from_numpy(((z >> np.uint64(40)).astype(np.float64) - 8388608.0) / 8388608.0).reshape(shape)


class Bucket:
    """The part of a GradBucket that the hooks use."""

    def __init__(self, values):
        self.values = values

    def index(self):
        return 0

    def is_last(self):
        return True

    def buffer(self):
        return self.values

    def gradients(self):
        tensors, first = [], 0
        for shape in SHAPES:
            count = torch.Size(shape).numel()
            tensors.append(self.values[first:first + count].view(shape))
            first += count
        return tensors


def gradient(step, rank):
    return filled(1000 + 10 * step + rank, (COUNT,))


def power_sgd(rank, columns, results):
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    state = hook.PowerSGDState(None, matrix_approximation_rank=columns, start_powerSGD_iter=2)
    state.iter = 2
    thin, lefts = [], 0
    for number, shape in enumerate(SHAPES):
        n, m = shape[0], torch.Size(shape[1:]).numel()
        r = min(n, m, columns)
        if (n + m) * r * 2 < n * m:
            lefts += n * r
            thin.append(filled(900 + number, (r, m)).t().reshape(-1))
    state.p_memory_dict[0] = torch.zeros(lefts, dtype=torch.float64)
    state.q_memory_dict[0] = torch.cat(thin)
    norms = []
    for step in range(STEPS):
        sums = hook.powerSGD_hook(state, Bucket(gradient(step, rank))).wait()
        sums = sums[0] if isinstance(sums, list) else sums
        norms.append(sums.norm().item())
    if rank == 0:
        results.put({"columns": columns, "norms": norms, "means": sums[::EVERY].tolist()})
    dist.barrier()
    dist.destroy_process_group()


def quantization(rank, block, results):
    """Runs a quantization hook. `block`: number of elements that share a scale (quantization_perchannel_hook); none: all
    (quantization_pertensor_hook)."""
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    steps = []
    for step in range(STEPS):
        bucket = Bucket(gradient(step, rank).float())
        if block:
            means = quantization_hooks.quantization_perchannel_hook(None, bucket, block).wait()
        else:
            means = quantization_hooks.quantization_pertensor_hook(None, bucket).wait()
        steps.append([float(f"{mean:.9g}") for mean in means[::EVERY].tolist()])
    if rank == 0:
        results.put({"block": block or COUNT, "means": steps})
    dist.barrier()
    dist.destroy_process_group()


def on_ranks(work, argument):
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    ranks = [context.Process(target=work, args=(rank, argument, results)) for rank in range(RANKS)]
    for process in ranks:
        process.start()
    result = results.get()
    for process in ranks:
        process.join()
    return result


def save(name, golden):
    (HERE / name).write_text(json.dumps({"every": EVERY} | golden) + "\n")


def main():
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29517")
    save("power_sgd.json", {"shapes": SHAPES, "cases": [on_ranks(power_sgd, columns) for columns in (1, 2, 4)]})
    save("quantization_hooks.json", {"cases": [on_ranks(quantization, block) for block in (None, 128)]})


if __name__ == "__main__":
    main()
