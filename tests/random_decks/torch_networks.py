#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random networks in Lockstep and in PyTorch, in fp64: torch_networks.py --seeds 1-300 [--keep FOLDER]

Each seed gives a network of layers of all types, a loss and data. Loss, gradients, running statistics and outputs must be PyTorch's
(torch_compare.py). What differs is printed with its seed and with a smaller deck in which it differs, too. Status: 0 if nothing differs
and the tables here have every layer, preset and loss of the schema.

It needs PyTorch, NumPy and h5py. Without them it starts itself again in the Python of `perf/run peers`. LOCKSTEP_PROGRAM may name the
program (default: build/serial/app/lockstep).
"""
import argparse
import collections
import importlib.util
import json
import math
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
NEEDED = ("torch", "numpy", "h5py")


def peer_python():
    """The Python of perf/run peers, with h5py."""
    folder = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "lockstep/peers"
    python = os.environ.get("LOCKSTEP_PEER_PYTHON") or folder / "bin/python"
    imports = [python, "-c", f"import {', '.join(NEEDED)}"]
    if python == folder / "bin/python" and not (python.exists() and subprocess.run(imports, capture_output=True).returncode == 0):
        subprocess.run(["python3", "-m", "venv", folder], check=True)
        subprocess.run([folder / "bin/pip", "install", "--quiet", *NEEDED], check=True, stdout=sys.stderr)
    subprocess.run(imports, check=True)
    return python


if __name__ == "__main__" and not all(map(importlib.util.find_spec, NEEDED)):
    python = peer_python()
    os.execv(python, [python, "-B", *sys.argv])

import torch  # noqa: E402

import torch_compare  # noqa: E402
import values  # noqa: E402

LARGEST = 1500  # values of an example at any layer


# Options of a layer that reads one input, by its shape.


def divisor(r, n):
    return r.choice([d for d in range(1, n + 1) if n % d == 0])


def factors(r, count, rank):
    """A shape with this count."""
    shape = [1] * rank
    rest, p = count, 2
    while rest > 1:
        while rest % p:
            p += 1
        shape[r.randrange(rank)] *= p
        rest //= p
    return shape


def some_axes(r, shape):
    """Some of the axes, but not all; axes count from either end."""
    rank = len(shape)
    return {"axes": [axis - r.choice((0, rank)) for axis in r.sample(range(rank), r.randint(1, rank - 1))]}


def window(r, shape):
    groups = math.gcd(divisor(r, shape[-1]), r.choice((1, 1, 2, 3)))
    return {"filters": groups * r.randint(1, 4), "kernel": r.choice((1, 2, 3, 3, 4, 5)), "stride": r.choice((1, 1, 1, 2, 3)),
            "padding": r.choice(("same", "same", 0, 1, 2, 3)), "groups": groups, "bias": r.random() < 0.6}


def transposed(r, shape):
    options = window(r, shape) | {"padding": r.choice((0, 0, 1, 2)), "output_padding": r.choice((0, 0, 1, 2))}
    return options if options["output_padding"] < options["stride"] else options | {"output_padding": 0}


def pool(r, shape):
    kernel = r.choice((2, 2, 3, 4))
    options = {"kernel": kernel, "padding": r.randint(0, kernel // 2)}
    return options | ({"stride": r.randint(1, 4)} if r.random() < 0.6 else {})


def heads(r, shape):
    return {"heads": divisor(r, shape[-1])}


def attention(r, shape):
    options = heads(r, shape) | {"causal": r.random() < 0.5, "rotary_base": r.choice((10000, 50))}
    return options | {"rotary": shape[-1] // options["heads"] % 2 == 0 and r.random() < 0.5}


def cut(r, shape):
    axis = r.randrange(len(shape))
    extent = shape[axis]
    begin = r.randrange(extent)
    end = r.randint(begin + 1, extent)
    options = {"axis": axis - r.choice((0, len(shape))), "begin": begin - r.choice((0, extent))}
    return options | ({} if end == extent else {"end": end - r.choice((0, extent))})


def epsilon(r, shape):
    return {"epsilon": r.choice((1e-5, 1e-3, 0.1))}


def units(r, shape):
    return {"units": r.randint(1, 6), "bidirectional": r.random() < 0.4}


def nothing(r, shape):
    return {}


ANY, POSITIONS, IMAGES, VOLUMES = (1, 2, 3, 4), (2,), (3,), (4,)
# For each type with one input: the ranks of its input and a function that draws its options.
DRAWN = {
    "linear": ((1, 2), lambda r, shape: {"features": r.randint(1, 9), "bias": r.random() < 0.7}),
    "conv1d": (POSITIONS, window), "conv2d": (IMAGES, window), "conv3d": (VOLUMES, window), "conv_transpose2d": (IMAGES, transposed),
    "batch_norm": (ANY, lambda r, shape: epsilon(r, shape) | {"momentum": r.choice((0.1, 0.5, 1, 0))}),
    "layer_norm": (ANY, epsilon), "rms_norm": (ANY, epsilon),
    "group_norm": (ANY, lambda r, shape: epsilon(r, shape) | {"groups": divisor(r, shape[-1])}),
    "relu": (ANY, nothing), "silu": (ANY, nothing), "tanh": (ANY, nothing), "sigmoid": (ANY, nothing), "softmax": (ANY, nothing),
    "gelu": (ANY, lambda r, shape: {"approximate": r.choice(("none", "tanh"))}),
    "leaky_relu": (ANY, lambda r, shape: {"slope": r.choice((0.01, 0.2, -0.5, 0))}),
    "elu": (ANY, lambda r, shape: {"alpha": r.choice((1, 0.3, 2))}),
    "max_pool1d": (POSITIONS, pool), "max_pool": (IMAGES, pool), "max_pool3d": (VOLUMES, pool),
    "avg_pool1d": (POSITIONS, pool), "avg_pool": (IMAGES, pool), "avg_pool3d": (VOLUMES, pool),
    "global_avg_pool": ((2, 3, 4), nothing), "upsample": (IMAGES, lambda r, shape: {"factor": r.randint(1, 3)}),
    "flatten": (ANY, nothing), "sequence": (IMAGES, nothing),
    "reshape": (ANY, lambda r, shape: {"shape": factors(r, math.prod(shape), r.randint(1, 4))}),
    "permute": (ANY, lambda r, shape: {"order": r.sample(range(len(shape)), len(shape))}),
    "slice": (ANY, cut), "patchify": (IMAGES, lambda r, shape: {"patch": divisor(r, math.gcd(shape[0], shape[1]))}),
    "sum": ((2, 3, 4), some_axes), "mean": ((2, 3, 4), some_axes),
    # Other rates would compare generators of random numbers: the masks are not PyTorch's.
    "dropout": (ANY, lambda r, shape: {"rate": 0}),
    "position_embedding": (POSITIONS, lambda r, shape: {"length": shape[0] + r.choice((0, 0, 3))}), "position_encoding": (POSITIONS, nothing),
    "attention": (POSITIONS, attention), "lstm": (POSITIONS, units), "gru": (POSITIONS, units),
}
# Types with several inputs, and those that read data of their own kind: methods of `Draft` draw them.
JOINING = ("add", "multiply", "concat", "cross_attention", "dot_interaction")
READING = ("embedding", "embedding_tables")
TAKING_ACTIVATIONS = ("linear", "conv1d", "conv2d", "conv3d", "conv_transpose2d", "batch_norm", "add")  # activations that follow are fused
ACTIVATIONS = ("relu", "relu", "relu", "gelu", "silu", "leaky_relu", "elu", "tanh", "sigmoid")
# Options that say how parameters start, which a file gives here.
STARTS = {"initializer", "initial_std", "out_initial_std", "zero_gamma"}


class Misfit(Exception):
    """A layer that does not fit its input, or makes too much of it."""


class Draft:
    """A network that grows layer by layer. PyTorch computes each layer's output for two examples of zeros, which tells its shape."""

    def __init__(self, r, inputs):
        self.r, self.layers = r, []
        zeros = torch.zeros(2, *inputs["shape"], dtype=torch.long if inputs["kind"] == "tokens" else None)
        self.outputs = {"data": zeros}
        self.loose = ["data"]  # outputs that no layer reads yet
        self.largest = LARGEST

    def shape(self, name):
        return tuple(self.outputs[name].shape[1:])

    def count(self, name):
        return math.prod(self.shape(name))

    def newest(self):
        return self.layers[-1]["name"] if self.layers else "data"

    def add(self, kind, inputs, **options):
        """Appends a layer and returns its name."""
        name = f"{kind}{len(self.layers) + 1}"
        network = torch_compare.Network([], lambda path, shape: torch.zeros(shape))
        try:
            with torch.no_grad():
                y = network.layer(name, kind, options, [self.outputs[i] for i in inputs], False)
        except (RuntimeError, ValueError, AssertionError) as error:
            raise Misfit from error
        if not 0 < y[0].numel() <= self.largest or not 2 <= y.dim() <= 5:
            raise Misfit
        entry = {kind: options, "name": name} | ({"from": inputs} if inputs != [self.newest()] or self.r.random() < 0.2 else {})
        if inputs == ["data"]:
            entry.pop("from", None)  # the data have no name
        self.layers.append(entry)
        self.outputs[name] = y
        self.loose = [i for i in self.loose if i not in inputs] + [name]
        return name

    def drawn(self, kind, name):
        """Appends a layer with one input. Options that do not fit are drawn again."""
        for _ in range(8):
            try:
                return self.add(kind, [name], **DRAWN[kind][1](self.r, self.shape(name)))
            except Misfit:
                pass
        raise Misfit

    def pick(self, *skipped):
        """An output to read: mostly the newest, otherwise one that nothing reads yet, or any."""
        if not self.layers:
            return "data"
        chance = self.r.random()
        if chance < 0.6 and self.newest() not in skipped:
            return self.newest()
        names = [name for name in (self.loose if chance < 0.85 else self.outputs) if name != "data" and name not in skipped]
        return self.r.choice(names) if names else self.newest()

    def of_rank(self, name, ranks):
        """This output, or the same values in another shape if its rank is not among these."""
        if len(self.shape(name)) in ranks:
            return name
        return self.add("reshape", [name], shape=factors(self.r, self.count(name), self.r.choice(ranks)))

    def fitted(self, name, places, channels=None):
        """This output as an array `places` × channels."""
        shape = self.shape(name)
        if shape[:-1] == places and channels in (None, shape[-1]):
            return name
        vector = name if len(shape) == 1 else self.add("flatten", [name])
        channels = channels or self.r.randint(1, 3)
        vector = self.add("linear", [vector], features=math.prod(places) * channels, bias=True)
        return self.add("reshape", [vector], shape=[*places, channels]) if places else vector

    def join(self, kind):
        """Joins two or three outputs; those of another shape are fitted."""
        first = self.pick()
        if first == "data":
            first = self.drawn("tanh", first)
        if kind == "dot_interaction":
            d = self.r.randint(1, 5)
            return self.add(kind, [self.fitted(first, (), d), self.fitted(self.pick(first), (self.r.randint(1, 4),), d)])
        if kind == "cross_attention":
            first = self.of_rank(first, POSITIONS)
            memory = self.fitted(self.pick(first), (self.r.randint(1, 6),), self.shape(first)[-1])
            return self.add(kind, [first, memory], **heads(self.r, self.shape(first)))
        places, channels = self.shape(first)[:-1], None if kind == "concat" else self.shape(first)[-1]
        others = [self.pick(first) for _ in range(self.r.choice((1, 1, 2)) if kind != "multiply" else 1)]
        inputs = [first, *(self.fitted(other, places, channels) for other in others)]
        self.r.shuffle(inputs)
        return self.add(kind, inputs)

    def residual(self):
        """A block with a shortcut around it, as in residual networks and transformers: sums and activations that layers take over."""
        r, start = self.r, self.pick()
        if start == "data":
            start = self.drawn("tanh", start)
        x = start
        norms = r.choice((("batch_norm",), ("batch_norm", "layer_norm", "rms_norm")))
        channels = self.shape(start)[-1]
        for _ in range(r.randint(1, 2)):
            if r.random() < 0.5:
                x = self.drawn(r.choice(norms), x)
            if len(self.shape(x)) < 3:
                x = self.add("linear", [x], features=channels, bias=r.random() < 0.5)
            else:
                x = self.add("conv2d" if len(self.shape(x)) == 3 else "conv3d", [x], filters=channels, kernel=r.choice((1, 3)), stride=1,
                             padding="same", groups=1, bias=r.random() < 0.5)
            if r.random() < 0.7:
                x = self.drawn(r.choice(norms), x)
            if r.random() < 0.5:
                x = self.drawn(r.choice(ACTIVATIONS), x)
        x = self.add("add", [x, start] if r.random() < 0.5 else [start, x])
        return self.drawn(r.choice(ACTIVATIONS), x) if r.random() < 0.7 else x

    def grow(self):
        """Appends one layer of a random type, or a few."""
        kind = self.r.choice([*DRAWN, *JOINING, *("residual",) * 6])
        if kind == "residual":
            return self.residual()
        x = self.join(kind) if kind in JOINING else self.drawn(kind, self.of_rank(self.pick(), DRAWN[kind][0]))
        if kind in TAKING_ACTIVATIONS and self.r.random() < 0.5:
            x = self.drawn(self.r.choice(ACTIVATIONS), x)
        return x

    def head(self, places, outputs, **options):
        """Ends the network with an array `places` × outputs that depends on all that nothing reads yet. It may be large."""
        self.largest = math.inf
        ends = [self.fitted(name, places) for name in list(self.loose)]
        end = ends[0] if len(ends) == 1 else self.add("concat", ends)
        if len(places) < 2:
            return self.add("linear", [end], features=outputs, **{"bias": self.r.random() < 0.7} | options)
        kind = "conv2d" if len(places) == 2 else "conv3d"
        return self.add(kind, [end], filters=outputs, kernel=1, stride=1, padding=0, groups=1, bias=True)


