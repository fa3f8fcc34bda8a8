# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ways to spoil a deck. Each function of KINDS gets a Deck and yields Mutants; the same seed gives the same mutants."""
import dataclasses
import random
import string

import yaml

# The fate that a mutant must have.
REFUSED = "refused"  # status 78, at one of `lines` if given
SAME = "same"        # accepted, and resolved to the same deck as the original
EITHER = "either"    # refused, or accepted with all of its values in the resolved deck


@dataclasses.dataclass
class Mutant:
    kind: str
    text: bytes
    fate: str
    lines: tuple = ()  # lines that the complaint may name, from 1; empty: any line
    words: str = ""    # part of the complaint


@dataclasses.dataclass
class Entry:
    """`key: value` of a mapping, or an item of a list (without a key)."""
    path: tuple
    key: object  # yaml.Node or None
    value: object
    parent: object


class Deck:
    def __init__(self, name, text, schema, seed):
        self.name, self.text, self.schema = name, text, schema
        self.random = random.Random(f"{seed} {name}")
        self.root = yaml.compose(text, Loader=yaml.BaseLoader)
        self.entries = list(self._walk(self.root, ()))
        self.values = yaml.load(text, Loader=yaml.BaseLoader)

    def _walk(self, node, path):
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                yield Entry((*path, key.value), key, value, node)
                yield from self._walk(value, (*path, key.value))
        elif isinstance(node, yaml.SequenceNode):
            for i, value in enumerate(node.value):
                yield Entry((*path, i), None, value, node)
                yield from self._walk(value, (*path, i))

    def keyed(self):
        return [entry for entry in self.entries if entry.key]

    def cut(self, begin, end, new=""):
        return self.text[:begin] + new + self.text[end:]

    def with_value(self, entry, new):
        return self.cut(entry.value.start_mark.index, self._end(entry.value), new)

    def with_key(self, entry, new):
        return self.cut(entry.key.start_mark.index, entry.key.end_mark.index, new)

    def _end(self, node):
        """The end of a node, without the trailing line ends that PyYAML counts to a block."""
        return node.start_mark.index + len(self.text[node.start_mark.index:node.end_mark.index].rstrip())

    def source(self, entry):
        return self.text[(entry.key or entry.value).start_mark.index:self._end(entry.value)]

    def without(self, entry):
        begin, end = (entry.key or entry.value).start_mark.index, self._end(entry.value)
        if entry.parent.flow_style:
            after = len(self.text[end:]) - len(self.text[end:].lstrip(", "))
            return self.cut(begin, end + after) if after else self.cut(begin, end)
        line = self.text.rfind("\n", 0, begin) + 1
        return self.cut(line, self.text.find("\n", end) + 1)

    def added(self, mapping, source):
        """The deck with `source` ("key: value") as the first entry of a mapping, and the line of that entry."""
        start = mapping.start_mark.index
        if mapping.flow_style:
            return self.cut(start + 1, start + 1, source + ", "), mapping.start_mark.line + 1
        return self.cut(start, start, source + "\n" + " " * mapping.start_mark.column), mapping.start_mark.line + 1

    def set(self, path, value):
        """The deck with this value at a path, and the line of the value."""
        here = {entry.path: entry for entry in self.entries}
        if path in here:
            return self.with_value(here[path], value), here[path].value.start_mark.line + 1
        known = path[:-1]
        while known and not isinstance(getattr(here.get(known), "value", None), yaml.MappingNode):
            known = known[:-1]
        missing = path[len(known):]
        source = missing[-1] + ": " + value
        for key in reversed(missing[:-1]):
            source = key + ": {" + source + "}"
        return self.added(here[known].value if known else self.root, source)

    def leaves(self):
        """(path, schema) of every key that this deck may have, those of its preset and its optimizer included."""
        yield from self._leaves(self.schema, self.values, ())

    def _leaves(self, schema, values, path):
        values = values if isinstance(values, dict) else {}
        for key, own in self._properties(schema, values).items():
            yield (*path, key), own
            for section in own.get("anyOf", [own]):  # the section itself, not its short form
                if section.get("type") == "object" and "properties" in section:
                    yield from self._leaves(section, values.get(key), (*path, key))

    def _properties(self, schema, values):
        properties = dict(schema.get("properties", {}))
        for branch in schema.get("allOf", ()):
            if "if" not in branch:
                continue
            (selector, wanted), = branch["if"]["properties"].items()
            chosen = values.get(selector, properties.get(selector, {}).get("default"))
            if chosen == wanted["const"]:
                properties.update(self._properties(branch["then"], values))
        return properties


