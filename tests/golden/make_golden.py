#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes the golden values in this folder with PyTorch: tests/golden/make_golden.py

Parameters and inputs are not stored: they come from an exact formula (`filled`), which tests/support/fixtures.cpp
has, too. Outputs, gradients and loss curves are stored, in fp64. Layouts are Lockstep's: images as N, H, W, C;
weights as in PyTorch.
"""
import json
import math
import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "perf/peers"))
import pytorch as peers  # noqa: E402

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
FOLDER = pathlib.Path(__file__).parent


def filled(tag, count, scale=1.0):
    """Numbers in [-1, 1), multiples of 2^-23: 24 bits of splitmix64."""
    with np.errstate(over="ignore"):
        i = np.arange(count, dtype=np.uint64)
        z = np.uint64(tag) * np.uint64(0xD1342543DE82EF95) + i * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x632BE59BD9B4E019)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return scale * (((z >> np.uint64(40)).astype(np.float64) - 8388608.0) / 8388608.0)


def tensor(tag, shape, scale=1.0):
    return torch.from_numpy(filled(tag, math.prod(shape), scale).reshape(shape))


def to_nchw(x):
    return x.movedim(-1, 1)  # also for sequences and volumes


def to_nhwc(x):
    return x.permute(0, 2, 3, 1)


def numbers(t):
    return [float(f"{v:.15g}") for v in t.detach().reshape(-1).tolist()]


def save(name, value):
    (FOLDER / name).write_text(json.dumps(value, separators=(",", ":")).replace('},{"', '},\n{"') + "\n")


# Layers: y, and the gradients dx and those of the parameters, of Σ w·y.


def conv(stride=1, padding=0, groups=1, relu=False):
    """A convolution of sequences, images or volumes."""

    def forward(x, weight, bias=None):
        dimensions, x = weight.dim() - 2, to_nchw(x)
        if padding == "same":  # the smaller half comes first
            k = weight.shape[2]
            x = F.pad(x, ((k - 1) // 2, k // 2) * dimensions)
        convolve = (F.conv1d, F.conv2d, F.conv3d)[dimensions - 1]
        y = convolve(x, weight, bias, stride, 0 if padding == "same" else padding, 1, groups).movedim(1, -1)
        return F.relu(y) if relu else y

    return forward


def spatial(function, **options):
    """A function of PyTorch, which takes channels first, for channels-last inputs."""
    return lambda x, *p: function(x.movedim(-1, 1), *p, **options).movedim(1, -1)


def linear(relu=False):
    return lambda x, *p: F.relu(F.linear(x, *p)) if relu else F.linear(x, *p)


def rotated(x, base):
    """Rotary embedding of x [n, heads, T, w], with pairs of columns i and i + w/2."""
    length, w = x.shape[2:]
    angle = torch.arange(length)[:, None] * base ** (-torch.arange(0, w, 2) / w)
    a, b = x.chunk(2, -1)
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)


def position_encoding(x):
    length, d = x.shape[1:]
    angle = torch.arange(length)[:, None] / 10000 ** (torch.arange(0, d, 2) / d)
    return x + torch.stack([angle.sin(), angle.cos()], -1).flatten(1)[:, :d]


def attention(heads, causal, rotary_base=None):
    def forward(x, qkv_weight, qkv_bias, out_weight, out_bias):
        n, length, d = x.shape
        q, k, v = (t.reshape(n, length, heads, d // heads).transpose(1, 2) for t in F.linear(x, qkv_weight, qkv_bias).chunk(3, -1))
        if rotary_base:
            q, k = rotated(q, rotary_base), rotated(k, rotary_base)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return F.linear(y.transpose(1, 2).reshape(n, length, d), out_weight, out_bias)

    return forward


def cross_attention(heads):
    """Cross-attention by torch.nn.MultiheadAttention with the given parameters."""

    def forward(x, memory, *p):
        module = torch.nn.MultiheadAttention(x.shape[2], heads, batch_first=True)
        names = ["in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"]
        return torch.func.functional_call(module, dict(zip(names, p)), (x, memory, memory), {"need_weights": False})[0]

    return forward


def multihead_attention(heads):
    return lambda x, *p: cross_attention(heads)(x, x, *p)


def recurrent(kind, bidirectional=False):
    def forward(x, *p):
        module = kind(x.shape[2], p[1].shape[1], batch_first=True, bidirectional=bidirectional)
        return torch.func.functional_call(module, dict(zip([name for name, _ in module.named_parameters()], p)), (x,))[0]

    return forward


def tokens(tag, shape, vocabulary):
    return torch.floor((tensor(tag, shape) + 1) / 2 * vocabulary).long()


def embedding(x, weight):
    return F.embedding(x, weight)


def attention_shapes(d):
    return [(3 * d, d), (3 * d,), (d, d), (d,)]


def recurrent_shapes(gates, features, units):
    return [(gates * units, features), (gates * units, units), (gates * units,), (gates * units,)]


class BatchNorm:
    """Batch norm in training, optionally with a second input that is added, and relu. Besides gradients it gives the increments
    of the running values in one step (which start at their filling + 1), times the number of examples, and y in evaluation."""

    def __init__(self, momentum=0.1, epsilon=1e-5, relu=False, addition=False):
        self.momentum, self.epsilon, self.relu, self.addition = momentum, epsilon, relu, addition

    def run(self, x, p, mean, variance, training):
        y = F.batch_norm(x[0].movedim(-1, 1), mean, variance, *p, training, self.momentum, self.epsilon).movedim(1, -1)
        y = y + x[1] if self.addition else y
        return F.relu(y) if self.relu else y

    def statistics(self, channels):
        return [1 + tensor(202 + i, (channels,), 0.5) for i in range(2)]

    def __call__(self, x, *rest):
        x, p = ([x, rest[0]], rest[1:]) if self.addition else ([x], rest)
        return self.run(x, p, *self.statistics(x[0].shape[-1]), True)

    def more(self, x, p):
        before, after = self.statistics(x[0].shape[-1]), self.statistics(x[0].shape[-1])
        y = self.run(x, p, *before, False)
        self.run(x, p, *after, True)
        return y, [(a - b) * len(x[0]) for a, b in zip(after, before)]


def layer_norm(epsilon=1e-5):
    return lambda x, weight, bias: F.layer_norm(x, (x.shape[-1],), weight, bias, epsilon)


def embedding_tables(vocabularies):
    """The rows of each table by torch.nn.functional.embedding_bag, as in DLRM. Row numbers have no gradient."""
    def forward(x, weight):
        tables = weight.split(vocabularies)
        rows = x.detach().long()
        return torch.stack([F.embedding_bag(rows[:, k : k + 1], table, mode="sum") for k, table in enumerate(tables)], 1) + 0 * x.sum()

    forward.vocabularies = vocabularies
    return forward


def dot_interaction(bottom, tables):
    """DLRM's interact_features (dlrm_s_pytorch.py), without self-interaction."""
    t = torch.cat([bottom.unsqueeze(1), tables], 1)
    z = torch.bmm(t, t.transpose(1, 2))
    li = torch.tensor([i for i in range(z.shape[1]) for j in range(i)])
    lj = torch.tensor([j for i in range(z.shape[1]) for j in range(i)])
    return torch.cat([bottom, z[:, li, lj]], 1)