def draw_inputs(r):
    kind = r.choice(("vectors", "sequences", "images", "images", "volumes", "tokens", "rows", "bytes"))
    small = r.randint
    if kind == "tokens" and r.random() < 0.1:  # so many outputs that the last layer is computed in tiles of 16 MB
        return {"kind": kind, "shape": [9], "vocabulary": 24000, "examples": 40}
    if kind == "tokens":
        return {"kind": kind, "shape": [small(1, 9)], "vocabulary": small(2, 12)}
    if kind == "rows":
        tables = [small(1, 9) for _ in range(small(1, 4))]
        return {"kind": kind, "shape": [r.choice((0, small(1, 6))) + len(tables)], "vocabularies": tables}
    shape = {"vectors": [small(1, 20)], "sequences": [small(1, 10), small(1, 6)], "images": [small(1, 11), small(1, 11), small(1, 5)],
             "volumes": [small(1, 6), small(1, 6), small(1, 6), small(1, 3)], "bytes": [small(1, 11), small(1, 11), small(1, 5)]}[kind]
    return {"kind": kind, "shape": shape}


def first_layers(draft, r, inputs):
    """The layers that read tokens and row numbers."""
    if inputs["kind"] == "tokens":
        draft.add("embedding", ["data"], vocabulary=inputs["vocabulary"], features=r.randint(2, 8))
    elif inputs["kind"] == "rows":
        tables, dense = inputs["vocabularies"], inputs["shape"][0] - len(inputs["vocabularies"])
        rows = "data"
        if dense:
            example = draft.add("flatten", ["data"])
            draft.drawn("linear", draft.add("slice", [example], axis=0, begin=0, end=dense))
            rows = draft.add("slice", [example], axis=0, begin=dense)
        draft.add("embedding_tables", [rows], vocabularies=tables, features=r.randint(1, 5))


