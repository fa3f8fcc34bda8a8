# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A campaign of random decks: draws them, asks oracles, makes failing decks small, and counts."""
import collections
import concurrent.futures
import copy
import os
import pathlib
import re
import tempfile
import time
from typing import NamedTuple

from case import Case, Failure
from decks import Draft
from oracles import ORACLES, choose
from shrink import shrunk

ATTEMPTS, TURNS = 4, 12   # decks that are drawn for a seed, and repairs of each, until one is accepted
ORACLES_OF_A_DECK = 2


COMPARISONS = ("bits", "rounding", "verdicts", "summaries", "evaluations", "predictions", "memory")


class Outcome(NamedTuple):
    """What a case has come to: numbers by their names, and a text for each failure."""
    counts: collections.Counter
    failures: list


def draw(seed, schema, folder):
    """A case that `check` accepts, made from the seed alone; None in the rare case that there is none."""
    for attempt in range(ATTEMPTS):
        draft = Draft(seed, attempt, schema)
        case = Case(seed, draft.deck, draft.facts.problem.file, draft.ranks, draft.per_node, folder)
        for turn in range(TURNS):
            answer = case.run(case.place(case.deck), "check", "deck.yaml", "--ranks", case.ranks)
            if answer.status == 0:
                case.counts[f"way: {draft.way if draft.has_its_way() else 'synchronous'}"] += 1
                return case
            case.drafts.append(copy.deepcopy(case.deck))
            if not draft.repair(answer.errors(), turn):
                break
    return None


def failure_of(case, name):
    """The failure that an oracle finds in a case; None if it finds none."""
    try:
        ORACLES[name].check(case)
        nothing_left(case)
    except Failure as failure:
        return failure
    return None


def processes_of(case):
    """The command lines of processes that work in the case's folders."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "cwd").startswith(str(case.folder)):
                found.append((process / "cmdline").read_bytes())
        except OSError:
            pass  # it has ended
    return found


ENDING = 10  # seconds in which a rank may still end after its launcher


def nothing_left(case):
    """No process of the case runs, and no shared memory is left of processes that have ended by themselves."""
    until = time.monotonic() + ENDING
    while left := processes_of(case):
        if time.monotonic() > until:
            raise Failure("process", f"processes are left: {left}")
        time.sleep(0.1)
    for path in pathlib.Path("/dev/shm").glob("lockstep-*"):
        made = re.fullmatch(r"lockstep-(\d+)-\d+", path.name)
        if made and int(made[1]) not in case.killed and not os.path.exists(f"/proc/{made[1]}"):
            path.unlink()
            raise Failure("shared memory", f"{path} is left, of this case or of one beside it")


class Campaign:
    """`names`: the oracles to ask; none: some of those that apply. `alone`: no other program of Lockstep runs on this machine."""

    def __init__(self, schema, folder, names=(), shrinking_seconds=90, alone=True):
        self.schema, self.folder, self.names, self.shrinking_seconds, self.alone = schema, folder, names, shrinking_seconds, alone

    def seed(self, seed):
        """Draws the deck of a seed, and asks some of the oracles that apply (or those that are named)."""
        with tempfile.TemporaryDirectory(prefix=f"seed{seed}-", dir=self.folder, ignore_cleanup_errors=True) as folder:
            try:
                case = draw(seed, self.schema, folder)
            except Failure as failure:
                return Outcome(collections.Counter({"failures: drawing": 1}), [f"seed {seed}: while it was drawn: {failure}"])
            if not case:
                return Outcome(collections.Counter({"no deck": 1}), [])
            return self.ask(case, [name for name in self.names if ORACLES[name].applies(case)] if self.names
                            else choose(case, ORACLES_OF_A_DECK))

    def ask(self, case, names):
        case.counts["decks"] += 1
        failures = []
        for name in names:
            before = case.counts.copy()
            failure = failure_of(case, name)
            if failure and failure.kind == "shared memory" and not self.alone:  # a test beside this one may have killed its owner
                failure = self.again(name, case.seed, case.deck, case.file, case.ranks, case.per_node)
            case.counts[f"cases: {name}"] += 1
            case.counts[f"runs: {name}"] += case.counts["runs"] - before["runs"]
            case.counts[f"compared: {name}"] += any(case.counts[kind] > before[kind] for kind in COMPARISONS)
            if failure:
                case.counts[f"failures: {name}"] += 1
                failures.append(self.report(case, name, failure))
        return Outcome(case.counts, failures)

    def again(self, name, *what):
        """The failure that an oracle finds in a new case; None if it finds none, or does not apply."""
        with tempfile.TemporaryDirectory(prefix="again-", dir=self.folder, ignore_cleanup_errors=True) as folder:
            case = Case(*what, folder)
            case.drafts = [case.deck]
            return failure_of(case, name) if ORACLES[name].applies(case) else None

    def report(self, case, name, failure):
        """What has failed, and the smallest case that still fails in the same way."""
        last = [failure]

        def fails(*smaller):
            found = self.again(name, case.seed, *smaller)
            if found and found.kind == failure.kind:
                last[0] = found
                return True
            return False

        deck = case.drafts[0] if name == "refusal" else case.deck
        small = Case(case.seed, *shrunk(deck, case.file, case.ranks, case.per_node, fails, self.shrinking_seconds), case.folder)
        return (f"seed {case.seed}, oracle '{name}' ({failure.kind}): {failure}\n"
                f"--- the smallest deck that fails so:\n{small}--- {last[0]}\n")


def run_campaign(campaign, seeds, seconds, jobs, tell):
    """Goes through the seeds until the time is over, and tells of failures as they come. Returns all counts."""
    start, counts, told = time.monotonic(), collections.Counter(), time.monotonic()
    pending, seeds = set(), iter(seeds)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        while True:
            while len(pending) < jobs and (not seconds or time.monotonic() < start + seconds) and (seed := next(seeds, None)) is not None:
                pending.add(pool.submit(campaign.seed, seed))
            if not pending:
                return counts
            done, pending = concurrent.futures.wait(pending, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in done:
                counts += future.result().counts
                for failure in future.result().failures:
                    tell(failure)
            if time.monotonic() > told + 60:
                told = time.monotonic()
                tell(f"{told - start:.0f} s: {counts['decks']} decks, {counts['runs']} runs, {counts['bits']} comparisons of bits, "
                     f"{counts['rounding']} to rounding, {total_failures(counts)} failures")


def total_failures(counts):
    return sum(number for name, number in counts.items() if name.startswith("failures: "))


def table(counts):
    """The counts as Markdown."""
    lines = ["| oracle | decks | compared | runs | failures |", "|---|--:|--:|--:|--:|"]
    for name in [*ORACLES, "drawing"]:
        numbers = [counts[f"{kind}: {name}"] for kind in ("cases", "compared", "runs", "failures")]
        if any(numbers):
            lines.append(f"| {name} | {' | '.join(map(str, numbers))} |")
    for title, prefix in (("way of training", "way: "), ("identity", "identity: "), ("folder", "folder: ")):
        lines += ["", f"| {title} | |", "|---|--:|", *(f"| {name[len(prefix):]} | {counts[name]} |" for name in sorted(counts)
                                                       if name.startswith(prefix))]
    totals = ("decks", "no deck", "runs", *COMPARISONS, "resumes", "kills", "signals")
    return "\n".join([*lines, "", "| in all | |", "|---|--:|", *(f"| {name} | {counts[name]} |" for name in totals)])