def patchify(p):
    """The columns of unfold, whose order is channel, row, column."""
    return lambda x: F.unfold(to_nchw(x), p, stride=p).transpose(1, 2).unflatten(2, (x.shape[3], p * p)).transpose(2, 3).flatten(2)
def group_norm(groups, epsilon=1e-5):
    return lambda x, weight, bias: F.group_norm(x.movedim(-1, 1), groups, weight, bias, epsilon).movedim(1, -1)


LAYERS = [
    # entry, fused relu, shapes of inputs (with the batch) and of parameters, function
    ("{linear: {features: 7}}", False, [(3, 5)], [(7, 5), (7,)], linear()),
    ("{linear: {features: 6, bias: false}}", True, [(4, 9)], [(6, 9)], linear(True)),
    ("{conv2d: {filters: 4, kernel: 3}}", False, [(2, 6, 5, 3)], [(4, 3, 3, 3), (4,)], conv()),
    ("{conv2d: {filters: 3, kernel: 5, padding: same}}", True, [(2, 6, 7, 2)], [(3, 2, 5, 5), (3,)], conv(padding="same", relu=True)),
    ("{conv2d: {filters: 2, kernel: 4, padding: same}}", False, [(1, 5, 6, 2)], [(2, 2, 4, 4), (2,)], conv(padding="same")),
    ("{conv2d: {filters: 4, kernel: 3, stride: 2, padding: 1, bias: false}}", False, [(2, 7, 8, 3)], [(4, 3, 3, 3)], conv(2, 1)),
    ("{conv2d: {filters: 6, kernel: 3, padding: 1, groups: 2}}", False, [(2, 5, 4, 4)], [(6, 2, 3, 3), (6,)], conv(1, 1, 2)),
    ("relu", False, [(2, 3, 4, 5)], [], F.relu),
    ("{max_pool: {kernel: 2}}", False, [(2, 6, 5, 3)], [], lambda x: to_nhwc(F.max_pool2d(to_nchw(x), 2))),
    ("{max_pool: {kernel: 3, stride: 2, padding: 1}}", False, [(2, 7, 6, 2)], [], lambda x: to_nhwc(F.max_pool2d(to_nchw(x), 3, 2, 1))),
    ("{avg_pool: {kernel: 2}}", False, [(2, 6, 5, 3)], [], lambda x: to_nhwc(F.avg_pool2d(to_nchw(x), 2))),
    ("{avg_pool: {kernel: 3, stride: 1, padding: 1}}", False, [(1, 5, 4, 3)], [], lambda x: to_nhwc(F.avg_pool2d(to_nchw(x), 3, 1, 1))),
    ("{add: {}}", False, [(2, 3, 4), (2, 3, 4), (2, 3, 4)], [], lambda *x: sum(x)),
    ("{linear: {features: 4}}", True, [(2, 3, 5)], [(4, 5), (4,)], linear(True)),
    ("{embedding: {vocabulary: 7, features: 5}}", False, [(3, 6)], [(7, 5)], embedding),
    ("{position_embedding: {length: 6}}", False, [(3, 4, 5)], [(6, 5)], lambda x, w: x + w[: x.shape[1]]),
    ("{attention: {heads: 2, causal: false}}", False, [(2, 7, 10)], attention_shapes(10), multihead_attention(2)),
    ("{attention: {heads: 3}}", False, [(2, 5, 9)], attention_shapes(9), attention(3, True)),
    ("{attention: {heads: 1}}", False, [(1, 107, 4)], attention_shapes(4), attention(1, True)),
    ("{attention: {heads: 4, causal: false}}", False, [(1, 101, 4)], attention_shapes(4), attention(4, False)),
    ("{attention: {heads: 1, causal: true}}", False, [(2, 1, 3)], attention_shapes(3), attention(1, True)),
    ("{lstm: {units: 5}}", False, [(3, 6, 4)], recurrent_shapes(4, 4, 5), recurrent(torch.nn.LSTM)),
    ("{lstm: {units: 3}}", False, [(2, 1, 2)], recurrent_shapes(4, 2, 3), recurrent(torch.nn.LSTM)),
    ("batch_norm", False, [(5, 3, 4, 6)], [(6,), (6,)], BatchNorm()),
    ("{batch_norm: {momentum: 0.3, epsilon: 0.01}}", True, [(7, 9)], [(9,), (9,)], BatchNorm(0.3, 0.01, relu=True)),
    ("batch_norm", True, [(3, 5, 2, 4), (3, 5, 2, 4)], [(4,), (4,)], BatchNorm(relu=True, addition=True)),
    ("layer_norm", False, [(3, 5, 7)], [(7,), (7,)], layer_norm()),
    ("{layer_norm: {epsilon: 0.01}}", False, [(4, 35)], [(35,), (35,)], layer_norm(0.01)),
    ("gelu", False, [(3, 7, 2)], [], F.gelu),
    ("gelu: tanh", False, [(3, 7, 2)], [], lambda x: F.gelu(x, approximate="tanh")),
    ("rms_norm", False, [(3, 5, 7)], [(7,)], lambda x, w: F.rms_norm(x, (7,), w, 1e-5)),
    ("upsample: 3", False, [(2, 4, 3, 5)], [], lambda x: to_nhwc(F.interpolate(to_nchw(x), scale_factor=3))),
    ("silu", False, [(3, 7)], [], F.silu),
    ("leaky_relu: 0.2", False, [(3, 7)], [], lambda x: F.leaky_relu(x, 0.2)),
    ("{elu: {alpha: 0.7}}", False, [(3, 7)], [], lambda x: F.elu(x, 0.7)),
    ("{multiply: {}}", False, [(3, 7), (3, 7)], [], lambda a, b: a * b),
    ("global_avg_pool", False, [(2, 5, 3)], [], lambda x: x.mean(1)),
    ("tanh", False, [(3, 7)], [], torch.tanh),
    ("sigmoid", False, [(3, 7)], [], torch.sigmoid),
    ("softmax", False, [(3, 2, 5)], [], lambda x: F.softmax(x, -1)),
    ("global_avg_pool", False, [(2, 4, 3, 5)], [], lambda x: x.mean((1, 2))),
    ("{concat: {}}", False, [(2, 3, 4), (2, 3, 1), (2, 3, 2)], [], lambda *x: torch.cat(x, -1)),
    ("{permute: {order: [1, 0]}}", False, [(3, 4, 5)], [], lambda x: x.permute(0, 2, 1)),
    ("{permute: {order: [2, 0, 3, 1]}}", False, [(2, 3, 2, 5, 4)], [], lambda x: x.permute(0, 3, 1, 4, 2)),
    ("{slice: {axis: 1, begin: -4, end: -1}}", False, [(2, 3, 7, 2)], [], lambda x: x[:, :, -4:-1]),
    ("{slice: {begin: 2}}", False, [(3, 7)], [], lambda x: x[:, 2:]),
    ("{sum: {axes: [0]}}", False, [(2, 5, 3)], [], lambda x: x.sum(1)),
    ("{mean: {axes: [0, -1]}}", False, [(2, 5, 3, 4)], [], lambda x: x.mean((1, 3))),
    ("{embedding_tables: {vocabularies: [6, 1, 11], features: 5}}", False, [(7, 3)], [(18, 5)], embedding_tables([6, 1, 11])),
    ("{dot_interaction: {}}", False, [(3, 5), (3, 4, 5)], [], dot_interaction),
    ("patchify: 2", False, [(2, 6, 4, 3)], [], patchify(2)),
    ("{conv_transpose2d: {filters: 3, kernel: 2, stride: 2}}", False, [(2, 3, 4, 5)], [(5, 3, 2, 2), (3,)], spatial(F.conv_transpose2d, stride=2)),
    ("{conv_transpose2d: {filters: 4, kernel: 3, stride: 2, padding: 1, output_padding: 1, groups: 2, bias: false}}", False,
     [(2, 4, 3, 6)], [(6, 2, 3, 3)], spatial(F.conv_transpose2d, stride=2, padding=1, output_padding=1, groups=2)),
    ("{conv1d: {filters: 4, kernel: 3, stride: 2, padding: 1}}", False, [(2, 9, 3)], [(4, 3, 3), (4,)], spatial(F.conv1d, stride=2, padding=1)),
    ("{conv1d: {filters: 6, kernel: 5, padding: same, groups: 2, bias: false}}", False, [(3, 7, 4)], [(6, 2, 5)],
     spatial(F.conv1d, padding=2, groups=2)),
    ("{conv3d: {filters: 3, kernel: 3, stride: 2, padding: 1}}", False, [(2, 4, 5, 3, 2)], [(3, 2, 3, 3, 3), (3,)],
     spatial(F.conv3d, stride=2, padding=1)),
    ("{conv3d: {filters: 4, kernel: 2, groups: 2, bias: false}}", False, [(2, 3, 2, 4, 6)], [(4, 3, 2, 2, 2)], spatial(F.conv3d, groups=2)),
    ("{gru: {units: 5}}", False, [(3, 6, 4)], recurrent_shapes(3, 4, 5), recurrent(torch.nn.GRU)),
    ("{gru: {units: 4, bidirectional: true}}", False, [(2, 5, 3)], 2 * recurrent_shapes(3, 3, 4), recurrent(torch.nn.GRU, True)),
    ("{lstm: {units: 4, bidirectional: true}}", False, [(2, 5, 3)], 2 * recurrent_shapes(4, 3, 4), recurrent(torch.nn.LSTM, True)),
    ("{max_pool1d: {kernel: 3, stride: 2, padding: 1}}", False, [(2, 9, 3)], [], spatial(F.max_pool1d, kernel_size=3, stride=2, padding=1)),
    ("{avg_pool1d: {kernel: 4, padding: 2}}", False, [(2, 9, 3)], [], spatial(F.avg_pool1d, kernel_size=4, padding=2)),
    ("max_pool3d: 2", False, [(2, 5, 4, 6, 3)], [], spatial(F.max_pool3d, kernel_size=2)),
    ("{max_pool3d: {kernel: 3, stride: 2, padding: 1}}", False, [(1, 4, 7, 5, 2)], [], spatial(F.max_pool3d, kernel_size=3, stride=2, padding=1)),
    ("{avg_pool3d: {kernel: 3, stride: 1, padding: 1}}", False, [(2, 3, 4, 5, 2)], [], spatial(F.avg_pool3d, kernel_size=3, stride=1, padding=1)),
    ("group_norm: 3", False, [(2, 4, 3, 6)], [(6,), (6,)], group_norm(3)),
    ("{group_norm: {groups: 5, epsilon: 0.01}}", False, [(3, 7, 5)], [(5,), (5,)], group_norm(5, 0.01)),
    ("position_encoding", False, [(2, 6, 4)], [], position_encoding),
    ("position_encoding", False, [(2, 4, 5)], [], position_encoding),
    ("{attention: {heads: 2, rotary: true}}", False, [(2, 7, 12)], attention_shapes(12), attention(2, True, 10000)),
    ("{attention: {heads: 1, causal: false, rotary: true, rotary_base: 50}}", False, [(2, 5, 6)], attention_shapes(6), attention(1, False, 50)),
    ("{cross_attention: {heads: 2}}", False, [(2, 5, 6), (2, 9, 6)], attention_shapes(6), cross_attention(2)),
    # Strides beyond the kernel, padding beyond the kernel, and volumes.
    ("{conv2d: {filters: 4, kernel: 2, stride: 3, padding: 3, groups: 2}}", False, [(2, 6, 5, 4)], [(4, 2, 2, 2), (4,)], conv(3, 3, 2)),
    ("{conv_transpose2d: {filters: 3, kernel: 2, stride: 4, padding: 2, output_padding: 3}}", False, [(2, 3, 4, 5)], [(5, 3, 2, 2), (3,)],
     spatial(F.conv_transpose2d, stride=4, padding=2, output_padding=3)),
    ("{max_pool: {kernel: 2, stride: 3, padding: 1}}", False, [(2, 7, 6, 3)], [], lambda x: to_nhwc(F.max_pool2d(to_nchw(x), 2, 3, 1))),
    ("{avg_pool: {kernel: 3, stride: 4, padding: 1}}", False, [(2, 7, 6, 3)], [], lambda x: to_nhwc(F.avg_pool2d(to_nchw(x), 3, 4, 1))),
    ("batch_norm", False, [(3, 2, 3, 2, 4)], [(4,), (4,)], BatchNorm()),
]