def draw_loss(r, output, tokens):
    """A loss for outputs of this shape."""
    of_classes = output[-1] > 1 and (len(output) == 1 or math.prod(output[:-1]) > 1)  # N×1 classes are refused: they are N
    kinds = [kind for kind in torch_compare.LOSSES if of_classes or kind != "cross_entropy"]
    kind = "cross_entropy" if tokens or of_classes and r.random() < 0.4 else r.choice(kinds)
    loss = {"type": kind}
    if kind == "huber":
        loss["delta"] = r.choice((1, 0.3, 2.5))
    if kind == "cross_entropy":
        if r.random() < 0.4:
            loss["label_smoothing"] = r.choice((0.1, 0.5))
        if r.random() < 0.4 and output[-1] < 100:  # eighths, which are exact: see "Losses" in docs/user/models.md
            loss["class_weights"] = [r.randint(1, 16) / 8, *(r.randint(0, 16) / 8 for _ in range(output[-1] - 1))]
        if r.random() < 0.4:
            loss["ignore_class"] = r.choice((255, output[-1] - 1))
    return loss


def learn(layers):
    """Names of the layers that have parameters."""
    return [name for name, kind, _, _ in torch_compare.entries(layers) if torch_compare.LAYERS[kind][0] is not torch_compare.none]


