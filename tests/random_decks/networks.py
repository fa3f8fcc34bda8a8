# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random small networks, with data and a loss that fit them. `draw` can be used alone: it needs a source of chance and the schema of
decks."""
from typing import NamedTuple

from layers import Layers, activation, attention, body, dropout, head, linear, norm, positions, recurrent, residual, small


class Problem(NamedTuple):
    """Sections of a deck that fit each other. `file`: the file's content, for `files.write`, if the data are in one."""
    data: dict
    model: dict
    loss: dict
    shape: tuple        # of an example
    classes: int = 0    # 0: targets are values
    file: dict = None


def counts(chance):
    return {"train": chance.choice((17, 23, 29, 31, 37, 41)), "validation": chance.choice((0, 5, 7, 11, 13))}


def shape_of_example(chance):
    axes = chance.choice((1, 1, 2, 2, 3, 3, 4))
    lengths = {1: (), 2: (chance.choice((3, 4, 5, 7)),), 3: (chance.choice((4, 5, 6)), chance.choice((4, 5, 6))), 4: (3, 4, 3)}[axes]
    return (*lengths, chance.choice((3, 4, 5, 6, 7)) if axes == 1 else chance.choice((1, 2, 3, 4)))


def classes_of_examples(chance, schema):
    """Computed examples of any shape, or a file of such, in classes."""
    shape, classes = shape_of_example(chance), small(chance)
    net = Layers(chance, schema, shape)
    body(net, chance.choice((1, 2, 3, 4)))
    head(net, classes)
    kind = "f32" if len(shape) == 2 else chance.choice(("f32", "f32", "u8"))
    if chance.random() < 0.3:
        content = {"inputs": list(shape), "type": kind, "classes": classes, "seed": chance.randrange(1000), **counts(chance),
                   "test": chance.choice((0, 6)), "weights": chance.random() < 0.5}
        return Problem({"file": "data.h5"}, {"layers": net.list()}, {"type": "cross_entropy"}, shape, classes, content)
    data = {"synthetic": {"kind": "random", "shape": list(shape), "classes": classes, "type": kind, **counts(chance)}}
    return Problem(data, {"layers": net.list()}, {"type": "cross_entropy"}, shape, classes)


LOSSES_OF_VALUES = ("mse", "mse", "mae", "huber", "relative_l2", "binary_cross_entropy")


def values_of_examples(chance, schema):
    """Regression: a linear function of vectors, or a file of any shape with values from 0 to 1."""
    outputs, loss = chance.choice((1, 1, 2, 3)), chance.choice(LOSSES_OF_VALUES)
    from_file = loss == "binary_cross_entropy" or chance.random() < 0.3
    shape = shape_of_example(chance) if from_file else (small(chance),)
    net = Layers(chance, schema, shape)
    body(net, chance.choice((1, 2, 3)))
    head(net, outputs)
    if from_file:
        content = {"inputs": list(shape), "type": "f32", "outputs": outputs, "seed": chance.randrange(1000), **counts(chance),
                   "test": chance.choice((0, 6))}
        return Problem({"file": "data.h5"}, {"layers": net.list()}, {"type": loss}, shape, 0, content)
    data = {"synthetic": {"kind": "linear", "features": shape[0], "outputs": outputs, "noise": chance.choice((0, 0.1, 1)),
                          **counts(chance)}}
    return Problem(data, {"layers": net.list()}, {"type": loss}, shape)


def classes_of_pixels(chance, schema):
    """A file of images with a class for each pixel."""
    shape, classes = (chance.choice((4, 5)), chance.choice((3, 4)), chance.choice((1, 2, 3))), small(chance)
    net = Layers(chance, schema, shape)
    for _ in range(chance.choice((1, 2))):
        net.chance.choice((activation, norm, dropout, residual))(net)
    net.add("conv2d", (*shape[:2], classes), filters=classes, kernel=chance.choice((1, 3)), padding="same")
    content = {"inputs": list(shape), "type": "f32", "pixels": classes, "seed": chance.randrange(1000), **counts(chance), "test": 0}
    return Problem({"file": "data.h5"}, {"layers": net.list()}, {"type": "cross_entropy"}, shape, classes, content)


def tokens(chance, schema):
    """Language models: computed tokens or a file of them; often with a last layer that shares the embedding's weight."""
    vocabulary, length, width = small(chance) + 3, chance.choice((3, 4, 5, 7)), small(chance)
    net = Layers(chance, schema, (length,))
    net.add("embedding", (length, width), vocabulary=vocabulary, features=width)
    table = net.name()
    for _ in range(chance.choice((1, 2, 3))):
        chance.choice((activation, norm, dropout, residual, linear, recurrent, attention, positions))(net)
    tied = net.shape[1] == width and chance.random() < 0.4
    net.add("linear", (length, vocabulary), features=vocabulary, **({"tied_to": table, "bias": chance.random() < 0.5} if tied else {}))
    if tied:  # it is initialized as the embedding
        net.entries[-1]["linear"] = {key: own for key, own in net.entries[-1]["linear"].items() if not key.startswith("initial")}
    model, loss = {"layers": net.list()}, {"type": "cross_entropy"}
    if chance.random() < 0.3:
        content = {"tokens": vocabulary, "length": length, "seed": chance.randrange(1000), **counts(chance), "test": chance.choice((0, 6))}
        return Problem({"file": "data.h5", "sequence_length": length}, model, loss, (length,), vocabulary, content)
    return Problem({"synthetic": {"kind": "random", "vocabulary": vocabulary, "sequence_length": length, **counts(chance)}}, model, loss,
                   (length,), vocabulary)


