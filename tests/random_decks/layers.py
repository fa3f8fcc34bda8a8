# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Lists of random layers, whose shapes fit each other."""
import math

import values

# Options that change the shape of the output, or need other layers: the functions below choose them.
CHOSEN = {"features", "filters", "kernel", "stride", "padding", "output_padding", "groups", "units", "heads", "bidirectional", "rotary",
          "rotary_base", "factor", "patch",
          "shape", "order", "axis", "axes", "begin", "end", "vocabulary", "vocabularies", "length", "tied_to"}


class Layers:
    """A list of layers that grows. `shape` is that of its output: (features), (positions, channels), or images or volumes with channels
    last."""

    def __init__(self, chance, schema, shape):
        self.chance, self.shape, self.entries = chance, tuple(shape), []
        self.options = values.layer_options(schema)

    def add(self, kind, shape=None, inputs=None, **keys):
        """Adds a layer with these options, and with some of its other options at random values."""
        for key, option in self.options[kind].items():
            if key not in keys and key not in CHOSEN and self.chance.random() < 0.15:
                keys[key] = values.value(self.chance, option)
        if "initializer" in keys:
            keys.pop("initial_std", None)  # one of the two
        self.entries.append({kind: keys, **({"from": inputs} if inputs else {})})
        self.shape = tuple(shape or self.shape)

    def name(self):
        """Names the newest layer, and returns the name. (The data have no name: a layer is put after them.)"""
        if not self.entries:
            self.add("tanh")
        return self.entries[-1].setdefault("name", f"layer{len(self.entries)}")

    def list(self):
        """The layers as a deck has them: a layer without options is its type alone."""
        return [next(iter(entry)) if len(entry) == 1 and entry[next(iter(entry))] == {} else entry for entry in self.entries]


def small(chance):
    return chance.choice((2, 3, 3, 4, 5, 6, 7))


def divisor(chance, number):
    return chance.choice([d for d in range(1, number + 1) if number % d == 0])


def activation(net):
    net.add(net.chance.choice(("relu", "relu", "tanh", "tanh", "gelu", "silu", "sigmoid", "leaky_relu", "elu", "softmax")))


def norm(net):
    kind = net.chance.choice(("batch_norm", "batch_norm", "layer_norm", "rms_norm", "group_norm"))
    net.add(kind, **({"groups": divisor(net.chance, net.shape[-1])} if kind == "group_norm" else {}))


def dropout(net):
    net.add("dropout", rate=net.chance.choice((0, 0.1, 0.3, 0.5)))


def linear(net):
    width = small(net.chance)
    net.add("linear", (*net.shape[:-1], width), features=width)


def residual(net):
    """A branch that is added to its input, multiplied with it, or joined to it."""
    trunk, width = net.name(), net.shape[-1]
    if len(net.shape) == 3:
        net.add("conv2d", filters=width, kernel=3, padding="same")
    else:
        net.add("linear", features=width)
    activation(net)
    join = net.chance.choice(("add", "add", "multiply", "concat"))
    net.add(join, (*net.shape[:-1], width * (2 if join == "concat" else 1)), [net.name(), trunk])