def draw_layers(r, inputs):
    """Layers for these inputs, and the shape of their output."""
    draft = Draft(r, inputs)
    first_layers(draft, r, inputs)
    for _ in range(r.choice((2, 3, 4, 6, 8, 12))):
        try:
            draft.grow()
        except Misfit:
            pass
    if inputs["kind"] == "tokens":
        embedding, places = draft.layers[0], tuple(inputs["shape"])
        if len(draft.loose) == 1 and r.random() < 0.6:  # the last layer has the embedding's weight
            draft.fitted(draft.newest(), places, embedding["embedding"]["features"])
            draft.head(places, inputs["vocabulary"], tied_to=embedding["name"])
        else:
            draft.head(places, max(2, inputs["vocabulary"]) + r.choice((0, 2)))
    elif not learn(draft.layers) or len(draft.loose) > 1 or r.random() < 0.7:
        draft.head(r.choice(((), draft.shape(draft.newest())[:-1])), r.choice((1, 2, 3, 5, 8)))
    return draft.layers, draft.shape(draft.newest())


# For each preset: its options, and the shape of an example, or of tokens.


def classes(r, **options):
    return options | {"classes": r.choice((2, 3, 7))}


def residual(extent, most):
    def draw(r):
        shape = [r.randint(extent, extent + 9), r.randint(extent, extent + 9), 3]
        return classes(r, width=r.randint(1, most), input=shape, zero_gamma=r.random() < 0.3), shape

    return draw


