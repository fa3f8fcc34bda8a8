# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Memory of processes that share some of it."""
import pathlib
import re


def proportional_bytes(program):
    """Of all processes that were started as this program: a page that several share counts once, in parts."""
    total = 0
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cmdline").read_bytes().split(b"\0")[0] == str(program).encode():
                total += 1024 * int(re.search(r"^Pss: +(\d+)", (process / "smaps_rollup").read_text(), re.M)[1])
        except OSError:
            pass  # it has ended
    return total
