# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One network in Lockstep and in PyTorch, in fp64: loss, gradients, running statistics and outputs.

A case is a dictionary. `deck` is the deck, less its files; each of its layers has a name and is written out as {type: options, ...}.
`inputs` says what an example is, `examples` how many there are, and `seed` is that of all numbers; with a preset, `output` is the shape of
its output. PyTorch reads the deck itself: by the table LAYERS, whose functions are those of tests/golden/make_golden.py, or for a preset
by MODULES, most of which are those of perf/peers/pytorch.py.
"""
import csv
import json
import math
import os
import pathlib
import re
import shlex
import subprocess
import sys
import warnings
import zlib
from typing import NamedTuple

import h5py
import numpy as np
import torch
import torch.nn.functional as F

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/golden"))
import make_golden as golden  # noqa: E402
from make_golden import peers  # noqa: E402

# An array may differ by TOLERANCE of its largest magnitude: fp64 rounds to 1e-16, and sums here have at most some thousand terms.
# Norms of nearly equal values and gradients that cancel enlarge roundings, in PyTorch as here. How much, PyTorch's own fp32 shows, which
# is 2^29 times as coarse: an array may also differ by CONDITION of what fp32 and fp64 differ by there (the measure of golden_curve_test).
# What is small because larger numbers cancel may differ by NOISE of these: a gradient by that of the largest gradient, and running
# statistics, which move from their old values to new ones, by that of the old ones.
TOLERANCE, CONDITION, NOISE = 1e-10, 1e-6, 1e-14
PRINTED = 1e-8  # of numbers in metrics.csv, which have 9 digits
RATE = 2.0**30  # learning rate of the step: parameters move so far that the difference is the gradient to its last bits

warnings.filterwarnings("ignore", "TF32 acceleration")  # PyTorch warns of flags that it sets itself


def shapes_of_window(options, shape):
    weight = (options["filters"], shape[-1] // options["groups"]) + (options["kernel"],) * (len(shape) - 1)
    return {"weight": weight, **bias(options, options["filters"])}


def shapes_of_transposed(options, shape):
    weight = (shape[-1], options["filters"] // options["groups"], options["kernel"], options["kernel"])
    return {"weight": weight, **bias(options, options["filters"])}


def bias(options, count):
    return {"bias": (count,)} if options["bias"] else {}


def shapes_of_norm(options, shape):
    return {"weight": shape[-1:], "bias": shape[-1:]}


def shapes_of_attention(options, shape, *memory):
    return dict(zip(("qkv_weight", "qkv_bias", "out_weight", "out_bias"), golden.attention_shapes(shape[-1])))


def shapes_of_recurrent(gates):
    def shapes(options, shape):
        one = dict(zip(("weight_ih", "weight_hh", "bias_ih", "bias_hh"), golden.recurrent_shapes(gates, shape[-1], options["units"])))
        return one | ({name + "_reverse": shape for name, shape in one.items()} if options["bidirectional"] else {})

    return shapes


def none(options, *shapes):
    return {}


def pooling(function):
    return lambda o: golden.spatial(function, kernel_size=o["kernel"], stride=o.get("stride"), padding=o["padding"])


def along(axes, rank):
    """Axes of a batch of examples."""
    return [axis % rank + 1 for axis in axes]


def sliced(x, axis, begin, end=None):
    axis, = along([axis], x.dim() - 1)
    return x[(slice(None),) * axis + (slice(begin, end),)]


def reduced(function):
    return lambda o: lambda x: function(x, along(o["axes"], x.dim() - 1))


# For each type: the shapes of its parameters by the options and the shapes of its inputs, and its function by the options.
# `batch_norm` is a function of the running statistics, too: see `Network`.
LAYERS = {
    "linear": (lambda o, shape: {"weight": (o["features"], shape[-1]), **bias(o, o["features"])}, lambda o: F.linear),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), (shapes_of_window, lambda o: golden.conv(o["stride"], o["padding"], o["groups"]))),
    "conv_transpose2d": (shapes_of_transposed, lambda o: golden.spatial(
        F.conv_transpose2d, stride=o["stride"], padding=o["padding"], output_padding=o["output_padding"], groups=o["groups"])),
    "batch_norm": (lambda o, shape: dict.fromkeys(("weight", "bias", "running_mean", "running_var"), shape[-1:]), None),
    "layer_norm": (shapes_of_norm, lambda o: golden.layer_norm(o["epsilon"])),
    "rms_norm": (lambda o, shape: {"weight": shape[-1:]}, lambda o: lambda x, weight: F.rms_norm(x, x.shape[-1:], weight, o["epsilon"])),
    "group_norm": (shapes_of_norm, lambda o: golden.group_norm(o["groups"], o["epsilon"])),
    "relu": (none, lambda o: F.relu),
    "gelu": (none, lambda o: lambda x: F.gelu(x, approximate=o["approximate"])),
    "silu": (none, lambda o: F.silu),
    "leaky_relu": (none, lambda o: lambda x: F.leaky_relu(x, o["slope"])),
    "elu": (none, lambda o: lambda x: F.elu(x, o["alpha"])),
    "tanh": (none, lambda o: torch.tanh),
    "sigmoid": (none, lambda o: torch.sigmoid),
    "softmax": (none, lambda o: lambda x: F.softmax(x, -1)),
    "max_pool": (none, pooling(F.max_pool2d)),
    "avg_pool": (none, pooling(F.avg_pool2d)),
    "max_pool1d": (none, pooling(F.max_pool1d)),
    "avg_pool1d": (none, pooling(F.avg_pool1d)),
    "max_pool3d": (none, pooling(F.max_pool3d)),
    "avg_pool3d": (none, pooling(F.avg_pool3d)),
    "global_avg_pool": (none, lambda o: lambda x: x.mean(tuple(range(1, x.dim() - 1)))),
    "upsample": (none, lambda o: golden.spatial(F.interpolate, scale_factor=o["factor"])),
    "flatten": (none, lambda o: lambda x: x.flatten(1)),
    "sequence": (none, lambda o: lambda x: x.flatten(1, 2)),
    "reshape": (none, lambda o: lambda x: x.reshape(-1, *o["shape"])),
    "permute": (none, lambda o: lambda x: x.permute(0, *along(o["order"], x.dim() - 1))),
    "slice": (none, lambda o: lambda x: sliced(x, **o)),
    "patchify": (none, lambda o: golden.patchify(o["patch"])),
    "sum": (none, reduced(torch.sum)),
    "mean": (none, reduced(torch.mean)),
    "dropout": (none, lambda o: lambda x: F.dropout(x, o["rate"])),
    "add": (none, lambda o: lambda *x: sum(x)),
    "multiply": (none, lambda o: torch.mul),
    "concat": (none, lambda o: lambda *x: torch.cat(x, -1)),
    "embedding": (lambda o, shape: {"weight": (o["vocabulary"], o["features"])}, lambda o: F.embedding),
    "embedding_tables": (lambda o, shape: {"weight": (sum(o["vocabularies"]), o["features"])},
                         lambda o: golden.embedding_tables(o["vocabularies"])),
    "dot_interaction": (none, lambda o: golden.dot_interaction),
    "position_embedding": (lambda o, shape: {"weight": (o["length"], shape[-1])}, lambda o: lambda x, weight: x + weight[: x.shape[1]]),
    "position_encoding": (none, lambda o: golden.position_encoding),
    "attention": (shapes_of_attention, lambda o: golden.attention(o["heads"], o["causal"], o["rotary"] and o["rotary_base"])),
    "cross_attention": (shapes_of_attention, lambda o: golden.cross_attention(o["heads"])),
    "lstm": (shapes_of_recurrent(4), lambda o: golden.recurrent(torch.nn.LSTM, o["bidirectional"])),
    "gru": (shapes_of_recurrent(3), lambda o: golden.recurrent(torch.nn.GRU, o["bidirectional"])),
}


def cross_entropy(y, targets, label_smoothing=0.0, class_weights=None, ignore_class=-100):
    weights = class_weights and torch.tensor(class_weights, dtype=y.dtype)
    return F.cross_entropy(y.flatten(0, -2), targets.flatten(), weights, ignore_index=ignore_class, label_smoothing=label_smoothing)


def relative_l2(y, targets):
    return ((y - targets).flatten(1).norm(dim=1) / (targets.flatten(1).norm(dim=1) + 1e-8)).mean()


# Each is a mean over the batch.
LOSSES = {"cross_entropy": cross_entropy, "mse": F.mse_loss, "mae": F.l1_loss, "huber": F.huber_loss,
          "binary_cross_entropy": F.binary_cross_entropy_with_logits, "relative_l2": relative_l2}


def entries(layers):
    """The name, the type, the options and the names of the inputs of each layer; the data are the input "data"."""
    before = "data"
    for entry in layers:
        kind = next(key for key in entry if key not in ("name", "from"))
        yield entry["name"], kind, entry[kind], entry.get("from", [before])
        before = entry["name"]


class Network:
    """The network of a deck in PyTorch. `make`(path, shape) makes each parameter when a layer first needs it."""

    def __init__(self, layers, make, frozen=()):
        self.layers, self.make, self.frozen, self.parameters = layers, make, frozen, {}

    def parameter(self, path, shape):
        if path not in self.parameters:
            self.parameters[path] = self.make(path, shape)
        return self.parameters[path]

    def layer(self, name, kind, options, inputs, training):
        """The output of one layer."""
        shapes, function = LAYERS[kind]
        own = shapes(options, *(tuple(x.shape[1:]) for x in inputs))
        owner = {"weight": options.get("tied_to", name)}
        parameters = [self.parameter(f"{owner.get(parameter, name)}/{parameter}", shape) for parameter, shape in own.items()]
        if kind == "batch_norm":
            weight, shift, mean, variance = parameters
            norm = golden.BatchNorm(options["momentum"], options["epsilon"])
            return norm.run(inputs, (weight, shift), mean, variance, training and name not in self.frozen)
        return function(options)(*inputs, *parameters)

    def __call__(self, x, training):
        values = {"data": x}
        for name, kind, options, inputs in entries(self.layers):
            y = values[name] = self.layer(name, kind, options, [values[i] for i in inputs], training)
        return y


def residual(large, stages, blocks, bottleneck=False):
    def make(o):
        stem = (peers.large_stem if large else peers.small_stem)(o["width"])
        return peers.residual(stem, [o["width"] << stage for stage in range(stages)], blocks, bottleneck, o["classes"])

    return make


def fully_connected(o):
    rows = [math.prod(o["input"]), *o["features"]]

    def forward(x, *p):
        x = x.flatten(1)
        for i in range(0, len(p), 2):
            x = F.linear(F.relu(x) if i > 0 else x, p[i], p[i + 1])
        return x

    return golden.Network([shape for before, after in zip(rows, rows[1:]) for shape in ((after, before), (after,))], forward)


def simple_cnn(o):
    (height, width, channels), rows = o["input"], [o["filters1"], o["filters2"], o["hidden"], o["classes"]]
    columns = [(channels, 5, 5), (rows[0], 5, 5), (rows[1] * (height // 4) * (width // 4),), (rows[2],)]
    return golden.Network([shape for row, column in zip(rows, columns) for shape in ((row, *column), (row,))], golden.simple_cnn)


def of_tokens(make):
    return lambda o: make(o["vocabulary"], o["sequence"], o["d_model"], o["depth"], o["heads"])


# Modules of PyTorch for presets, by their options.
MODULES = {
    "fc": fully_connected,
    "simple_cnn": simple_cnn,
    "resnet8": residual(False, 3, [1, 1, 1]),
    "resnet18_cifar": residual(False, 4, [2, 2, 2, 2]),
    "resnet18": residual(True, 4, [2, 2, 2, 2]),
    "resnet34": residual(True, 4, [3, 4, 6, 3]),
    "resnet50": residual(True, 4, [3, 4, 6, 3], bottleneck=True),
    "resnet101": residual(True, 4, [3, 4, 23, 3], bottleneck=True),
    "wide_resnet": lambda o: golden.wide_resnet(o["depth"], o["widening"], o["classes"]),
    "unet": lambda o: golden.Unet(o["channels"], o["depth"], o["width"], o["classes"]),
    "speech_cnn": lambda o: golden.speech_cnn(o["width"], o["kernel"], o["stride"], o["classes"]),
    "vgg11": lambda o: golden.vgg(o["width"], o["hidden"], o["classes"]),
    "vit": lambda o: peers.Vit(o["image"], o["channels"], o["patch"], o["d_model"], o["depth"], o["heads"], o["classes"]),
    "transformer": of_tokens(peers.Transformer),
    "gpt2": of_tokens(peers.Gpt2),
    "lstm": lambda o: peers.Lstm(o["vocabulary"], o["embedding"], o["units"]),
}
CHANNELS_LAST = ("fc", "simple_cnn")  # modules that read images as Lockstep does; the others read channels first


def recommender(o):
    """The layers of the preset `recommender`, of which PyTorch has no module."""
    def perceptron(name, outputs):
        pairs = [({"linear": {"features": features, "bias": True}, "name": f"{name}{i}"}, {"relu": {}, "name": f"{name}{i}_relu"})
                 for i, features in enumerate(outputs, 1)]
        return [layer for pair in pairs for layer in pair]

    bottom = perceptron("bottom", [*o["bottom"], o["features"]])
    return [{"flatten": {}, "name": "example"}, {"slice": {"axis": 0, "begin": 0, "end": o["dense"]}, "name": "dense"}, *bottom,
            {"slice": {"axis": 0, "begin": o["dense"]}, "name": "rows", "from": ["example"]},
            {"embedding_tables": {"vocabularies": o["vocabularies"], "features": o["features"]}, "name": "tables"},
            {"dot_interaction": {}, "name": "interaction", "from": [bottom[-1]["name"], "tables"]}, *perceptron("top", [*o["top"], 1])[:-1]]


class Module:
    """A preset's network as a module of PyTorch. `names`: Lockstep's paths and shapes, in the order of the module's."""

    frozen = ()

    def __init__(self, model, names, make):
        self.channels_last = model["preset"] in CHANNELS_LAST
        self.module = MODULES[model["preset"]](model)
        theirs = [*self.module.named_parameters(), *(named for named in self.module.named_buffers() if "running_" in named[0])]
        names = sorted(names, key=lambda name: "/running_" in name[0])  # parameters first
        assert [tuple(p.shape) for _, p in theirs] == [shape for _, shape in names], (model, names)
        self.parameters = {path: make(path, shape) for path, shape in names}
        self.paths = {their: path for (their, _), (path, _) in zip(theirs, names)}

    def __call__(self, x, training):
        x = x if self.channels_last or not x.is_floating_point() else golden.to_nchw(x)
        parameters = {their: self.parameters[path] for their, path in self.paths.items()}
        return torch.func.functional_call(self.module.train(training), parameters, (x,))