def line_of(node):
    return node.start_mark.line + 1


def misspelt_keys(deck):
    """Keys with a letter lost, doubled, swapped with its neighbour or replaced; with capitals; with - for _."""
    known = {entry.key.value for entry in deck.keyed()} | {path[-1] for path, _ in deck.leaves()}
    for entry in deck.keyed():
        word = entry.key.value
        i = deck.random.randrange(len(word))
        j = deck.random.randrange(len(word) - 1) if len(word) > 1 else 0
        other = deck.random.choice(string.ascii_lowercase)
        wrongs = {word[:i] + word[i + 1:], word[:i] + word[i] + word[i:], word[:j] + word[j + 1:j + 2] + word[j] + word[j + 2:],
                  word[:i] + other + word[i + 1:], word.upper(), word.capitalize(), word.replace("_", "-"), word + "s", word + "2"}
        for wrong in sorted(wrongs):  # sorted, since the order of a set changes from run to run
            if wrong and wrong not in known:
                yield Mutant("misspelt key", deck.with_key(entry, wrong), REFUSED, (line_of(entry.key),))


def repeated_keys(deck):
    """Repeats a key in its mapping, with the same value."""
    for entry in deck.keyed():
        source = deck.source(entry)
        if len(entry.path) == 1:  # a section is repeated at the end
            yield Mutant("repeated key", deck.text + source + "\n", REFUSED, (deck.text.count("\n") + 1,), "repeated key")
        elif "\n" not in source:
            text, line = deck.added(entry.parent, source)
            line += 0 if entry.parent.flow_style else line_of(entry.key) - line_of(entry.parent) + 1
            yield Mutant("repeated key", text, REFUSED, (line,), "repeated key")


def moved_keys(deck):
    """Moves an entry into another section, which does not know it (or does: `type`, `name`)."""
    legal = {path for path, _ in deck.leaves()}
    sections = [entry for entry in deck.keyed() if isinstance(entry.value, yaml.MappingNode)]
    for entry in deck.keyed():
        source = deck.source(entry)
        for section in sections:
            if "\n" in source or section.value is entry.parent or section.path == entry.path[:len(section.path)]:
                continue
            text, line = deck.added(section.value, source)
            fate = EITHER if (*section.path, entry.key.value) in legal else REFUSED
            yield Mutant("copied key", text, fate, (line,) if fate == REFUSED else ())
        if len(entry.path) > 1 and "\n" not in source:
            yield Mutant("key moved to the top", deck.without(entry) + source + "\n", REFUSED)
            yield Mutant("key with a dot", deck.text + ".".join(map(str, entry.path)) + ": 1\n", REFUSED, (deck.text.count("\n") + 1,))


def removed_keys(deck):
    """Removes an entry. The rest is valid if the entry has a default."""
    for entry in deck.entries:
        yield Mutant("removed entry", deck.without(entry), EITHER)


def reordered_keys(deck):
    """The same deck with sections in another order, fewer or more comments, quoted keys, or other line ends."""
    for _ in range(3):
        sections = [deck.source(entry) for entry in deck.entries if len(entry.path) == 1]
        deck.random.shuffle(sections)
        yield Mutant("other order", "\n".join(sections) + "\n", SAME)
    for entry in deck.keyed():
        yield Mutant("quoted key", deck.with_key(entry, f'"{entry.key.value}"'), SAME)
    for text in ("# more\n\n" + deck.text, deck.text.replace("\n", "   # more\n"), "---\n" + deck.text + "...\n",
                 deck.text.replace("\n", "\r\n"), "\ufeff" + deck.text, deck.text.rstrip("\n"), deck.text.replace(", ", " ,  ")):
        yield Mutant("another way to write it", text, SAME)


