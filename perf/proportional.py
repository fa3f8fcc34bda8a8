# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Memory of processes that share some of it."""
import pathlib
import re


def proportional_bytes(program, kinds=("",)):
    """Of all processes that were started as this program: a page that several share counts once, in parts. Kinds: _Anon, _Shmem, _File; all of them."""
    total = 0
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cmdline").read_bytes().split(b"\0")[0] == str(program).encode():
                sizes = (process / "smaps_rollup").read_text()
                total += sum(1024 * int(re.search(rf"^Pss{kind}: +(\d+)", sizes, re.M)[1]) for kind in kinds)
        except OSError:
            pass  # it has ended
    return total
