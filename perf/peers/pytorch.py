#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times steps of one network in PyTorch, on one thread or on a GPU; prints JSON. Called by measure.py.

A step takes a batch from memory, and does the forward pass, the loss, the backward pass and SGD with momentum."""
import argparse
import json
import resource
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    """Convolutions with batch norms, and a shortcut around them."""

    def __init__(self, channels, widths, kernels, stride):
        super().__init__()
        layers, before = [], channels
        for i, (width, kernel) in enumerate(zip(widths, kernels)):
            step = stride if kernel == 3 and all(k != 3 for k in kernels[:i]) else 1
            layers += [nn.Conv2d(before, width, kernel, step, kernel // 2, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
            before = width
        self.branch = nn.Sequential(*layers[:-1])
        self.shortcut = nn.Identity()
        if stride != 1 or channels != before:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, before, 1, stride, bias=False), nn.BatchNorm2d(before))

    def forward(self, x):
        return F.relu(self.branch(x) + self.shortcut(x), inplace=True)


def residual(stem, stages, blocks, bottleneck, classes):
    layers, channels = stem, stem[0].out_channels
    for s, (width, count) in enumerate(zip(stages, blocks)):
        for b in range(count):
            widths, kernels = ([width, width, 4 * width], [1, 3, 1]) if bottleneck else ([width, width], [3, 3])
            layers.append(Block(channels, widths, kernels, 2 if s > 0 and b == 0 else 1))
            channels = widths[-1]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def small_stem(width):
    return [nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]


def large_stem(width):
    return [nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]


class TransformerBlock(nn.Module):
    def __init__(self, d, heads, causal=True, gelu="none"):
        super().__init__()
        self.heads, self.causal, self.gelu = heads, causal, gelu
        self.norm1, self.qkv, self.out = nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.norm2 = nn.LayerNorm(d)
        self.fc1, self.fc2 = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        n, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(n, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal).transpose(1, 2).reshape(n, t, d)
        x = x + self.out(a)
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x)), approximate=self.gelu))


class Transformer(nn.Module):
    def __init__(self, vocabulary, length, d, layers, heads):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, d), nn.Embedding(length, d)
        self.blocks = nn.Sequential(*[TransformerBlock(d, heads) for _ in range(layers)])
        self.norm, self.fc = nn.LayerNorm(d), nn.Linear(d, vocabulary)

    def forward(self, x):
        return self.fc(self.norm(self.blocks(self.tokens(x) + self.positions.weight)))


class Gpt2(Transformer):
    def __init__(self, vocabulary, length, d, layers, heads):
        super().__init__(vocabulary, length, d, layers, heads)
        self.blocks = nn.Sequential(*[TransformerBlock(d, heads, gelu="tanh") for _ in range(layers)])
        self.fc = nn.Linear(d, vocabulary, bias=False)
        self.fc.weight = self.tokens.weight


class Vit(nn.Module):
    """A vision transformer with the mean of all positions in place of a class token."""

    def __init__(self, image, channels, patch, d, layers, heads, classes):
        super().__init__()
        self.patches, self.positions = nn.Conv2d(channels, d, patch, patch), nn.Embedding((image // patch) ** 2, d)
        self.blocks = nn.Sequential(*[TransformerBlock(d, heads, causal=False) for _ in range(layers)])
        self.norm, self.fc = nn.LayerNorm(d), nn.Linear(d, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2) + self.positions.weight
        return self.fc(self.norm(self.blocks(x)).mean(1))


class Lstm(nn.Module):
    def __init__(self, vocabulary, embedding, units):
        super().__init__()
        self.tokens, self.lstm = nn.Embedding(vocabulary, embedding), nn.LSTM(embedding, units, batch_first=True)
        self.fc = nn.Linear(units, vocabulary)

    def forward(self, x):
        return self.fc(self.lstm(self.tokens(x))[0])


# For each network: its constructor, the shape of an example (a number: of tokens), the number of classes.
NETWORKS = {
    "fc": (lambda: nn.Sequential(nn.Flatten(), nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)), (1, 28, 28), 10),
    "simple_cnn": (lambda: nn.Sequential(nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(),
                                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(3136, 1024), nn.ReLU(), nn.Linear(1024, 10)), (1, 28, 28), 10),
    "resnet8": (lambda: residual(small_stem(16), [16, 32, 64], [1, 1, 1], False, 10), (3, 32, 32), 10),
    "resnet18_cifar": (lambda: residual(small_stem(64), [64, 128, 256, 512], [2, 2, 2, 2], False, 10), (3, 32, 32), 10),
    "resnet50": (lambda: residual(large_stem(64), [64, 128, 256, 512], [3, 4, 6, 3], True, 1000), (3, 224, 224), 1000),
    "transformer": (lambda: Transformer(4096, 128, 256, 4, 8), 128, 4096),
    "transformer_124m": (lambda: Transformer(50304, 1024, 768, 12, 12), 1024, 50304),
    "gpt2_124m": (lambda: Gpt2(50257, 1024, 768, 12, 12), 1024, 50257),
    "vit_s": (lambda: Vit(224, 3, 16, 384, 12, 6, 1000), (3, 224, 224), 1000),
    "lstm": (lambda: Lstm(4096, 512, 512), 128, 4096),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network", choices=NETWORKS)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--mode", choices=["eager", "channels_last", "compile", "compile_channels_last"], required=True)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--precision", choices=["fp32", "bf16"], required=True)
    parser.add_argument("--seconds", type=float, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    make, shape, classes = NETWORKS[options.network]
    # Like Lockstep's fp32, without TF32, which PyTorch's convolutions use by default.
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    on_gpu = options.device == "cuda"
    model = make().to(options.device)
    examples = 4 * options.batch
    tokens = isinstance(shape, int)
    data = torch.randint(0, classes, (examples, shape)) if tokens else torch.randn(examples, *shape)
    targets = torch.randint(0, classes, (examples, shape) if tokens else (examples,)).to(options.device)
    data = data.to(options.device)
    if options.mode.endswith("channels_last") and not tokens:
        model, data = model.to(memory_format=torch.channels_last), data.contiguous(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    run = torch.compile(model) if options.mode.startswith("compile") else model
    times, begun = [], None
    while begun is None or time.perf_counter() - begun < options.seconds or len(times) < 4:
        chosen = torch.arange(options.batch, device=options.device) + len(times) * options.batch % examples
        start = time.perf_counter()
        x, t = data[chosen], targets[chosen]
        with torch.autocast(options.device, torch.bfloat16, enabled=options.precision == "bf16"):
            loss = F.cross_entropy(run(x).flatten(0, -2), t.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if on_gpu:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
        begun = begun or time.perf_counter()  # the first step compiles
    print(json.dumps({"step_ms": 1e3 * statistics.median(times[1:]), "version": torch.__version__,
                      "peak_rss_bytes": torch.cuda.max_memory_allocated() if on_gpu else 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))


if __name__ == "__main__":
    main()
