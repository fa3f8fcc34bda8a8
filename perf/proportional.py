# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Memory of processes, where they share some of it."""
import pathlib
import re


def proportional_bytes(program, kinds=("",)):
    """The sum of the proportional set sizes of all processes of this program (each counts its part of a shared page). Kinds: _Anon, _Shmem, _File; default: all."""
    total = 0
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cmdline").read_bytes().split(b"\0")[0] == str(program).encode():
                sizes = (process / "smaps_rollup").read_text()
                total += sum(1024 * int(re.search(rf"^Pss{kind}: +(\d+)", sizes, re.M)[1]) for kind in kinds)
        except OSError:
            pass  # the process has ended
    return total
