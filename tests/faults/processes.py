# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The processes of running tests."""
import pathlib


def ranks_of(launcher, program):
    """The processes of a program that a launcher has started, sorted by their ids."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes().split(b"\0")[0].decode()
            parents, process = [], int(entry.name)
            while process > 1:
                process = int((pathlib.Path("/proc") / str(process) / "stat").read_text().rsplit(")", 1)[1].split()[1])
                parents.append(process)
        except (OSError, IndexError, ValueError):
            continue
        if command == program and launcher in parents:
            found.append(int(entry.name))
    return sorted(found)