def window(net, kind):
    """A convolution or a pooling, with any kernel, stride and padding that fits."""
    chance, *lengths, channels = net.chance, *net.shape
    kernel = min(chance.choice((1, 2, 3)), *lengths)
    padding, stride = chance.randrange(kernel // 2 + 1), chance.choice((1, 1, 2))
    keys = {"kernel": kernel, "padding": padding, "stride": stride}
    if kind.startswith("conv"):
        groups = divisor(chance, channels) if chance.random() < 0.3 else 1
        channels = groups * chance.choice((1, 2, 3))
        keys |= {"filters": channels, "groups": groups}
    net.add(kind, (*((length + 2 * padding - kernel) // stride + 1 for length in lengths), channels), **keys)


def convolution(net):
    window(net, ("conv1d", "conv2d", "conv3d")[len(net.shape) - 2])


def pooling(net):
    window(net, net.chance.choice(("max_pool", "avg_pool")) + ("1d", "", "3d")[len(net.shape) - 2])


def transposed(net):
    filters, kernel, stride = net.chance.choice((2, 3)), net.chance.choice((2, 3)), net.chance.choice((1, 2))
    net.add("conv_transpose2d", (*((length - 1) * stride + kernel for length in net.shape[:2]), filters), filters=filters, kernel=kernel,
            stride=stride)


def upsample(net):
    net.add("upsample", (2 * net.shape[0], 2 * net.shape[1], net.shape[2]), factor=2)


def recurrent(net):
    units, both = small(net.chance), net.chance.random() < 0.3
    net.add(net.chance.choice(("lstm", "gru")), (net.shape[0], units * (2 if both else 1)), units=units, bidirectional=both)


def attention(net):
    heads = divisor(net.chance, net.shape[1])
    rotary = net.shape[1] // heads % 2 == 0 and net.chance.random() < 0.3
    net.add("attention", heads=heads, **({"rotary": True} if rotary else {}))


def cross_attention(net):
    """Attention to a memory of half as many positions."""
    heads = divisor(net.chance, net.shape[1])
    queries = net.name()
    net.add("avg_pool1d", (net.shape[0] // 2, net.shape[1]), kernel=2, inputs=queries)
    net.add("cross_attention", (net.shape[0] // 2 * 2 + net.shape[0] % 2, net.shape[1]), [queries, net.name()], heads=heads)


def positions(net):
    if net.chance.random() < 0.5:
        net.add("position_embedding", length=net.shape[0] + net.chance.choice((0, 2)))
    else:
        net.add("position_encoding")


def permuted(net):
    order = net.chance.sample(range(len(net.shape)), len(net.shape))
    net.add("permute", [net.shape[axis] for axis in order], order=order)


def sliced(net):
    axis = net.chance.randrange(len(net.shape))
    net.add("slice", [length - (1 if at == axis else 0) for at, length in enumerate(net.shape)], axis=axis, begin=1)


def patches(net):
    net.add("patchify", (net.shape[0] // 2 * (net.shape[1] // 2), 4 * net.shape[2]), patch=2)


def pixels(net):
    net.add("sequence", (net.shape[0] * net.shape[1], net.shape[2]))


def reduced(net):
    kind = net.chance.choice(("sum", "mean"))
    axis = net.chance.randrange(len(net.shape) - 1)
    net.add(kind, [length for at, length in enumerate(net.shape) if at != axis], axes=[axis])


def blocks(shape):
    """The functions that can follow an output of this shape. A type of layer that is not here joins by `unknown`."""
    found = [activation, activation, norm, norm, dropout]
    if len(shape) == 1:
        return found + [linear, linear, residual]
    least = min(shape[:-1])
    found += [convolution, convolution, permuted] + ([pooling, sliced] if min(shape) > 2 else [])
    if len(shape) == 2:
        found += [linear, residual, recurrent, recurrent, attention, positions, reduced] + ([cross_attention] if shape[0] > 1 else [])
    if len(shape) == 3:
        found += [residual, pixels] + ([transposed, upsample] if max(shape) < 8 else [])
        found += [patches] if shape[0] % 2 == 0 and shape[1] % 2 == 0 else []
        found += [reduced] if least > 1 else []
    return found


def other(net):
    """A type of layer that no function of this file adds, as one that is new: it is hoped to keep the shape."""
    kinds = [kind for kind in net.options if kind not in KNOWN]
    if kinds:
        net.add(net.chance.choice(kinds))


KNOWN = {"relu", "tanh", "gelu", "silu", "sigmoid", "leaky_relu", "elu", "softmax", "batch_norm", "layer_norm", "rms_norm", "group_norm",
         "dropout", "linear", "conv1d", "conv2d", "conv3d",
         "conv_transpose2d", "max_pool", "avg_pool", "max_pool1d", "avg_pool1d", "max_pool3d", "avg_pool3d", "upsample", "lstm", "gru",
         "attention", "cross_attention", "add", "multiply",
         "concat", "position_embedding", "position_encoding", "permute", "slice", "patchify", "sequence", "sum", "mean", "flatten",
         "reshape", "global_avg_pool", "embedding",
         "embedding_tables", "dot_interaction"}


def body(net, depth):
    for _ in range(depth):
        (other if net.chance.random() < 0.03 else net.chance.choice(blocks(net.shape)))(net)
        if math.prod(net.shape) > 400:
            break


def to_vector(net):
    if len(net.shape) > 1 and net.chance.random() < 0.4:
        net.add("global_avg_pool", net.shape[-1:])
    elif len(net.shape) > 1:
        net.add("flatten", [math.prod(net.shape)])


def head(net, outputs):
    """Linear layers from any shape to a vector of outputs."""
    to_vector(net)
    if net.chance.random() < 0.5:
        net.add("linear", [small(net.chance)], features=small(net.chance))
        activation(net)
    net.add("linear", [outputs], features=outputs)