def names_in_table(text):
    """Paths and shapes of all parameters, from the table in what `lockstep check` prints. Its layers stand where they are computed: a batch
    norm that also adds a shortcut stands after it, while in PyTorch's modules shortcuts come last in their block."""
    table, names, shortcut = text.partition("names in files")[2].partition("\n\n")[0], [], []
    for row in table.splitlines():
        parameters = re.findall(r"(\w+) \[([\d, ]+)\]", row)
        found = [(f"{row.split()[0]}/{name}", tuple(map(int, shape.split(", ")))) for name, shape in parameters]
        if "_shortcut_" in row:
            shortcut += found
        elif found:
            names, shortcut = names + found + shortcut, []
    return names


def numbers(case, what):
    """A source of random numbers of its own for everything, so that a case with one layer less has the same numbers elsewhere."""
    return np.random.default_rng([case["seed"], zlib.crc32(what.encode())])


def make_parameter(case, path, shape):
    source, name = numbers(case, path), path.rpartition("/")[2]
    if name == "running_var":
        return torch.from_numpy(source.uniform(0.5, 1.5, shape))
    if len(shape) > 1:
        return torch.from_numpy(source.normal(0, 1 / math.sqrt(math.prod(shape[1:])), shape))
    return torch.from_numpy(source.normal(name == "weight", 0.3, shape))