def language(r, **options):
    length, heads = r.randint(1, 9), r.randint(1, 3)
    options = {"vocabulary": r.randint(2, 11), "sequence": length} | options
    return options | ({} if "units" in options else {"d_model": heads * r.randint(1, 4), "depth": r.randint(1, 2), "heads": heads}), [length]


def unet(r):
    depth = r.randint(1, 2)
    side, channels = r.randint(1, 3) << depth, r.randint(1, 3)
    return classes(r, image=side, channels=channels, depth=depth, width=r.randint(1, 3)), [side, side, channels]


def vit(r):
    patch, across, channels, heads = r.randint(1, 4), r.randint(1, 3), r.randint(1, 3), r.randint(1, 3)
    options = {"image": patch * across, "channels": channels, "patch": patch}
    return classes(r, **options, d_model=heads * r.randint(1, 4), depth=r.randint(1, 2), heads=heads), [patch * across, patch * across, channels]


def speech_cnn(r):
    samples = r.randint(1100, 1400)
    return classes(r, samples=samples, width=r.randint(1, 3), kernel=r.randint(1, 12), stride=r.randint(1, 3)), [samples, 1]


def recommender(r):
    tables, dense = [r.randint(1, 9) for _ in range(r.randint(1, 4))], r.randint(1, 5)
    options = {"dense": dense, "vocabularies": tables, "features": r.randint(1, 4)}
    return options | {name: [r.randint(1, 6) for _ in range(r.randint(1, 2))] for name in ("bottom", "top")}, [dense + len(tables)]


def plain(r, shape, **options):
    return options | {"input": shape}, shape


PRESETS = {
    "resnet8": residual(5, 4), "resnet18_cifar": residual(9, 3), "resnet18": residual(33, 2), "resnet34": residual(33, 2),
    "resnet50": residual(33, 1), "resnet101": residual(33, 1),
    "wide_resnet": lambda r: plain(r, [r.randint(5, 12), r.randint(5, 12), 3], **classes(r, depth=r.choice((10, 16)), widening=1)),
    "unet": unet, "vit": vit, "speech_cnn": speech_cnn,
    "vgg11": lambda r: plain(r, [32, 32, 3], **classes(r, width=r.randint(1, 2), hidden=r.randint(1, 9), dropout=0)),
    "transformer": language, "gpt2": language, "lstm": lambda r: language(r, embedding=r.randint(1, 6), units=r.randint(1, 6)),
    "recommender": recommender,
    "fc": lambda r: plain(r, [r.randint(1, 6), r.randint(1, 6), r.randint(1, 3)],
                          features=[r.randint(2, 9) for _ in range(r.randint(1, 3))]),
    "simple_cnn": lambda r: plain(r, [r.randint(4, 9), r.randint(4, 9), r.randint(1, 3)],
                                  **classes(r, filters1=r.randint(1, 4), filters2=r.randint(1, 4), hidden=r.randint(1, 9))),
}
OF_BATCH_NORMS = ("resnet8", "resnet18_cifar", "resnet18", "resnet34", "resnet50", "resnet101", "wide_resnet", "speech_cnn")


