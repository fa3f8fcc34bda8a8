# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes a failing case smaller: fewer keys, fewer layers, fewer ranks, as long as the same oracle fails in the same way."""
import copy
import json
import time

import decks


def smaller(deck, file, ranks, per_node):
    """Cases that are a little smaller: (deck, file, ranks, per_node)."""
    for path in sorted(decks.paths(deck), key=len):
        if not decks.is_needed(deck, path):
            yield without(deck, path), file, ranks, per_node
    layers = deck["model"].get("layers", [])
    for at in range(len(layers) - 1):
        yield decks.changed(deck, {"model.layers": layers[:at] + layers[at + 1:]}), file, ranks, per_node
    for at, layer in enumerate(layers):
        for plain in plainer(layer):
            yield decks.changed(deck, {"model.layers": layers[:at] + [plain] + layers[at + 1:]}), file, ranks, per_node
    if per_node:
        yield deck, file, ranks, 0
    for fewer in (1, 2, ranks - 1):
        if 0 < fewer < ranks:
            yield deck, file, fewer, per_node
    steps = decks.get(deck, "run.steps") or 40
    for fewer in (1, 2, steps - 1):
        if 0 < fewer < steps:
            yield decks.changed(deck, {"run.steps": fewer, "run.epochs": None}), file, ranks, per_node
    if file and "classes" in file:
        data = {"synthetic": {"kind": "random", "shape": file["inputs"], "classes": file["classes"], "train": file["train"],
                              "validation": file["validation"]}}
        yield {**deck, "data": data}, None, ranks, per_node


def without(deck, path):
    deck = copy.deepcopy(deck)
    decks.remove(deck, path)
    return deck


def plainer(layer):
    """The layer without one of its options."""
    if isinstance(layer, dict):
        for kind, options in layer.items():
            for key in options if isinstance(options, dict) else ():
                yield {**layer, kind: {other: own for other, own in options.items() if other != key}}


def shrunk(deck, file, ranks, per_node, fails, seconds):
    """The smallest case found in this time. `fails(deck, file, ranks, per_node)` tells whether a case still fails."""
    until, case, tried, found = time.monotonic() + seconds, (deck, file, ranks, per_node), set(), True
    while found:
        found = False
        for candidate in smaller(*case):
            if time.monotonic() > until:
                return case
            if (name := json.dumps(candidate)) not in tried:
                tried.add(name)
                if fails(*candidate):
                    case, found = candidate, True
                    break
    return case