def make_inputs(case):
    """The examples as Lockstep stores them. For tokens: a row of them."""
    source, inputs, n = numbers(case, "inputs"), case["inputs"], case["examples"]
    if inputs["kind"] == "tokens":
        tokens = source.integers(0, inputs["vocabulary"], n * inputs["shape"][0] + 1).astype("i4")
        tokens[1] = 0
        return tokens
    if inputs["kind"] == "bytes":
        return source.integers(0, 256, (n, *inputs["shape"])).astype("u1")
    x = source.normal(0, 1, (n, *inputs["shape"])).astype("f4")
    for k, rows in enumerate(reversed(inputs.get("vocabularies", []))):
        x[:, -1 - k] = source.integers(0, rows, n)
    return x


def make_targets(case, output):
    """Targets for outputs of this shape, those of all examples. The first one is of class 0, as the second of tokens: a class that counts in
    every loss. (The targets of tokens are those that follow them.)"""
    source, loss, length = numbers(case, "targets"), case["deck"]["loss"], case["inputs"]["shape"][0]
    if case["inputs"]["kind"] == "tokens":
        return make_inputs(case)[1:].reshape(-1, length)
    if loss["type"] == "cross_entropy":
        targets = source.integers(0, output[-1], output[:-1]).astype("i4")
        if "ignore_class" in loss:
            targets.flat[1::3] = loss["ignore_class"]
        targets.flat[0] = 0
        return targets
    if loss["type"] == "binary_cross_entropy":
        return source.uniform(0, 1, output).astype("f4")
    return source.normal(0, 1, output).astype("f4")