WORDS = ["word", '"quoted"', "2024-01-01", "0x10", "1_000", "1;5", "--1", "1.5.2", "٣", "'1'", "one two"]
NOT_NUMBERS = ["nan", ".nan", "NaN", "-nan", "inf", ".inf", "-.inf", "Infinity", "1e999", "-1e999", "1e99999999999"]
LISTS = ["[1]", "[]", "[[1]]", "{}", "{a: 1}"]
HUGE = ["9" * 19, "9" * 30, "-" + "9" * 30, "9" * 400, "1" + "0" * 5000, "9223372036854775808", "-9223372036854775809", "18446744073709551616"]


def wrong_values(schema):
    """(kind, values) where a key of this schema must refuse the values."""
    kind = schema.get("type")
    if any(form.get("type") == "object" for form in schema.get("anyOf", ())):  # a section, or text as its short form
        yield "another type", ["[1]", "[]", "[[1]]"]
    elif "anyOf" in schema:  # a whole number, or a word
        yield "another type", ["wrod", "1.5", "true", *LISTS]
        yield "not a number", NOT_NUMBERS
        yield "huge", HUGE[1:]
    elif kind in ("integer", "number"):
        yield "another type", [*WORDS, "true", "yes", "null_", *LISTS]
        yield "not a number", NOT_NUMBERS
        if kind == "integer":
            yield "not whole", ["1.5", "1e3", "1.", "0.0"]
            yield "huge", HUGE[1:]
        yield "out of range", list(beyond(schema))
    elif kind == "boolean":
        yield "another type", [*WORDS, *LISTS, "0", "1", "yes", "no", "on", "off", "True", "FALSE", '"true"', "t", "nan"]
    elif "enum" in schema:
        yield "another type", [*LISTS, "1", "true", "nan"]
        yield "misspelt word", [word + "x" for word in schema["enum"]] + [word.upper() for word in schema["enum"]]
    elif kind == "array":
        yield "another type", ["1", "word", "true", "{a: 1}", '"[1]"', "{}"]
        if schema["items"].get("type") in ("integer", "number"):
            yield "another type in a list", [f"[{value}]" for value in (*WORDS, "[1]", "{a: 1}", "true")]
            yield "not a number in a list", [f"[{value}]" for value in NOT_NUMBERS]
            yield "out of range in a list", [f"[{value}]" for value in beyond(schema["items"])]
    elif kind == "string":
        yield "another type", [*LISTS, '""']
    elif kind == "object":
        yield "another type", ["1", "word", "true", '"{}"', "nan", "[1]", "[{}]"]


def beyond(schema):
    """Numbers just outside the limits of a schema, and far outside."""
    for limit, inside, sign in (("minimum", True, -1), ("exclusiveMinimum", False, -1), ("maximum", True, 1), ("exclusiveMaximum", False, 1)):
        if limit not in schema:
            continue
        edge = schema[limit]
        if schema["type"] == "integer":
            yield str(int(edge) + sign * inside)
            yield str(int(edge) + sign * 10 ** 6)
        else:
            yield repr(float(edge + sign * inside * max(abs(edge), 1) * 1e-6))
            yield repr(float(edge + sign * 1e30))


def bad_values(deck):
    """Every key that the deck may have, with values of other types, out of range, huge, or NaN."""
    for path, schema in deck.leaves():
        if any(isinstance(part, int) for part in path):
            continue
        for kind, values in wrong_values(schema):
            for value in values:
                text, line = deck.set(path, value)
                yield Mutant(kind, text, REFUSED, (line,))
        text, line = deck.set(path, "")
        yield Mutant("no value", text, REFUSED, (line, line + 1))


def other_values(deck):
    """Other values of the right type and in range, which rules between keys may still refuse."""
    for path, schema in deck.leaves():
        kind, values = schema.get("type"), []
        if kind == "integer":
            values = [int(schema.get("minimum", 0)), int(schema.get("minimum", 0)) + 1, 2, 7, 50]
        elif kind == "number":
            values = [0, 0.5, 1e-30, 1, 3, 1e300]
        elif kind == "boolean":
            values = ["true", "false"]
        elif kind == "string" and path[-1] != "output_dir":
            values = ["other", "'a b'", '"1"', "null_", "ä", "x.h5"]
        elif kind == "array" and schema["items"].get("type") in ("integer", "number"):
            values = ["[]", "[1]", "[1, 2]", "[1, 1, 1]", "[1, 1, 1, 1]"]
        values = schema.get("enum", values)
        for value in values:
            yield Mutant("another value", deck.set(path, str(value))[0], EITHER)