def make_layers():
    cases = []
    for entry, relu, inputs, parameters, function in LAYERS:
        if function is embedding:
            x = [tokens(100, inputs[0], parameters[0][0])]
        elif hasattr(function, "vocabularies"):
            x = [tokens(100, inputs[0], torch.tensor(function.vocabularies)).double().requires_grad_()]
        else:
            x = [tensor(100 + i, shape).requires_grad_() for i, shape in enumerate(inputs)]
        p = [tensor(200 + i, shape, 0.5).requires_grad_() for i, shape in enumerate(parameters)]
        y = function(*x, *p)
        (y * tensor(7, y.shape)).sum().backward()
        case = {"entry": entry, "relu": relu, "inputs": inputs, "y": numbers(y),
                "dx": [numbers(t.grad) for t in x if t.requires_grad], "parameters": [numbers(t.grad) for t in p]}
        if isinstance(function, BatchNorm):
            evaluation, statistics = function.more(x, p)
            case |= {"addition": function.addition, "evaluation": numbers(evaluation)}
            case["parameters"] += [numbers(t) for t in statistics]
        cases.append(case)
    save("layers.json", cases)


def make_losses():
    """Losses summed over examples, and their gradients. For an output [H, W, K], an example's loss is the mean over H and W:
    PyTorch's sums over all positions are divided by H W."""
    cases = []

    def add(deck, shape, n, scale, function, targets=None):
        y = tensor(1, (n, *shape), scale).requires_grad_()
        rows = math.prod(shape[:-1])
        labels = torch.tensor(targets) if targets else None
        loss = function(y.flatten(0, -2), labels) / rows if targets else function(y, tensor(2, (n, *shape)))
        loss.backward()
        case = {"deck": deck, "shape": list(shape), "n": n, "scale": scale, "loss": loss.item(), "gradient": numbers(y.grad)}
        cases.append(case | ({"targets": targets} if targets else {}))

    def cross_entropy(**options):
        return lambda y, labels: F.cross_entropy(y, labels, reduction="sum", **options)

    def classes(count, k):
        return [(5 * i + 3) % k for i in range(count)]

    def with_ignored(labels, ignored):
        return [ignored if i % 4 == 1 else label for i, label in enumerate(labels)]

    weights = [0.5, 2.0, 1.0, 0.25, 0.0, 3.0]
    weighted = cross_entropy(weight=torch.tensor(weights, dtype=torch.float64), label_smoothing=0.1)
    for n, k, smoothing, scale in [(5, 10, 0.0, 3.0), (7, 4, 0.1, 1.0), (3, 6, 0.5, 20.0)]:
        add(f"type: cross_entropy\nlabel_smoothing: {smoothing}\n", (k,), n, scale, cross_entropy(label_smoothing=smoothing), classes(n, k))
    add(f"type: cross_entropy\nlabel_smoothing: 0.1\nclass_weights: {weights}\n", (6,), 9, 4.0, weighted, classes(9, 6))
    add("type: cross_entropy\nignore_class: 255\nlabel_smoothing: 0.1\n", (3, 2, 5), 4, 4.0,
        cross_entropy(ignore_index=255, label_smoothing=0.1), with_ignored(classes(24, 5), 255))
    add(f"type: cross_entropy\nignore_class: 2\nclass_weights: {weights[:4]}\n", (7, 4), 3, 4.0,
        cross_entropy(ignore_index=2, weight=torch.tensor(weights[:4], dtype=torch.float64)), classes(21, 4))
    add("type: cross_entropy\n", (3, 2, 5), 4, 4.0, cross_entropy(), classes(24, 5))

    def mean(function, **options):
        return lambda y, t: sum(function(a, b, **options) for a, b in zip(y, t))

    def relative_l2(y, t):
        return sum((a - b).norm() / (b.norm() + 1e-8) for a, b in zip(y, t))

    def bce(y, t):
        return F.binary_cross_entropy_with_logits(y, t)

    for shape in [(5,), (11, 10, 10)]:  # the latter has more numbers than one thread adds up
        add("type: mse\n", shape, 2, 1.0, mean(F.mse_loss))
        add("type: relative_l2\n", shape, 2, 1.0, relative_l2)
    for shape, n in [((1,), 6), ((3, 4, 2), 4)]:
        add("type: mse\n", shape, n, 1.0, mean(F.mse_loss))
        add("type: mae\n", shape, n, 1.0, mean(F.l1_loss))
        add("type: huber\ndelta: 0.3\n", shape, n, 2.0, mean(F.huber_loss, delta=0.3))
        add("type: binary_cross_entropy\n", shape, n, 3.0, mean(bce))
        add("type: relative_l2\n", shape, n, 1.0, relative_l2)
    save("losses.json", cases)