def to_torch(case, inputs, dtype):
    """The examples as the network reads them."""
    if case["inputs"]["kind"] == "tokens":
        return torch.from_numpy(inputs[:-1].reshape(-1, *case["inputs"]["shape"])).long()
    return torch.from_numpy(inputs).to(dtype) / (255 if case["inputs"]["kind"] == "bytes" else 1)


class Results(NamedTuple):
    numbers: dict  # those of metrics.csv, by their names there
    arrays: dict  # by "gradient PATH", "statistics PATH" and "outputs"


def pytorch_results(case, dtype=torch.float64):
    """What PyTorch computes in one type, and the parameters and running statistics before it, by their paths."""
    torch.set_default_dtype(dtype)  # of constants in the formulas
    try:
        with torch.backends.mkldnn.flags(enabled=False):  # see make_golden.py
            return computed(case, dtype)
    finally:
        torch.set_default_dtype(torch.float64)


def computed(case, dtype):
    model, loss = case["deck"]["model"], dict(case["deck"]["loss"])

    def make(path, shape):
        return make_parameter(case, path, shape).to(dtype)

    if model.get("preset") in MODULES:
        network = Module(model, case["names"], make)
    else:
        network = Network(model.get("layers") or recommender(model), make, model.get("weights", {}).get("freeze", ()))
    x = to_torch(case, make_inputs(case), dtype)
    with torch.no_grad():
        output = tuple(network(x, False).shape)  # which makes all parameters
    start = {path: p.clone() for path, p in network.parameters.items()}
    learned = {path: p.requires_grad_() for path, p in network.parameters.items()
               if "/running_" not in path and path.rpartition("/")[0] not in network.frozen}
    targets = torch.from_numpy(make_targets(case, output))
    kind = loss.pop("type")
    value = LOSSES[kind](network(x, True), targets.long() if kind == "cross_entropy" else targets.to(dtype), **loss)
    gradients = torch.autograd.grad(value, learned.values(), allow_unused=True, materialize_grads=True)
    arrays = {f"gradient {path}": gradient for path, gradient in zip(learned, gradients)}
    norm = math.sqrt(sum(float((gradient**2).sum()) for gradient in gradients))
    arrays |= {f"statistics {path}": p for path, p in network.parameters.items() if "/running_" in path}
    with torch.no_grad():
        arrays["outputs"] = network(x, False)
    return Results({"loss": value.item(), "grad_norm": norm}, {name: a.double().numpy() for name, a in arrays.items()}), start