def swapped_values(deck):
    """Swaps two values."""
    scalars = [entry for entry in deck.keyed() if isinstance(entry.value, yaml.ScalarNode)]
    for _ in range(20):
        a, b = sorted(deck.random.sample(scalars, 2), key=lambda entry: entry.value.start_mark.index)
        text = deck.with_value(b, deck.source(a)[deck.source(a).index(":") + 2:])
        text = text[:a.value.start_mark.index] + b.value.value + text[a.value.end_mark.index:]
        yield Mutant("swapped values", text, EITHER)


def broken_yaml(deck):
    """Missing or extra brackets, quotes and colons; tabs; wrong indentation; a deck that is cut anywhere."""
    text = deck.text
    for i, letter in enumerate(text):
        comment = "#" in text[text.rfind("\n", 0, i) + 1:i]
        if comment:
            continue
        if letter in "{}[]:,":
            yield Mutant("character lost", text[:i] + text[i + 1:], EITHER)
            yield Mutant("character doubled", text[:i] + letter + text[i:], EITHER)
        if letter in "{[":
            yield Mutant("other bracket", text[:i] + {"{": "[", "[": "{"}[letter] + text[i + 1:], REFUSED)
    for entry in deck.keyed():
        at = entry.key.start_mark.index
        for wrong in ("'", '"', "[", "{", "]", "}", "@", "`", "%", "*", "&", "!", ",", "|", ">", "- ", "? [", ": "):
            yield Mutant("stray " + wrong.strip(), text[:at] + wrong + text[at:], EITHER)
        begin = text.rfind("\n", 0, at) + 1
        if not text[begin:at].strip():
            yield Mutant("tab", text[:begin] + "\t" + text[begin:], REFUSED, (line_of(entry.key),), "a tab is used")
            yield Mutant("indented by one more", text[:begin] + " " + text[begin:], EITHER)
    for _ in range(20):
        yield Mutant("cut", text[:deck.random.randrange(len(text))], EITHER)


