# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random decks. Keys and their values come from the schema; what a schema cannot say stands in rules.py. Each key has a source of chance
of its own, so that a key that joins the schema changes no other key of a seed's deck."""
import copy
import re

import networks
import values
from rules import LIKELY, NEEDS, ONE_OF, VALUES, WAYS, WORKERS, Facts
from values import chance_of


class Draft:
    """A drawn deck, which may contradict itself: `repair` removes what a message complains of."""

    def __init__(self, seed, attempt, schema):
        self.seed, self.attempt = seed, attempt
        self.way = chance_of(seed, "way").choice([name for name, way in WAYS.items() for _ in range(way.weight)])
        self.ranks = chance_of(seed, "ranks").choice((1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 6, 7, 12))
        self.per_node = chance_of(seed, "nodes").choice((0, 0, 0, 1, 2, 2, 3)) if self.ranks > 1 else 0  # 0: one node
        chance = chance_of(seed, attempt)
        problem = networks.draw(chance, schema)
        batch = self.ranks * chance.choice((1, 2,
                                            3)) if WORKERS[0] in WAYS[self.way].often else chance.choice((5, 6, 7, 9, 11, 12, 12, 13, 16))
        self.facts = Facts(problem, batch, chance.choice((3, 4, 5, 6, 7, 9, 12)), self.ranks, self.way)
        self.required = set()  # paths of keys that cannot be removed alone
        given = {"run": {"output_dir": "run"}, "data": problem.data, "model": problem.model, "loss": problem.loss}
        self.deck = {key: own for key, own in self._section((), schema, copy.deepcopy(given)).items() if own not in ({}, [])}

    def _section(self, path, schema, given):
        """A section's values: those given, and random ones."""
        if path == ("data", "synthetic"):
            return given
        if path == ("model",):  # the network itself is there
            schema = {"properties": {key: own for key, own in schema["properties"].items() if key not in ("preset", "layers")}}
        section = dict(given)
        for keys, only_one in values.choices(schema):
            self._choose(path, schema, section, keys)
            if only_one:
                schema = {**schema, "properties": {key: own for key, own in schema["properties"].items() if key in section
                                                   or key not in keys}}
        # First the keys that the section has in any case: one of them may be the type on which the others depend.
        self._fill(path, {"properties": schema["properties"], "required": schema.get("required", ())}, section)
        self._fill(path, schema, section)
        return section

    def _choose(self, path, schema, section, keys):
        """Draws one of these keys, if the section has none yet."""
        if any(key in section for key in keys):
            return
        drawable = [key for key in keys if VALUES.get(".".join((*path, key)), True)]
        own = [key for key in keys if self._wanted((*path, key))] or ONE_OF.get(".".join(path), drawable)
        key = self._chance(*path, "one").choice(own)
        self.required.add((*path, key))
        section[key] = self._value((*path, key), schema["properties"][key])

    def _fill(self, path, schema, section):
        seen = set(section)
        for key, own, required in values.keys(schema, section):
            inner = values.section_of(own)
            if required:
                self.required.add((*path, key))
            if isinstance(section.get(key), dict) and inner:
                section[key] = self._section((*path, key), inner, section[key])
            elif key not in seen and self._drawn((*path, key), own, required, section):
                section[key] = self._value((*path, key), own)

    def _chance(self, *words):
        return chance_of(self.seed, self.attempt, *words)

    def _wanted(self, path):
        """True if the way of training has this key, or one below it."""
        name = ".".join(path) + "."
        return any((key + ".").startswith(name) for key in WAYS[self.way].keys)

    def _drawn(self, path, schema, required, section):
        name, chance = ".".join(path), self._chance(*path)
        if name in VALUES and VALUES[name] is None:
            return False
        if name in NEEDS and section.get(NEEDS[name][0]) not in (NEEDS[name][1:] or section.values()):
            return False
        if required or self._wanted(path) or len(path) == 1 and "properties" in schema and name not in VALUES:
            return True
        if any((key + ".").startswith(name + ".") for key in WAYS[self.way].often):
            return chance.random() < 0.5
        while ".".join(path) not in LIKELY:
            path = path[:-1]
        return chance.random() < LIKELY[".".join(path)]

    def _value(self, path, schema):
        name, chance = ".".join(path), self._chance(*path, "value")
        if name in VALUES:
            return VALUES[name](chance, self.facts)
        inner = values.section_of(schema)
        if inner:
            return self._section(path, inner, {})
        for _ in range(4):  # the default would change nothing
            drawn = values.value(chance, schema)
            if drawn != schema.get("default"):
                break
        return drawn

    def has_its_way(self):
        return all(get(self.deck, key) is not None for key in WAYS[self.way].keys)

    def repair(self, errors, turn):
        """Removes keys that errors name from the deck, rather those that are not the way of training itself. False: there are none."""
        found = False
        for error in errors:
            words = set(re.findall(r"[a-z_0-9]+", error))
            named = [self._optional(path) for path in paths(self.deck) if path[-1] in words or str(get(self.deck, ".".join(path))) in words]
            named = [path for path in named if path and not is_needed(self.deck, path)]
            place = re.match(r"error: [^ ]+: ([a-z_0-9.]+): ", error)
            own, chance = tuple(place[1].split(".")) if place else (), self._chance("repair", turn)
            if named:
                # Keys beside the way go first; then the key that the message begins with.
                remove(self.deck, max(named, key=lambda path: (not self._wanted(path), path == own, chance.random())))
                found = True
        return found

    def _optional(self, path):
        """The path, or the section around it that can be left out."""
        while path in self.required:
            path = path[:-1]
        return path


NEEDED = {("run", "output_dir"), ("data", "file"), ("data", "synthetic"), ("data", "sequence_length"), ("model", "layers"),
          ("model", "preset"), ("loss", "type"), ("batch", "global")}


def is_needed(deck, path):
    """True for keys that the network and its data are made of, for the only length of the run, and for sections with such keys."""
    if path in NEEDED or path[:2] == ("data", "synthetic") or path[0] == "model" and path[1:] != ("activation_checkpointing",):
        return True
    inner = get(deck, ".".join(path))
    if isinstance(inner, dict):
        return any(is_needed(deck, (*path, key)) for key in inner)
    return path in (("run", "steps"), ("run", "epochs")) and len({"steps", "epochs"} & deck["run"].keys()) == 1


def paths(tree, path=()):
    """The paths of all keys of a deck, the keys of a section after the section."""
    for key, own in tree.items():
        yield (*path, key)
        if isinstance(own, dict):
            yield from paths(own, (*path, key))


def get(deck, name, default=None):
    """The value at a path, as `run.steps`."""
    for key in name.split("."):
        if not isinstance(deck, dict) or key not in deck:
            return default
        deck = deck[key]
    return deck


def remove(deck, path):
    """Removes a key, and sections that are then empty."""
    section = deck
    for key in path[:-1]:
        section = section[key]
    del section[path[-1]]
    if not section and len(path) > 1:
        remove(deck, path[:-1])


def changed(deck, changes):
    """A copy of a deck with other values at some paths; None removes a key."""
    deck = copy.deepcopy(deck)
    for name, own in changes.items():
        *path, last = name.split(".")
        section = deck
        for key in path:
            section = section.setdefault(key, {}) if isinstance(section.get(key), dict) or key not in section else section
        if own is None:
            section.pop(last, None)
        else:
            section[last] = copy.deepcopy(own)
    return {key: own for key, own in deck.items() if own != {}}
