# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Do two builds of lockstep compute the same? Both run the decks of inputs/, shortened, and some ways of training (WAYS), on several
numbers of ranks; the new build also resumes runs that the old one has half done. The rows of metrics.csv, times excepted, and each dataset of
the checkpoints have to be equal bit for bit.
Called by scripts/compare_numbers, which describes its use. Status: 0 if equal, 1 if not, 70 if a run failed."""
import argparse
import concurrent.futures
import csv
import hashlib
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

import h5py

import short_decks

STEPS = 4  # a resumed run begins at the checkpoint in the middle
# Columns of metrics.csv that differ from run to run, and datasets with names of builds and folders.
TIMES = ("examples_per_s", "step_ms", "reduce_exposed_ms")
NOT_NUMBERS = ("deck", "provenance")

# Each way is a deck of inputs/ with its overrides.
WAYS = {
    "micro": ("mnist_resnet8", "batch.global=24", "batch.micro=3", "parallel.sync_batch_norm=true"),
    "bf16": ("mnist_resnet8", "batch.global=24", "precision.compute=bf16"),
    "fp16": ("mnist_simple_cnn", "precision.compute=fp16", "optimizer.clip_norm=1", "run.log_every=2"),
    "fp16_overflow": ("mnist_simple_cnn", "precision.compute=fp16", "precision.loss_scale.initial=1e30"),
    "deterministic": ("mnist_simple_cnn", "parallel.deterministic.shards=6"),
    "ring": ("quickstart", "parallel.all_reduce=ring", "parallel.wire=bf16", "optimizer.clip_norm=0.5"),
    "halving": ("quickstart", "parallel.all_reduce=halving_doubling", "parallel.overlap=poll", "parallel.audit_every=2"),
    "loss_watch": ("quickstart", "loss_watch.on_anomaly=skip", "optimizer.learning_rate=1e6", "optimizer.momentum=0"),
    "local": ("quickstart", "parallel.local={every: 2, outer: nesterov}"),
    "stale_gradients": ("quickstart", "batch.global=12",
                        "parallel.asynchronous={collect: 6, staleness: compensate, schedule: {simulate: {ranks: 8, delays: [1, 1.7]}}}"),
    "stale_rounds": ("quickstart", "batch.global=12", "data.drop_last=true", "parallel.local={every: 2, outer: nesterov}",
                     "optimizer={type: adamw}", "parallel.asynchronous={collect: 6, staleness: divide, schedule: {simulate: {ranks: 8}}}"),
    "adamw": ("text_transformer", "precision.compute=bf16", "optimizer.clip_norm=0.1", "batch.micro=1"),
}


def without(names, table):
    return {name: value for name, value in table.items() if name not in names}


def state_text(dataset):
    return json.loads(dataset[()].decode())


def contents(checkpoint):
    """For each dataset, by its name, the shape, type and digest; for the state, each of its keys."""
    found = {}
    with h5py.File(checkpoint) as file:
        def visit(name, item):
            if not isinstance(item, h5py.Dataset) or name in NOT_NUMBERS:
                return
            if name == "state":
                found.update({f"state {key}": value for key, value in state_text(item).items()})
            else:
                found[name] = (item.shape, str(item.dtype), hashlib.sha256(item[()].tobytes()).hexdigest())
        file.visititems(visit)
    return found


def results(folder):
    """The results of a run that must not differ, by name."""
    with open(folder / "metrics.csv", newline="") as file:
        rows = [without(TIMES, row) for row in csv.DictReader(file)]
    found = {f"metrics.csv row {number}": row for number, row in enumerate(rows)}
    for checkpoint in sorted((folder / "checkpoints").glob("*.h5")):
        found.update({f"{checkpoint.name} {name}": value for name, value in contents(checkpoint).items()})
    return found


def differences(old, new):
    """The names of differing results. State keys that only one of the builds writes are not compared."""
    def common(value, other):
        return {key: value[key] for key in value if key in other} if isinstance(value, dict) and isinstance(other, dict) else value

    names = [name for name in old.keys() | new.keys() if name in old and name in new or " state " not in name]
    return [name for name in sorted(names) if common(old.get(name), new.get(name)) != common(new.get(name), old.get(name))]


def inputs_of(program):
    """The decks of the program's own source folder (its path is SOURCE/build/PRESET/app/lockstep), since keys change their
    names; for a program elsewhere, the decks of this source folder."""
    own = [folder / "inputs" for folder in pathlib.Path(program).parents[3:4]]
    return own[0] if own and own[0].is_dir() else short_decks.INPUTS


class Failure(Exception):
    """A run has failed."""


class Comparison:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder

    def lockstep(self, program, *arguments, ranks=1):
        launcher = [] if ranks == 1 else [*shlex.split(self.options.mpiexec), str(ranks)]
        done = subprocess.run([*launcher, program, *map(str, arguments)], cwd=self.folder, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=600)
        if done.returncode:
            raise Failure(f"{program} {' '.join(map(str, arguments))} on {ranks} ranks ended with {done.returncode}; "
                          f"nothing can be compared without it\n{done.stderr}")

    def compare(self, name, name_of_deck, overrides, ranks):
        """Runs a deck with both builds; returns the names of what differs."""
        def train(program, run):
            deck = inputs_of(program) / f"{name_of_deck}.yaml"
            self.lockstep(program, "train", deck, "run.log_every=1", "checkpoint.keep=0",
                          f"checkpoint.every_steps={STEPS // 2}", *short_decks.overrides(deck), *overrides, f"run.steps={STEPS}",
                          f"run.output_dir={run}", ranks=ranks)
            return results(self.folder / run)
        old = train(self.options.old, f"{name}-{ranks}-old")
        new = train(self.options.new, f"{name}-{ranks}-new")
        resumed = self.folder / f"{name}-{ranks}-resumed"  # as if the old build's run had been killed halfway
        shutil.copytree(self.folder / f"{name}-{ranks}-old", resumed)
        (resumed / "checkpoints" / f"step-{STEPS:08}.h5").unlink()
        (resumed / "summary.json").unlink()
        names = differences(old, new) + [f"resumed: {key}" for key in differences(old, train(self.options.new, resumed.name))]
        for run in self.folder.glob(f"{name}-{ranks}-*"):
            shutil.rmtree(run)
        return names


def main():
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("old", help="the lockstep program of before")
    options.add_argument("new", help="the one of now")
    options.add_argument("--ranks", default="1,2,3")
    options.add_argument("--only", default="", help="a deck of inputs/ or a way, by name; several with commas")
    options.add_argument("--mpiexec", default="mpirun --oversubscribe --bind-to none -n", help="what the number of ranks follows")
    options = options.parse_args()
    cases = {deck.stem: (deck.stem,) for deck in short_decks.DECKS if (inputs_of(options.old) / deck.name).exists()} | WAYS
    only = [name for name in options.only.split(",") if name]
    if unknown := set(only) - set(cases):
        print(f"error: --only: {', '.join(sorted(unknown))}: no such case; choose from {', '.join(cases)}", file=sys.stderr)
        return 64
    with tempfile.TemporaryDirectory(prefix="lockstep-numbers-") as folder:
        comparison = Comparison(options, pathlib.Path(folder))
        short_decks.import_data(comparison.folder, lambda *arguments: comparison.lockstep(options.new, *arguments))
        jobs = [(name, ranks) for ranks in map(int, options.ranks.split(",")) for name in only or cases]
        with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            found = pool.map(lambda job: comparison.compare(
                job[0], cases[job[0]][0], cases[job[0]][1:], job[1]), jobs)
            differ = 0
            for (name, ranks), names in zip(jobs, found):
                differ += bool(names)
                more = f" and {len(names) - 3} more" if len(names) > 3 else ""
                print(f"{name:20} {ranks} rank{'s' if ranks > 1 else ' '}  " + (f"DIFFERS: {', '.join(names[:3])}{more}" if names else "same"), flush=True)
    print(f"{len(jobs)} runs compared: {f'{differ} DIFFER' if differ else 'all are the same, bit for bit'}")
    return 1 if differ else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        print(f"error: {failure}", file=sys.stderr)
        sys.exit(70)