def write_data(case, output, folder):
    """The data, and two decks: one that takes a step, and one whose step changes no parameter, for predictions."""
    of_tokens = case["inputs"]["kind"] == "tokens"
    with h5py.File(folder / "data.h5", "w") as file:
        file["train/tokens" if of_tokens else "train/inputs"] = make_inputs(case)
        if not of_tokens:
            file["train/targets"] = make_targets(case, output)
    for name, rate in (("step", RATE), ("still", 0)):
        deck = case["deck"] | {"run": {"steps": 1, "output_dir": name, "log_every": 1}, "optimizer": {"type": "sgd", "learning_rate": rate},
                               "precision": {"compute": "fp64"}, "data": {"file": "data.h5", "shuffle": False},
                               "batch": {"global": case["examples"]} | case["deck"].get("batch", {})}
        deck["data"] |= {"sequence_length": case["inputs"]["shape"][0]} if of_tokens else {}
        (folder / f"{name}.yaml").write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in deck.items()))


def with_weights(case, start, folder):
    """Writes the parameters; the case whose deck reads them."""
    with h5py.File(folder / "weights.h5", "w") as file:
        for path, parameter in start.items():
            file[f"model/{path}"] = parameter.numpy()
    model = case["deck"]["model"]
    weights = {"file": "weights.h5", "layout": "NHWC"} | model.get("weights", {})
    return case | {"deck": case["deck"] | {"model": model | {"weights": weights}}}