def draw_preset(r):
    """Inputs, a model, and the shape of its output."""
    preset = r.choice(list(PRESETS))
    options, shape = PRESETS[preset](r)
    model = {"preset": preset} | options
    if preset == "recommender":
        return {"kind": "rows", "shape": shape, "vocabularies": options["vocabularies"]}, model, (1,)
    if "vocabulary" in options:
        return {"kind": "tokens", "shape": shape, "vocabulary": options["vocabulary"]}, model, (*shape, options["vocabulary"])
    outputs = options["classes"] if "classes" in options else options["features"][-1]
    return {"kind": "values", "shape": shape}, model, (*shape[:2], outputs) if preset == "unet" else (outputs,)


def draw_case(seed):
    """The case of a seed: see torch_compare."""
    r = random.Random(seed)
    if r.random() < 0.1:
        inputs, model, output = draw_preset(r)
    else:
        inputs = draw_inputs(r)
        layers, output = draw_layers(r, inputs)
        model = {"layers": layers}
        frozen = [name for name in learn(layers) if r.random() < 0.5]
        tied = any("tied_to" in options for _, _, options, _ in torch_compare.entries(layers))  # both or neither may be frozen
        if r.random() < 0.1 and not tied and 0 < len(frozen) < len(learn(layers)):
            model["weights"] = {"freeze": frozen}
    deck = {"model": model, "loss": draw_loss(r, output, inputs["kind"] == "tokens")}
    examples = inputs.get("examples") or r.choice((1, 2, 3, 5, 8, 13, 40))
    if r.random() < 0.4:
        model["activation_checkpointing"] = "blocks"
    kinds = {kind for _, kind, _, _ in torch_compare.entries(model.get("layers", []))}
    if model.get("preset") in OF_BATCH_NORMS or "batch_norm" in kinds:
        examples = max(examples, 4)  # of fewer, norms would leave little but roundings
    elif r.random() < 0.5:
        deck["batch"] = {"micro": r.randint(1, examples)}
    if r.random() < 0.3:
        deck["providers"] = {key: "portable" for key in ("matmul", "convolution", "attention", "recurrent") if r.random() < 0.5}
    return {"seed": seed, "inputs": inputs, "output": output, "examples": examples, "deck": deck}


# Smaller cases that fail alike.


def without_layer(layers, removed, taken):
    """These layers without one of them: its input `taken` comes in its place. Layers that nothing reads then go, too."""
    found = [(name, kind, options, [taken if i == removed else i for i in inputs])
             for name, kind, options, inputs in torch_compare.entries(layers) if name != removed]
    last, read = found[-1][0], None
    while read is None or len(found) > count:
        count, read = len(found), {i for _, _, _, inputs in found for i in inputs}
        found = [layer for layer in found if layer[0] in read or layer[0] == last]
    if any("data" in inputs for _, _, _, inputs in found[1:]):
        return None  # only the first layer reads the data
    return [{kind: options, "name": name} | ({} if inputs == ["data"] else {"from": inputs}) for name, kind, options, inputs in found]