def make_metrics():
    """Metrics of scikit-learn: macro averages over the classes that occur, and the confusion matrix."""
    from sklearn import metrics
    n, k, ignored = 60, 7, 6
    outputs = tensor(1, (n, k))
    targets = [(5 * i * i + 3) % (k - 1) for i in range(n)]
    cases = []
    for given in (targets, [ignored if i % 4 == 1 else t for i, t in enumerate(targets)]):
        counted = [i for i, t in enumerate(given) if t != ignored]
        true, predicted = [given[i] for i in counted], outputs.argmax(1)[counted].tolist()
        options = {"average": "macro", "zero_division": 0}
        cases.append({"n": n, "k": k, "ignored": ignored, "targets": given,
                      "precision": metrics.precision_score(true, predicted, **options),
                      "recall": metrics.recall_score(true, predicted, **options),
                      "f1": metrics.f1_score(true, predicted, **options),
                      "iou": metrics.jaccard_score(true, predicted, **options),
                      "top_2": metrics.top_k_accuracy_score(true, outputs[counted].numpy(), k=2, labels=range(k)),
                      "confusions": metrics.confusion_matrix(true, predicted, labels=range(k)).flatten().tolist()})
    save("metrics.json", cases)


def make_areas():
    """Areas under the ROC curve by scikit-learn, for outputs correlated with their targets, rounded (so that many are equal) and not."""
    from sklearn import metrics
    cases = []
    for n, k, scale, steps in [(500, 1, 2.0, 2**20), (300, 3, 8.0, 4), (400, 2, 0.05, 2**20)]:
        targets = (tensor(2, (n, k)) > 0.3).double()
        outputs = torch.round(scale * steps * (0.5 * targets - 0.4 + tensor(1, (n, k)))) / steps
        cases.append({"n": n, "k": k, "outputs": numbers(outputs), "targets": numbers(targets),
                      "auc": float(metrics.roc_auc_score(targets.numpy(), outputs.numpy(), average="macro"))})
    save("roc_auc.json", cases)


