#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Draws a table of perf/run simulate as an SVG. Usage: plot.py TABLE.md FIGURE.svg [FIRST]; FIRST: the first column after the ranks in the wanted table (default: ring). Needs matplotlib."""
import re
import sys

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "lockstep"  # so that the same table gives the same file
from matplotlib import pyplot as plt


def main(table, figure, first="ring"):
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in open(table) if line.startswith("|")]
    start = next(i for i, row in enumerate(rows) if row[0] == "ranks" and row[1] == first)
    names, values = rows[start][1:], {}
    for row in rows[start + 2:]:
        if not row[0].isdigit():
            break
        values[int(row[0])] = [float(re.match(r"[\d.]+", cell)[0]) if cell[:1].isdigit() else None for cell in row[1:]]
    axes = plt.figure(figsize=(6, 4), layout="constrained").add_subplot(
        xscale="log", yscale="log", xlabel="ranks, four a node", ylabel="ms", title="Simulated (SimGrid)")
    for column, (name, marker) in enumerate(zip(names, "osv^x")):
        points = [(ranks, of[column]) for ranks, of in values.items() if of[column] is not None]
        axes.plot(*zip(*points), label=name, marker=marker)
    ticks = list(values)
    axes.set_xticks(ticks, map(str, ticks))
    heights = [0.5, 1, 2, 5, 10, 15, 20, 30, 50, 100]
    axes.set_yticks(heights, map(str, heights))
    all_heights = [height for of in values.values() for height in of if height]
    axes.set_ylim(0.8 * min(all_heights), 1.3 * max(all_heights))
    axes.minorticks_off()
    axes.axhline(15, color="gray", linewidth=0.8)
    axes.annotate("computing alone", (ticks[0], 15), xytext=(0, -11), textcoords="offset points", color="gray")
    axes.legend()
    plt.savefig(figure, metadata={"Date": None})


if __name__ == "__main__":
    main(*sys.argv[1:])
