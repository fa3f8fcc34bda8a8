#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that the sources hold each message that docs/user/errors.md quotes. On the page … stands for a value, in the sources {}.
Usage: check_errors.py SOURCE_FOLDER"""
import pathlib
import re
import sys

TOKEN = re.compile(r'''R"\((?P<raw>[\s\S]*?)\)"|"(?P<text>(?:[^"\\\n]|\\.)*)"|'(?:[^'\\]|\\.)'|//.*''')
# What the program puts in front of a message: its kind, the key, the step.
FRONT = re.compile(r"(warning: )?((…|[a-z_]+(\.[a-z_]+)*(\.…)?): )?(layer …: )?")


def texts(source):
    """All text of the sources: a 0 between literals, except those that only a line's end divides, and a line's end in place of a value."""
    joined = []
    for path in sorted([*source.glob("lib/**/*.?pp"), *source.glob("app/**/*.?pp")]):
        code, end = path.read_text(encoding="utf-8"), 0
        for token in TOKEN.finditer(code):
            literal = token["raw"] or token["text"]
            if literal is not None:
                joined += ["" if not code[end:token.start()].strip() else "\0", literal]
                end = token.end()
    return re.sub(r"\{\d*(:[^{}]*)?\}", "\n", re.sub(r'\\(["\\])', r"\1", "".join(joined)))


def missing(message, known):
    """The parts of a message that the sources do not hold."""
    parts = [part.strip() for part in FRONT.sub("", message, count=1).split("…")]
    return [piece for part in parts if part not in known for piece in re.split(r"\s*[()]\s*|[:;,] |'", part) if piece.strip() not in known]


def check(source):
    page = (source / "docs/user/errors.md").read_text(encoding="utf-8").split("## Common messages")[1].split("## Set-up")[0]
    known, problems, count = texts(source), [], 0
    for line in page.splitlines():
        if not line.startswith("| `"):
            continue
        for message in re.findall(r"`([^`]+)`", line.split(" | ")[0]):
            count += 1
            problems += [f"errors.md: `{message}`: no source says '{part}'" for part in missing(message, known)]
    return problems if count > 100 else [*problems, f"errors.md: quotes {count} messages only"]


if __name__ == "__main__":
    found = check(pathlib.Path(sys.argv[1]))
    print("\n".join(found) if found else "the sources hold each message that errors.md quotes")
    sys.exit(1 if found else 0)