def make_samplers():
    """The batches of each rank in each epoch by PyTorch's DistributedSampler and DataLoader."""
    from torch.utils.data import BatchSampler, DistributedSampler
    cases = []
    for n, ranks, batch, shuffle, drop_last, seed in [(23, 1, 5, True, False, 0), (23, 2, 6, True, False, 7), (23, 3, 6, True, True, 7),
                                                      (24, 4, 8, True, True, 1), (23, 4, 12, False, False, 0), (5, 4, 8, True, False, 3),
                                                      (1000, 2, 300, True, False, 2**31 + 5)]:
        epochs = []
        for epoch in range(2):
            batches = []
            for rank in range(ranks):
                sampler = DistributedSampler(range(n), ranks, rank, shuffle=shuffle, seed=seed, drop_last=drop_last)
                sampler.set_epoch(epoch)
                batches.append(list(BatchSampler(sampler, batch // ranks, drop_last)))
            epochs.append(batches)
        cases.append({"n": n, "ranks": ranks, "batch": batch, "shuffle": shuffle, "drop_last": drop_last, "seed": seed, "epochs": epochs})
    save("samplers.json", cases)


def make_optimizers():
    cases = []
    for options in [{}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}, {"weight_decay": 0.01},
                    {"momentum": 0.5, "weight_decay": 0.1}, {"momentum": 0.8, "weight_decay": 0.02, "nesterov": True}]:
        p = tensor(300, (23,)).requires_grad_()
        optimizer = torch.optim.SGD([p], lr=0.1, **options)
        for step in range(10):
            p.grad = tensor(301 + step, (23,)) / 16  # the mean over 16 examples
            optimizer.step()
        cases.append({"options": options, "p": numbers(p)})
    clipped = [("sgd", {"momentum": 0.9}, 0.05), ("sgd", {}, 1000.0), ("adamw", {}, 0.05)]
    adamw = [{}, {"betas": [0.8, 0.95]}, {"betas": [0.3, 0.5], "epsilon": 1e-3}, {"weight_decay": 0.0}, {"weight_decay": 0.5, "epsilon": 1e-4}]
    for type, options, clip_norm in [("adamw", options, 0.0) for options in adamw] + clipped:
        p = tensor(300, (23,)).requires_grad_()
        given = {{"epsilon": "eps"}.get(key, key): value for key, value in options.items()}
        optimizer = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[type]([p], lr=0.1, **given)
        for step in range(10):
            p.grad = tensor(301 + step, (23,)) / 16
            if clip_norm > 0:
                torch.nn.utils.clip_grad_norm_([p], clip_norm)
            optimizer.step()
        cases.append({"type": type, "options": options, "clip_norm": clip_norm, "p": numbers(p)})
    like_pytorch = [("sgd", {"momentum": 0.9, "dampening": 0.3}, torch.optim.SGD), ("adam", {}, torch.optim.Adam),
                    ("adam", {"weight_decay": 0.1, "betas": [0.7, 0.9]}, torch.optim.Adam), ("rmsprop", {}, torch.optim.RMSprop),
                    ("rmsprop", {"alpha": 0.8, "momentum": 0.9, "weight_decay": 0.05, "epsilon": 1e-3}, torch.optim.RMSprop)]
    for type, options, make in like_pytorch:
        p = tensor(300, (23,)).requires_grad_()
        optimizer = make([p], lr=0.1, **{{"epsilon": "eps"}.get(key, key): value for key, value in options.items()})
        for step in range(10):
            p.grad = tensor(301 + step, (23,)) / 16
            if type == "rmsprop":
                torch.nn.utils.clip_grad_value_([p], 0.01)
            optimizer.step()
        cases.append({"type": type, "options": options | ({"clip_value": 0.01} if type == "rmsprop" else {}), "p": numbers(p)})
    for type, options in [("lion", {}), ("lion", {"weight_decay": 0.3, "betas": [0.95, 0.98]}), ("lars", {}),
                          ("lars", {"weight_decay": 0.05, "momentum": 0.5, "trust_coefficient": 0.1}), ("lamb", {}),
                          ("lamb", {"weight_decay": 0.3, "bias_correction": False, "betas": [0.8, 0.95]})]:
        cases.append({"type": type, "options": options, "p": [float(x) for x in paper(type, **options)]})
    layers, shapes = "[{conv2d: {filters: 4, kernel: 3}}, flatten, {linear: {features: 70}}]", [(70, 16), (70,), (4, 2, 3, 3), (4,)]
    given = {"beta2_decay": lambda x: {"beta2_decay": -x}, "clip_threshold": lambda x: {"d": x}, "epsilons": lambda x: {"eps": tuple(x)}}
    for steps, options in [(1, {}), (20, {}), (20, {"weight_decay": 0.1}),
                           (20, {"beta2_decay": 0.6, "epsilons": [0.01, 0.5], "clip_threshold": 3.0})]:
        parameters = [tensor(300 + 100 * i, shape).requires_grad_() for i, shape in enumerate(shapes)]
        keys = {"eps": (1e-15, 1e-3)}
        for key, value in options.items():
            keys |= given[key](value) if key in given else {key: value}
        optimizer = torch.optim.Adafactor(parameters, lr=0.1, **keys)
        for step in range(steps):
            for i, p in enumerate(parameters):
                p.grad = tensor(301 + step + 100 * i, p.shape) / 16
            optimizer.step()
        cases.append({"type": "adafactor", "options": options, "steps": steps, "layers": layers, "input": [4, 4, 2],
                      "p": numbers(torch.cat([p.flatten() for p in parameters]))})
    save("optimizers.json", cases)


def make_outer_steps():
    """Twenty synchronizations of two replicas (DiLoCo): their weighted difference from x₀ is the gradient for PyTorch's SGD."""
    weights, cases = [3, 5], []
    for rate, momentum in [(0.7, 0.9), (1.0, 0.5)]:
        p = tensor(300, (23,)).requires_grad_()
        optimizer = torch.optim.SGD([p], lr=rate, momentum=momentum, nesterov=True)
        for synchronization in range(20):
            replicas = [p.detach() - tensor(301 + 2 * synchronization + replica, (23,)) / 16 for replica in range(2)]
            p.grad = p.detach() - sum(weight * replica for weight, replica in zip(weights, replicas)) / sum(weights)
            optimizer.step()
        cases.append({"learning_rate": rate, "momentum": momentum, "weights": weights, "p": numbers(p)})
    save("outer_steps.json", cases)


def paper(type, lr=0.1, weight_decay=None, betas=None, momentum=0.9, trust_coefficient=0.001, bias_correction=True, epsilon=1e-6):
    """Ten steps of optimizers that PyTorch lacks, by the formulas of their papers: Chen et al. 2023 (lion), You et al. 2017
    (lars), You et al. 2020 (lamb)."""
    def norm(x):
        return np.sqrt(np.sum(x * x))
    p = tensor(300, (23,)).numpy()
    m = v = np.zeros(23)
    beta1, beta2 = betas or ((0.9, 0.99) if type == "lion" else (0.9, 0.999))
    decay = weight_decay if weight_decay is not None else 0.01 if type == "lamb" else 0.0
    for t in range(1, 11):
        g = tensor(300 + t, (23,)).numpy() / 16
        if type == "lion":
            p = p - lr * (np.sign(beta1 * m + (1 - beta1) * g) + decay * p)
            m = beta2 * m + (1 - beta2) * g
        elif type == "lars":
            trust = trust_coefficient * norm(p) / (norm(g) + decay * norm(p))
            v = momentum * v + lr * trust * (g + decay * p)
            p = p - v
        else:
            m = beta1 * m + (1 - beta1) * g
            v = beta2 * v + (1 - beta2) * g * g
            mean, square = (m / (1 - beta1**t), v / (1 - beta2**t)) if bias_correction else (m, v)
            u = mean / (np.sqrt(square) + epsilon) + decay * p
            p = p - lr * norm(p) / norm(u) * u
    return p


def make_schedules():
    """Factors of the learning rate in each of 100 steps; an epoch has 10."""
    schedulers, cases = torch.optim.lr_scheduler, []
    for deck, make in [
            ("{type: step, every: 2 epochs, factor: 0.3}", lambda o: schedulers.StepLR(o, 20, 0.3)),
            ("{type: multistep, milestones: [3 epochs, 70 steps], factor: 0.2}", lambda o: schedulers.MultiStepLR(o, [30, 70], 0.2)),
            ("{type: exponential, every: 1 step, factor: 0.97}", lambda o: schedulers.ExponentialLR(o, 0.97)),
            ("{type: linear, final_fraction: 0.1}", lambda o: schedulers.LinearLR(o, 1, 0.1, 100)),
            ("{type: linear, decay: 6 epochs}", lambda o: schedulers.LinearLR(o, 1, 0, 60)),
            ("{type: polynomial, power: 3}", lambda o: schedulers.PolynomialLR(o, 100, 3)),
            ("{type: cosine, final_fraction: 0.1}", lambda o: schedulers.CosineAnnealingLR(o, 100, 0.1)),
            ("{type: cosine, period: 2 epochs, final_fraction: 0.2}", lambda o: schedulers.CosineAnnealingWarmRestarts(o, 20, 1, 0.2)),
            ("{type: cosine, period: 10 steps, period_factor: 2}", lambda o: schedulers.CosineAnnealingWarmRestarts(o, 10, 2)),
            # Vaswani et al. 2017, equation 3, divided by its value at the end of the warm-up.
            ("{type: inverse_sqrt, warmup: 10 steps}",
             lambda o: schedulers.LambdaLR(o, lambda i: min((i + 1) ** -0.5, (i + 1) * 10**-1.5) * 10**0.5)),
            ("{type: one_cycle}", lambda o: schedulers.OneCycleLR(o, 1.0, total_steps=100)),
            ("{type: one_cycle, rise: 0.45, start_fraction: 0.1, final_fraction: 0.001}",
             lambda o: schedulers.OneCycleLR(o, 1.0, total_steps=100, pct_start=0.45, div_factor=10, final_div_factor=100))]:
        optimizer = torch.optim.SGD([tensor(1, (1,)).requires_grad_()], lr=1.0)
        scheduler, factors = make(optimizer), []
        for _ in range(100):
            factors.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            scheduler.step()
        cases.append({"deck": deck, "factors": factors})
    save("schedules.json", cases)


def make_scalers():
    """The scale after each of 200 steps, some of whose gradients overflow."""
    cases = []
    for options in [{"initial": 65536.0, "growth": 2.0, "backoff": 0.5, "interval": 7},
                    {"initial": 1.0e38, "growth": 3.0, "backoff": 0.3, "interval": 2}]:
        p = torch.zeros(3, dtype=torch.float32, requires_grad=True)
        optimizer = torch.optim.SGD([p], lr=0.0)
        scaler = torch.amp.GradScaler("cpu", init_scale=options["initial"], growth_factor=options["growth"],
                                      backoff_factor=options["backoff"], growth_interval=options["interval"])
        overflows = [i for i in range(200) if (i * i + 3 * i) % 23 == 5 or 60 <= i < 70]
        scales = []
        for step in range(200):
            scaler.scale(torch.tensor(1.0, dtype=torch.float32))  # creates the scale
            p.grad = torch.tensor([1.0, float("inf") if step in overflows else 0.5, 2.0], dtype=torch.float32)
            scaler.step(optimizer)
            scaler.update()
            scales.append(scaler.get_scale())
        cases.append({"options": options, "overflows": overflows, "scales": scales})
    save("loss_scales.json", cases)


# Loss curves of whole networks: SGD with momentum on two batches of 8 in turns.


class Network(torch.nn.Module):
    """A network of a function whose parameters, in the order of the layers, are filled with tag 400 + number and scale 1/sqrt(fan-in)."""

    def __init__(self, shapes, function):
        super().__init__()
        self.p = torch.nn.ParameterList()
        self.function = function
        fan_in = 1
        for i, shape in enumerate(shapes):
            fan_in = math.prod(shape[1:]) if len(shape) > 1 else fan_in  # a bias: its weight's
            self.p.append(torch.nn.Parameter(tensor(400 + i, shape, 1 / math.sqrt(fan_in))))

    def forward(self, x):
        return self.function(x, *self.p)


def fc(x, w1, b1, w2, b2, w3, b3):
    x = F.relu(F.linear(x.flatten(1), w1, b1))
    return F.linear(F.relu(F.linear(x, w2, b2)), w3, b3)


def simple_cnn(x, w1, b1, w2, b2, w3, b3, w4, b4):
    x = F.max_pool2d(F.relu(F.conv2d(to_nchw(x), w1, b1, padding=2)), 2)
    x = F.max_pool2d(F.relu(F.conv2d(x, w2, b2, padding=2)), 2)
    x = F.relu(F.linear(to_nhwc(x).flatten(1), w3, b3))  # features in the order H, W, C
    return F.linear(x, w4, b4)


def residual(x, w1, b1, w2, b2, w3, b3, w4, b4):
    trunk = F.relu(F.conv2d(to_nchw(x), w1, b1, padding=1))
    branch = F.conv2d(F.relu(F.conv2d(trunk, w2, b2, padding=1)), w3, b3, padding=1)
    x = F.relu(branch + trunk + trunk)
    return F.linear(to_nhwc(F.avg_pool2d(x, 2)).flatten(1), w4, b4)


CURVES = {
    "fc": ("{preset: fc}", (28, 28, 1), fc, [(1024, 784), (1024,), (1024, 1024), (1024,), (10, 1024), (10,)]),
    "simple_cnn": ("{preset: simple_cnn}", (28, 28, 1), simple_cnn,
                   [(32, 1, 5, 5), (32,), (64, 32, 5, 5), (64,), (1024, 3136), (1024,), (10, 1024), (10,)]),
    "residual": ("{layers: [{conv2d: {filters: 6, kernel: 3, padding: same}}, {relu: {}, name: trunk},"
                 " {conv2d: {filters: 6, kernel: 3, padding: same}}, relu, {conv2d: {filters: 6, kernel: 3, padding: same}, name: branch},"
                 " {add: {}, from: [branch, trunk, trunk]}, relu, {avg_pool: {kernel: 2}}, flatten, {linear: {features: 10}}]}",
                 (8, 6, 3), residual, [(6, 3, 3, 3), (6,), (6, 6, 3, 3), (6,), (6, 6, 3, 3), (6,), (10, 72), (10,)]),
}


def vgg(width, hidden, classes):
    layers, channels = [], 3
    for factor, convolutions in ((1, 1), (2, 1), (4, 2), (8, 2), (8, 2)):
        for _ in range(convolutions):
            layers += [torch.nn.Conv2d(channels, factor * width, 3, padding=1), torch.nn.ReLU()]
            channels = factor * width
        layers.append(torch.nn.MaxPool2d(2))
    return torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(channels, hidden), torch.nn.ReLU(),
                               torch.nn.Linear(hidden, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, classes))


class Unet(torch.nn.Module):
    @staticmethod
    def stage(channels, width):
        return [torch.nn.Conv2d(channels, width, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(width, width, 3, padding=1), torch.nn.ReLU()]

    def __init__(self, channels, depth, width, classes):
        super().__init__()
        widths = [width << i for i in range(depth + 1)]
        self.down = torch.nn.ModuleList(torch.nn.Sequential(*self.stage(*pair)) for pair in zip([channels, *widths], widths))
        self.up = torch.nn.ModuleList(
            torch.nn.ModuleList([torch.nn.ConvTranspose2d(2 * w, w, 2, 2), torch.nn.Sequential(*self.stage(2 * w, w))]) for w in reversed(widths[:-1]))
        self.head = torch.nn.Conv2d(width, classes, 1)

    def forward(self, x):
        skips = []
        for i, stage in enumerate(self.down):
            x = stage(F.max_pool2d(x, 2) if i > 0 else x)
            skips.append(x)
        for (up, stage), skip in zip(self.up, reversed(skips[:-1])):
            x = stage(torch.cat([skip, up(x)], 1))
        return to_nhwc(self.head(x))


class WideBlock(torch.nn.Module):
    def __init__(self, channels, width, stride):
        super().__init__()
        self.norm1, self.conv1 = torch.nn.BatchNorm2d(channels), torch.nn.Conv2d(channels, width, 3, stride, 1, bias=False)
        self.norm2, self.conv2 = torch.nn.BatchNorm2d(width), torch.nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.shortcut = torch.nn.Conv2d(channels, width, 1, stride, bias=False) if channels != width or stride != 1 else None

    def forward(self, x):
        before = F.relu(self.norm1(x))
        branch = self.conv2(F.relu(self.norm2(self.conv1(before))))
        return branch + (self.shortcut(before) if self.shortcut else x)


def wide_resnet(depth, widening, classes):
    layers, channels = [torch.nn.Conv2d(3, 16, 3, 1, 1, bias=False)], 16
    for stage in range(3):
        for block in range((depth - 4) // 6):
            layers.append(WideBlock(channels, (16 * widening) << stage, 2 if stage > 0 and block == 0 else 1))
            channels = (16 * widening) << stage
    return torch.nn.Sequential(*layers, torch.nn.BatchNorm2d(channels), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
                               torch.nn.Linear(channels, classes))


def speech_cnn(width, kernel, stride, classes):
    layers, channels = [], 1
    for i, factor in enumerate([1, 1, 2, 4]):
        size = kernel if i == 0 else 3
        layers += [torch.nn.ConstantPad1d(((size - 1) // 2, size // 2), 0.0),
                   torch.nn.Conv1d(channels, factor * width, size, stride if i == 0 else 1, bias=False),
                   torch.nn.BatchNorm1d(factor * width), torch.nn.ReLU(), torch.nn.MaxPool1d(4)]
        channels = factor * width
    return torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool1d(1), torch.nn.Flatten(), torch.nn.Linear(channels, classes))


# Small networks of the presets, as in perf/peers: model, shape of an example (a number: of tokens), constructor.
PRESETS = {
    "resnet8": ("{preset: resnet8, width: 8}", (16, 12, 3), lambda: peers.residual(peers.small_stem(8), [8, 16, 32], [1, 1, 1], False, 10)),
    "resnet18_cifar": ("{preset: resnet18_cifar, width: 4}", (16, 16, 3), lambda: peers.residual(peers.small_stem(4), [4, 8, 16, 32], [2, 2, 2, 2], False, 10)),
    "resnet18": ("{preset: resnet18, width: 4, classes: 10}", (128, 96, 3), lambda: peers.residual(peers.large_stem(4), [4, 8, 16, 32], [2, 2, 2, 2], False, 10)),
    "resnet50": ("{preset: resnet50, width: 8, classes: 10}", (128, 96, 3), lambda: peers.residual(peers.large_stem(8), [8, 16, 32, 64], [3, 4, 6, 3], True, 10)),
    "vgg11": ("{preset: vgg11, width: 8, hidden: 24, classes: 10, dropout: 0}", (32, 32, 3), lambda: vgg(8, 24, 10)),
    "transformer": ("{preset: transformer, vocabulary: 10, sequence: 12, d_model: 24, depth: 2, heads: 3}", 12, lambda: peers.Transformer(10, 12, 24, 2, 3)),
    "vit": ("{preset: vit, image: 12, channels: 3, patch: 4, d_model: 24, depth: 2, heads: 3, classes: 10}", (12, 12, 3), lambda: peers.Vit(12, 3, 4, 24, 2, 3, 10)),
    "lstm": ("{preset: lstm, vocabulary: 10, sequence: 12, embedding: 9, units: 14}", 12, lambda: peers.Lstm(10, 9, 14)),
    "gpt2": ("{preset: gpt2, vocabulary: 10, sequence: 12, d_model: 24, depth: 2, heads: 3}", 12, lambda: peers.Gpt2(10, 12, 24, 2, 3)),
    "unet": ("{preset: unet, depth: 2, width: 4, classes: 10}", (12, 8, 3), lambda: Unet(3, 2, 4, 10)),
    "wide_resnet": ("{preset: wide_resnet, depth: 16, widening: 1}", (16, 12, 3), lambda: wide_resnet(16, 1, 10)),
    "speech_cnn": ("{preset: speech_cnn, width: 6, kernel: 10, stride: 2}", (1200, 1), lambda: speech_cnn(6, 10, 2, 10)),
}


def fill_parameters(network):
    """Fills parameters with tag 400 + number and scale 1/sqrt(fan-in); the scales of norms are around 1."""
    fan_in = 1
    for i, (name, p) in enumerate(network.named_parameters()):
        fan_in = math.prod(p.shape[1:]) if p.dim() > 1 else fan_in  # a bias: its weight's
        scale_of_norm = p.dim() == 1 and name.endswith("weight")
        p.data = 1 + tensor(400 + i, p.shape, 0.1) if scale_of_norm else tensor(400 + i, p.shape, 1 / math.sqrt(fan_in))


def train(network, shape, rate=0.01, dtype=torch.float64):
    """Losses of 20 steps of SGD with momentum on two batches of 8 in turns."""
    tokens_only = isinstance(shape, int)
    optimizer = torch.optim.SGD(network.parameters(), lr=rate, momentum=0.9)
    losses = []
    for step in range(20):
        version = step % 2
        if tokens_only:
            x, targets = tokens(500 + version, (8, shape), 10), tokens(510 + version, (8, shape), 10)
        else:
            x, targets = tensor(500 + version, (8, *shape)).to(dtype), None
        optimizer.zero_grad()
        y = network(x).flatten(0, -2)
        targets = torch.tensor([(3 * i + version) % 10 for i in range(len(y))]) if targets is None else targets  # one for each position
        loss = F.cross_entropy(y, targets.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def make_curves():
    cases = []
    for name, (model, shape, function, parameters) in CURVES.items():
        cases.append({"name": name, "model": model, "input": shape, "losses": train(Network(parameters, function), shape)})
    for name, (model, shape, make) in PRESETS.items():
        rate = {"resnet50": 0.0001, "resnet18": 0.001, "resnet18_cifar": 0.001}.get(name, 0.01)
        curves = []
        for dtype in (torch.float64, torch.float32):
            network = make().double()
            fill_parameters(network)
            network.to(dtype)
            run = network if isinstance(shape, int) else lambda x, network=network: network(to_nchw(x))
            run.parameters = network.parameters
            with torch.backends.mkldnn.flags(enabled=False):  # MKL-DNN's gradients of small convolutions crash in 2.15
                curves.append(train(run, shape, rate, dtype))
        # Learning rates are small where many norms of few values amplify rounding errors. Deviation of PyTorch's own fp32 from its fp64:
        deviation = max(abs(single / double - 1) for double, single in zip(*curves))
        cases.append({"name": name, "model": model, "input": [shape] if isinstance(shape, int) else shape, "learning_rate": rate,
                      "deviation": deviation, "losses": curves[0]})
    for case in cases:
        case |= {"learning_rate": case.get("learning_rate", 0.01), "deviation": case.get("deviation", 0), "momentum": 0.9}
    save("curves.json", cases)


def make_predictions():
    """Outputs of the same networks in evaluation, before any training."""
    cases, examples = [], 8
    for name, (_, shape, function, parameters) in CURVES.items():
        cases.append({"name": name, "outputs": numbers(Network(parameters, function)(tensor(500, (examples, *shape))))})
    for name, (_, shape, make) in PRESETS.items():
        network = make().double()
        fill_parameters(network)
        network.eval()
        with torch.no_grad():
            cases.append({"name": name, "outputs": numbers(network(tokens(500, (examples, shape), 10)) if isinstance(shape, int)
                                                           else network(to_nchw(tensor(500, (examples, *shape)))))})
    save("predictions.json", cases)


if __name__ == "__main__":
    make_layers()
    make_losses()
    make_metrics()
    make_areas()
    make_samplers()
    make_optimizers()
    make_outer_steps()
    make_schedules()
    make_scalers()
    make_curves()
    make_predictions()
    print(f"made with PyTorch {torch.__version__}")