def clicks(chance, schema):
    """A recommender, by layers or as the preset."""
    dense, vocabularies, width = small(chance), [small(chance) for _ in range(chance.choice((1, 2, 3)))], small(chance)
    tables = len(vocabularies)
    data = {"synthetic": {"kind": "clicks", "dense": dense, "vocabularies": vocabularies, **counts(chance)}}
    if chance.random() < 0.5:
        model = {"preset": "recommender", "dense": dense, "vocabularies": vocabularies, "features": width, "bottom": [small(chance)],
                 "top": [small(chance)]}
        return Problem(data, model, {"type": "binary_cross_entropy"}, (dense + tables,))
    net = Layers(chance, schema, (dense + tables,))
    net.add("flatten")
    example = net.name()
    net.add("slice", (dense,), axis=0, begin=0, end=dense)
    net.add("linear", (width,), features=width)
    activation(net)
    bottom = net.name()
    net.add("slice", (tables,), example, axis=0, begin=dense)
    net.add("embedding_tables", (tables, width), vocabularies=vocabularies, features=width)
    net.add("dot_interaction", (width + tables * (tables + 1) // 2,), [bottom, net.name()])
    head(net, 1)
    return Problem(data, {"layers": net.list()}, {"type": "binary_cross_entropy"}, (dense + tables,))


def drawn_digits(chance, schema):
    """28×28 images of drawn digits, made small at once."""
    net = Layers(chance, schema, (28, 28, 1))
    net.add("avg_pool", (5, 5, 1), kernel=6, stride=5, padding=0)
    body(net, chance.choice((1, 2)))
    head(net, 10)
    return Problem({"synthetic": {"kind": "glyphs", **counts(chance)}}, {"layers": net.list()}, {"type": "cross_entropy"}, (28, 28, 1), 10)


def image_preset(chance, schema):
    """A well-known network for images, narrow and of few pixels."""
    del schema
    classes, width = small(chance), chance.choice((1, 2, 3))
    shape, model = chance.choice((
        ((8, 8, 2), {"preset": "resnet8", "width": width, "classes": classes, "input": [8, 8, 2]}),
        ((7, 9, 1), {"preset": "resnet18_cifar", "width": width, "classes": classes, "input": [7, 9, 1]}),
        ((9, 9, 1), {"preset": "wide_resnet", "depth": 10, "widening": 1, "classes": classes, "input": [9, 9, 1],
                     "dropout": chance.choice((0, 0.2))}),
        ((12, 12, 1), {"preset": "fc", "features": [small(chance), classes], "input": [12, 12, 1]}),
        ((8, 8, 3), {"preset": "vit", "image": 8, "channels": 3, "patch": 4, "classes": classes, "d_model": 6,
                     "depth": chance.choice((1, 2)), "heads": 3}),
        ((28, 28, 1), {"preset": "simple_cnn", "filters1": width, "filters2": 2, "hidden": small(chance), "classes": classes}),
        ((67, 1), {"preset": "speech_cnn", "samples": 1200, "width": width, "kernel": 8, "stride": 4, "classes": classes})))
    shape = (1200, 1) if model["preset"] == "speech_cnn" else shape
    return Problem({"synthetic": {"kind": "random", "shape": list(shape), "classes": classes, **counts(chance)}}, model,
                   {"type": "cross_entropy"}, shape, classes)


def token_preset(chance, schema):
    """A well-known language model, narrow and short."""
    del schema
    vocabulary, length, heads = small(chance) + 3, chance.choice((3, 5)), chance.choice((1, 2, 3))
    options = {"vocabulary": vocabulary, "sequence": length, "depth": chance.choice((1, 2)), "dropout": chance.choice((0, 0, 0.2))}
    model = chance.choice(({"preset": "lstm", "embedding": 3, "units": 4}, {"preset": "transformer", "d_model": 2 * heads, "heads": heads},
                           {"preset": "gpt2", "d_model": 2 * heads, "heads": heads}))
    return Problem({"synthetic": {"kind": "random", "vocabulary": vocabulary, "sequence_length": length, **counts(chance)}},
                   {**model, **options}, {"type": "cross_entropy"}, (length,), vocabulary)


KINDS = [classes_of_examples] * 5 + [values_of_examples] * 6 + [tokens] * 3 + [classes_of_pixels, clicks, drawn_digits, image_preset,
                                                                               token_preset]


def draw(chance, schema):
    """A random problem: a small network, and data and a loss that fit it."""
    return chance.choice(KINDS)(chance, schema)
