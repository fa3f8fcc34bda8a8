#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that each function of docs/developer/tour.md is in the file that the page names behind it, and that there are ten stops.
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
        # The functions of a sentence stand before their file; the last one is in it.
        name = names[-1].split("::")[-1] if names else ""
        code = path.read_text(encoding="utf-8")
        if not re.search(rf"\b{re.escape(name)}\b", code):
            problems.append(f"tour.md: {part} holds no {names[-1]}")
        names = []
    return problems


if __name__ == "__main__":
    found = check(pathlib.Path(sys.argv[1]))
    print("\n".join(found) if found else "each stop of the tour is there")
    sys.exit(1 if found else 0)
