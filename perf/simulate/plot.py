#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Draws the table of perf/run simulate as an SVG. Usage: plot.py TABLE.md FIGURE.svg (needs matplotlib)"""
import re
import sys

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "lockstep"  # the same table, the same file
from matplotlib import pyplot as plt


def main(table, figure):
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in open(table) if line.startswith("|")]
    start = next(i for i, row in enumerate(rows) if row[0] == "ranks" and "ring" in row)
    names, values = rows[start][1:], {}
    for row in rows[start + 2:]:
        if not row[0].isdigit():
            break
        values[int(row[0])] = [float(re.match(r"[\d.]+", cell)[0]) if cell[:1].isdigit() else None for cell in row[1:]]
    axes = plt.figure(figsize=(6, 4), layout="constrained").add_subplot(
        xscale="log", yscale="log", xlabel="ranks, four a node", ylabel="step, ms", ylim=(14, 120),
        title="Simulated (SimGrid SMPI)")
    for column, (name, marker) in enumerate(zip(names, "osv^")):
        points = [(ranks, of[column]) for ranks, of in values.items() if of[column] is not None]
        axes.plot(*zip(*points), label=name, marker=marker)
    ticks = list(values)
    axes.set_xticks(ticks, map(str, ticks))
    axes.set_yticks([15, 20, 30, 50, 100], ["15", "20", "30", "50", "100"])
    axes.minorticks_off()
    axes.axhline(15, color="gray", linewidth=0.8)
    axes.annotate("computing alone", (128, 15), xytext=(0, 3), textcoords="offset points", color="gray")
    axes.legend()
    plt.savefig(figure, metadata={"Date": None})


if __name__ == "__main__":
    main(*sys.argv[1:])