class Failure(Exception):
    """The program did not do what it was asked to."""


def run_lockstep(folder, script):
    """What the program prints. It is `$lockstep` in the script, which runs in the toolchain."""
    program = os.environ.get("LOCKSTEP_PROGRAM", SOURCE / "build/serial/app/lockstep")
    command = [SOURCE / "scripts/env", "--preset", "serial", "bash", "-c", f"lockstep={shlex.quote(str(program))}; {script}"]
    try:
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired as error:
        raise Failure(f"timeout: still running after {error.timeout:.0f} s") from None
    if run.returncode != 0:
        raise Failure(f"status {run.returncode}: {run.stderr.strip()}")
    return run.stdout


def lockstep_results(names, start, folder):
    """What Lockstep has left in the folder: arrays with these names."""
    with open(folder / "step/metrics.csv", newline="") as file:
        row = next(csv.DictReader(file))
    with h5py.File(folder / "step/checkpoints/latest") as file, h5py.File(folder / "outputs.h5") as outputs:
        arrays = {name: file[f"model/{name.split()[1]}"][:] if name != "outputs" else outputs["outputs"][:] for name in names}
    for name in names:
        if name.startswith("gradient"):
            arrays[name] = (start[name.split()[1]].numpy() - arrays[name]) / RATE
    return Results({name: float(row[name]) for name in ("loss", "grad_norm")}, arrays)


def distance(a, b):
    if a.shape != b.shape:
        return math.inf
    difference = np.abs(a - b)
    return float(np.where(np.isnan(difference), math.inf, difference).max())


def differences(case, folder):
    """A line for everything in which Lockstep and PyTorch differ, and the number of arrays that were compared."""
    try:
        return compared(case, folder)
    except Failure as failure:
        return [str(failure)], 0


def compared(case, folder):
    if case["deck"]["model"].get("preset") in MODULES:
        write_data(case, (case["examples"], *case["output"]), folder)
        case = case | {"names": names_in_table(run_lockstep(folder, "$lockstep check step.yaml"))}
    theirs, start = pytorch_results(case)
    write_data(with_weights(case, start, folder), theirs.arrays["outputs"].shape, folder)
    run_lockstep(folder, "$lockstep train step.yaml && $lockstep train still.yaml && "
                         "$lockstep predict still/checkpoints/latest --data data.h5 --split train --output outputs.h5")
    ours = lockstep_results(theirs.arrays, start, folder)
    coarse, _ = pytorch_results(case, torch.float32)
    found = [f"{name}: {ours.numbers[name]:.9g}, PyTorch {value:.17g}" for name, value in theirs.numbers.items()
             if not abs(ours.numbers[name] - value) <= PRINTED * abs(value)]
    largest_gradient = max(np.abs(array).max() for name, array in theirs.arrays.items() if name.startswith("gradient"))
    for name, array in theirs.arrays.items():
        what, _, path = name.partition(" ")
        condition, difference, largest = distance(array, coarse.arrays[name]), distance(ours.arrays[name], array), np.abs(array).max()
        cancelled = largest_gradient if what == "gradient" else float(start[path].abs().max()) if what == "statistics" else 0
        allowed = max(TOLERANCE * largest, CONDITION * condition if math.isfinite(condition) else 0, NOISE * cancelled)
        if not difference <= allowed:
            found.append(f"{name}: differs by {difference:.2g} (allowed: {allowed:.2g}; largest value: {largest:.2g})")
    return found, len(theirs.arrays)
