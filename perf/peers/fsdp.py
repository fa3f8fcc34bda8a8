#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Steps of a transformer with sharded parameters by PyTorch's FSDP2 or DeepSpeed's stage 3, on CPUs (gloo); rank 0 prints JSON.
Called by sharded.py once for each rank, with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set.

A step takes a batch from memory, and does the forward pass, the loss, the backward pass and AdamW."""
import argparse
import json
import os
import pathlib
import re
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from pytorch import Transformer


def by_fsdp(model):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)

    def step(x, t):
        loss = F.cross_entropy(model(x).flatten(0, -2), t.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def by_deepspeed(model):
    import deepspeed

    engine, *_ = deepspeed.initialize(model=model, config={
        "train_micro_batch_size_per_gpu": 1, "gradient_clipping": 0, "zero_optimization": {"stage": 3},
        "optimizer": {"type": "AdamW", "params": {"lr": 0.001, "torch_adam": True}}, "zero_allow_untested_optimizer": True})

    def step(x, t):
        loss = F.cross_entropy(engine(x).flatten(0, -2), t.flatten())
        engine.backward(loss)
        engine.step()

    return step


def proportional_bytes():
    """The proportional set size of this process: it counts its part of a shared page."""
    return 1024 * int(re.search(r"^Pss: +(\d+)", pathlib.Path("/proc/self/smaps_rollup").read_text(), re.M)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("way", choices=["fsdp2", "deepspeed"])
    parser.add_argument("--shape", type=int, nargs=5, required=True, help="vocabulary, sequence, d_model, depth, heads")
    parser.add_argument("--batch", type=int, required=True, help="examples per rank")
    parser.add_argument("--seconds", type=float, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo")
    vocabulary, sequence = options.shape[:2]
    step = {"fsdp2": by_fsdp, "deepspeed": by_deepspeed}[options.way](Transformer(*options.shape))
    data = torch.randint(0, vocabulary, (4 * options.batch, sequence))
    targets = torch.randint(0, vocabulary, (4 * options.batch, sequence))
    times, most = [], 0
    begun, goes_on = None, torch.ones(1)
    while goes_on.item() > 0:
        chosen = torch.arange(options.batch) + len(times) * options.batch % len(data)
        start = time.perf_counter()
        step(data[chosen], targets[chosen])
        times.append(time.perf_counter() - start)
        begun = begun or time.perf_counter()
        most = max(most, proportional_bytes())
        goes_on[0] = len(times) < 4 or time.perf_counter() - begun < options.seconds
        dist.broadcast(goes_on, 0)
    memory = torch.tensor([float(most)], dtype=torch.float64)
    dist.all_reduce(memory)
    if dist.get_rank() == 0:
        print(json.dumps({"step_ms": 1e3 * statistics.median(times[1:]), "bytes": memory.item(), "version": torch.__version__}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