def smaller_cases(case):
    """Cases with a key less, fewer examples, or a layer less."""
    deck = case["deck"]
    for key in ("batch", "providers"):
        if key in deck:
            yield case | {"deck": {k: v for k, v in deck.items() if k != key}}
    for section in ("model", "loss"):
        for key in ("weights", "activation_checkpointing", "label_smoothing", "class_weights", "ignore_class"):
            if key in deck[section]:
                yield case | {"deck": deck | {section: {k: v for k, v in deck[section].items() if k != key}}}
    if case["examples"] > 1:
        yield case | {"examples": case["examples"] // 2}
    layers = deck["model"].get("layers", [])
    for name, _, _, inputs in [*torch_compare.entries(layers)][-2::-1]:
        for taken in dict.fromkeys(inputs):
            if less := without_layer(layers, name, taken):
                yield case | {"deck": deck | {"model": deck["model"] | {"layers": less}}}


def kinds(found):
    """What differs, without names and numbers."""
    return {re.sub(r"'[^']*'|\S*\d\S*", "", line) if re.match("status|timeout", line) else re.match(r"\w+", line)[0] for line in found}


def shrunk(case, found, tries=100):
    """A smaller case in which something of the same kind differs, and what differs there."""
    candidates = smaller_cases(case)
    for _ in range(tries):
        candidate = next(candidates, None)
        if candidate is None:
            break
        with tempfile.TemporaryDirectory(prefix="lockstep-torch-") as folder:
            try:
                found_there, _ = torch_compare.differences(candidate, pathlib.Path(folder))
            except (RuntimeError, ValueError, AssertionError, IndexError):
                continue  # the rest does not fit together
        if kinds(found_there) & kinds(found):
            case, found, candidates = candidate, found_there, smaller_cases(candidate)
    return case, found


def compare(seed, folder):
    """What differs between Lockstep and PyTorch for a seed: lines of text. The folder gets the files."""
    return torch_compare.differences(draw_case(seed), pathlib.Path(folder))[0]


def parts(case):
    """What a case draws: types of layers and their options, as "type.option", its preset, its loss, and ways of computing."""
    deck = case["deck"]
    model, loss = deck["model"], deck["loss"]
    layers = [*torch_compare.entries(model.get("layers", []))]
    found = {kind for _, kind, _, _ in layers} | {f"{kind}.{key}" for _, kind, options, _ in layers for key in options}
    found |= {f"loss {loss['type']}", *(f"loss {loss['type']}: {key}" for key in loss if key != "type")}
    found |= {f"preset {model['preset']}"} if "preset" in model else set()
    ways = {"micro-batches": "batch" in deck, "portable providers": "providers" in deck, "frozen layers": "weights" in model,
            "recomputed activations": "activation_checkpointing" in model}
    return found | {way for way, taken in ways.items() if taken}


def report(drawn, schema):
    """Prints how many networks had which parts; returns whether tables here lack a type of the schema."""
    print("| part | networks |\n|---|--:|", *(f"| {part} | {count} |" for part, count in sorted(drawn.items()) if "." not in part), sep="\n")
    options = values.layer_options(schema)
    model, loss = schema["properties"]["model"]["properties"], schema["properties"]["loss"]["properties"]
    known = {"layer": torch_compare.LAYERS.keys() & {*DRAWN, *JOINING, *READING}, "preset": PRESETS, "loss": torch_compare.LOSSES}
    types = {"layer": options, "preset": model["preset"]["enum"], "loss": loss["type"]["enum"]}
    missing = [f"{kind} {name}" for kind in types for name in types[kind] if name not in known[kind]]
    for name in missing:
        print(f"NOT COVERED: {name}: give it a line in the tables of torch_networks.py and torch_compare.py")
    unseen = [f"{kind}.{key}" for kind in options for key in options[kind] if key not in STARTS and f"{kind}.{key}" not in drawn]
    if unseen:
        print(f"options that these seeds have not drawn: {', '.join(unseen)}")
    return bool(missing)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", required=True, help="first and last, as 1-300")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the files of cases that fail")
    options = parser.parse_args()
    first, last = map(int, options.seeds.split("-"))
    schema = json.loads(torch_compare.run_lockstep(SOURCE, "$lockstep schema"))
    drawn, arrays, failed = collections.Counter(), 0, []
    for seed in range(first, last + 1):
        case = draw_case(seed)
        drawn.update(parts(case))
        with tempfile.TemporaryDirectory(prefix="lockstep-torch-") as folder:
            found, compared = torch_compare.differences(case, pathlib.Path(folder))
        arrays += compared
        if found:
            failed.append(str(seed))
            case, found = shrunk(case, found)
            folder = (options.keep or pathlib.Path(tempfile.mkdtemp(prefix="lockstep-torch-"))) / str(seed)
            folder.mkdir(parents=True)
            torch_compare.differences(case, folder)
            print(f"seed {seed}: " + "\n  ".join(found), (folder / "step.yaml").read_text() + f"files: {folder}\n", sep="\n", flush=True)
    print(f"{last - first + 1} networks, {arrays} arrays, {len(failed)} failed{': seeds ' * bool(failed)}{', '.join(failed)}\n")
    missing = report(drawn, schema)
    sys.exit(1 if failed or missing else 0)


if __name__ == "__main__":
    main()
