# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random values for keys of decks, by what the schema says of them: their types, ranges, words and defaults."""
import math
import random
import re

# Texts with a form, as lengths and durations: those that the schema's pattern allows are drawn.
FORMS = ("1 epoch", "2 epochs", "1 steps", "2 steps", "3 steps", "5 steps", "7 examples", "29 examples", "2 min")


def keys(schema, values):
    """(key, schema, required) of all keys that a section with these values may have, those of its chosen type included."""
    for key, own in schema.get("properties", {}).items():
        yield key, own, key in schema.get("required", ())
    for rule in schema.get("allOf", ()):
        if "if" in rule:
            (selector, wanted), = rule["if"]["properties"].items()
            if values.get(selector, schema["properties"].get(selector, {}).get("default")) == wanted["const"]:
                yield from keys(rule["then"], values)


def choices(schema):
    """Lists of keys of which a section needs one: (keys, True if it must be only one)."""
    for rule in schema.get("allOf", ()):
        for word in ("oneOf", "anyOf"):
            if word in rule:
                yield [choice["required"][0] for choice in rule[word]], word == "oneOf"


def section_of(schema):
    """The schema of a section without its short form; None if the key is no section."""
    for form in schema.get("anyOf", (schema,)):
        if form.get("type") in ("object", ["object", "null"]) and "properties" in form:
            return form
    return None


def layer_options(schema):
    """The options of each type of layer: {type: {option: schema}}."""
    found = {}
    for entry in schema["properties"]["model"]["properties"]["layers"]["items"]["anyOf"]:
        for kind, options in entry.get("properties", {}).items():
            if kind not in ("name", "from"):
                found[kind] = {key: own for key, own, _ in keys(section_of(options) or {}, {})}
    return found


def in_range(number, schema):
    return (schema.get("minimum", -math.inf) <= number <= schema.get("maximum", math.inf)
            and schema.get("exclusiveMinimum", -math.inf) < number < schema.get("exclusiveMaximum", math.inf))


def number(chance, schema):
    """A number near the default, or near the ends of the range where these are near each other."""
    least = schema.get("minimum", schema.get("exclusiveMinimum", 0))
    most = schema.get("maximum", schema.get("exclusiveMaximum", math.inf))
    default = schema.get("default") or 0
    if schema["type"] == "integer":
        found = [int(least) + more for more in (0, 1, 1, 2, 3, 5)] + [int(default * factor) for factor in (0.5, 1, 2)]
    elif most - least <= 1:
        found = [least + share * (most - least) for share in (0, 0.1, 0.25, 0.5, 0.9, 1)]
    else:
        found = [least] + [(default or 1) * factor for factor in (0.1, 0.5, 1, 2, 10)]
    return chance.choice([candidate for candidate in found if in_range(candidate, schema)] or [least + 1])


def value(chance, schema):
    """A random value. (Sections of decks are drawn key by key, in decks.py.)"""
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return chance.choice(schema["enum"])
    if "anyOf" in schema:
        return value(chance, chance.choice(schema["anyOf"]))
    kind = schema["type"]
    if kind == "boolean":
        return chance.random() < 0.5
    if kind in ("integer", "number"):
        return number(chance, schema)
    if kind == "array" and "prefixItems" in schema:
        return [value(chance, own) for own in schema["prefixItems"]]
    if kind == "array":
        items = [value(chance, schema["items"]) for _ in range(chance.choice((1, 1, 2, 3)))]
        return sorted(set(items)) if schema.get("uniqueItems") else items
    if kind == "object":
        return {key: value(chance, own) for key, own, required in keys(schema, {}) if required or chance.random() < 0.3}
    if isinstance(kind, list):  # text
        return chance.choice([form for form in FORMS if re.search(schema.get("pattern", ""), form)] or ["word"])
    raise ValueError(f"no rule for a key of {schema}")


def chance_of(*words):
    """A source of chance that depends on these words alone: the same on every machine, whatever else is drawn."""
    return random.Random(" ".join(map(str, words)))