def random_bytes(deck):
    """Bytes replaced, lost and inserted at random; repeated pieces; bytes that are no text."""
    raw = deck.text.encode()
    for _ in range(60):
        i, n = deck.random.randrange(len(raw)), deck.random.choice((1, 1, 1, 2, 8))
        letters = bytes(deck.random.choice(b" \n\t:-{}[],#&*!|>'\"%@`?abc019.\\") for _ in range(n))
        yield Mutant("random characters", raw[:i] + letters + raw[i + deck.random.choice((0, n)):], EITHER)
        j = deck.random.randrange(len(raw))
        yield Mutant("repeated piece", raw[:i] + raw[j:j + 40] + raw[i:], EITHER)
    end = deck.text.count("\n") + 1
    at = deck.root.value[0][0].start_mark.index
    for bad in (b"\xff", b"\xc3", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf5\x80\x80\x80"):
        yield Mutant("not UTF-8", raw + b"# " + bad + b"\n", REFUSED, (end,), "UTF-8")
        yield Mutant("not UTF-8", raw[:at] + bad + raw[at:], REFUSED)
    for control in (b"\x00", b"\x01", b"\x1b", b"\x7f"):
        yield Mutant("control character", raw + b"na" + control + b"me: 1\n", REFUSED, (end,))
    for text in (deck.text.encode("utf-16"), deck.text.encode("utf-32"), b"", b"\n", b"\x89HDF\r\n\x1a\n" + bytes(100), b"# nothing\n",
                 raw + b"---\n" + raw, raw + b"...\n" + raw, deck.random.randbytes(500), b"null\n", b"[]\n", b"word\n", b"- " + raw):
        yield Mutant("no deck", text, REFUSED)


def deep(deck):
    """Nesting of 500 levels and more: as a value, as an item, as a key, and before the deck."""
    end = deck.text.count("\n") + 1
    for depth in (65, 100, 499, 500, 501, 5000, 100000):
        for nest in ("[" * depth + "]" * depth, "{a: " * depth + "1" + "}" * depth, "[" * depth, "{" * depth, "- " * depth + "a"):
            yield Mutant("deep", deck.text + "deep: " + nest + "\n", REFUSED, (end, end + 1))  # open brackets are noticed at the end of the file
            yield Mutant("deep", nest + "\n" + deck.text, REFUSED)
            for entry in deck.random.sample(deck.keyed(), 2):
                yield Mutant("deep", deck.with_value(entry, nest), REFUSED)
        if depth <= 1000:
            yield Mutant("deep", deck.text + "".join(" " * i + "k:\n" for i in range(depth)) + " " * depth + "k: 1\n", REFUSED)
            yield Mutant("deep", deck.text + "? " * depth + "k\n", REFUSED)


def bombs(deck):
    """Aliases that double with every level, that contain themselves, or that name nothing; tags; merge keys."""
    for width, levels in ((2, 30), (10, 10), (100, 6)):
        for list_form in (True, False):
            lines = ["bomb0: &b0 [x]" if list_form else "bomb0: &b0 {x: 1}"]
            for i in range(1, levels):
                parts = [f"*b{i - 1}" if list_form else f"k{k}: *b{i - 1}" for k in range(width)]
                lines.append(f"bomb{i}: &b{i} " + ("[%s]" if list_form else "{%s}") % ", ".join(parts))
            yield Mutant("alias bomb", deck.text + "\n".join(lines) + "\n", REFUSED)
            yield Mutant("alias bomb", "\n".join(lines) + "\n" + deck.text, REFUSED)
    end = (deck.text.count("\n") + 1,)
    for cycle in ("&a [*a]", "&a [*a, *a]", "&a {b: *a}", "&a {b: *a, c: *a}", "&a [[*a], {b: *a}]", "*nothing", "&a *a", "&a", "!!binary AAAA",
                  "!!python/object:os.system [true]", "!include other.yaml"):
        yield Mutant("alias", deck.text + "more: " + cycle + "\n", REFUSED, end)
    for entry in deck.keyed():
        if isinstance(entry.value, yaml.ScalarNode):
            yield Mutant("tag", deck.with_value(entry, "!!str " + deck.text[entry.value.start_mark.index:entry.value.end_mark.index]), REFUSED,
                         (line_of(entry.value),), "tag")
            yield Mutant("anchor", deck.with_value(entry, "&a " + deck.text[entry.value.start_mark.index:entry.value.end_mark.index]), SAME)
        else:
            yield Mutant("alias of what is around it", deck.with_value(entry, "&a {a: *a}"), REFUSED)
            if isinstance(entry.value, yaml.MappingNode):
                yield Mutant("merge key", deck.added(entry.value, "<<: {name: x}")[0], REFUSED)


def large(deck):
    """Names, values, lists and whole files larger than those of any real deck."""
    end = (deck.text.count("\n") + 1,)
    yield Mutant("large", deck.text + "k" * 1000 + ": 1\n", REFUSED, end)
    yield Mutant("large", deck.text + "k" * 1000000 + ": 1\n", REFUSED, end)
    yield Mutant("large", deck.text + "? " + "k" * 1000000 + "\n: 1\n", REFUSED)
    yield Mutant("large", deck.text + "".join(f"k{i}: 1\n" for i in range(49000)), REFUSED, end)
    yield Mutant("large", deck.text + "".join(f"k{i}: 1\n" for i in range(49000)) + "k0: 2\n", REFUSED, (end[0] + 49000,), "repeated key")
    yield Mutant("large", deck.text + "".join(f"k{i}: 1\n" for i in range(80000)), REFUSED)
    yield Mutant("large", deck.text + "k: [" + "1, " * 90000 + "]\n", REFUSED, end)
    yield Mutant("large", deck.text + "# " + "x" * (5 << 20) + "\n", REFUSED, (1,), "larger than 1 MiB")
    for entry in deck.keyed():
        if isinstance(entry.value, yaml.ScalarNode) and entry.path[-1] not in ("name", "file"):
            yield Mutant("large", deck.with_value(entry, "4" * 1000000), REFUSED, (line_of(entry.value),))
            yield Mutant("large", deck.with_value(entry, "[" + "4, " * 50000 + "4]"), REFUSED, (line_of(entry.value),))


KINDS = [misspelt_keys, repeated_keys, moved_keys, removed_keys, reordered_keys, bad_values, other_values, swapped_values, broken_yaml,
         random_bytes, deep, bombs, large]


def mutants_of(deck):
    for kind in KINDS:
        for mutant in kind(deck):
            mutant.text = mutant.text if isinstance(mutant.text, bytes) else mutant.text.encode()
            yield mutant
