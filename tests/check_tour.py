#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that each function of docs/developer/tour.md is in the file that the page names after it, that there are ten stops, and
that each `Class::function` that a page for developers names exists in the code.
Usage: check_tour.py SOURCE_FOLDER"""
import pathlib
import re
import sys


def check(source):
    text = (source / "docs/developer/tour.md").read_text(encoding="utf-8")
    problems, stops, names = [], re.findall(r"(?m)^(\d+)\. ", text), []
    if stops != [str(number) for number in range(1, 11)]:
        problems.append(f"tour.md: its stops are {', '.join(stops)}; ten are wanted, from 1 on")
    for part in re.findall(r"`([^`]+)`", text):
        if not part.startswith("lib/"):
            names.append(part)
            continue
        path = source / part
        if not path.is_file():
            problems.append(f"tour.md: {part} does not exist")
            continue
        # A sentence names functions before their file; the last one is in it.
        words = names[-1].split("::") if names else []
        code = path.read_text(encoding="utf-8")
        if not all(re.search(rf"\b{re.escape(word)}\b", code) for word in words):
            problems.append(f"tour.md: {part} holds no {names[-1]}")
        names = []
    return problems


def check_names(source):
    files = [path for path in (source / "lib").rglob("*") if path.suffix in (".cpp", ".hpp")]
    words = {word for path in files for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))}
    return [f"{page.name}: there is no {name}" for page in sorted((source / "docs/developer").glob("*.md"))
            for name in re.findall(r"`([A-Z]\w*(?:::\w+)+)[`(]", page.read_text(encoding="utf-8"))
            if not words.issuperset(name.split("::"))]


if __name__ == "__main__":
    found = check(pathlib.Path(sys.argv[1])) + check_names(pathlib.Path(sys.argv[1]))
    print("\n".join(found) if found else "each stop of the tour is there, and what other pages name")
    sys.exit(1 if found else 0)
