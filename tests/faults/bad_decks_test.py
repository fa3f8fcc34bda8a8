# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Thousands of spoilt decks: each is refused with file, line and column, or is valid, and its resolved deck has all that it says.
One process reads them (read_decks does what `lockstep check` does), and the program itself reads a few of them.
--full: all spoilt decks, not a sample."""
import collections
import decimal
import json
import os
import pathlib
import queue
import random
import re
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "regression"))
import program
from idx import idx_images, idx_labels
from program import SOURCE, LockstepTest

try:
    import yaml

    import deck_mutations
    from deck_mutations import EITHER, REFUSED, SAME, Deck, mutants_of
except ImportError:
    yaml = None

FULL = "--full" in sys.argv
SEED = 2
SAMPLE, BY_THE_PROGRAM = 1000, 20
# Limits of processor seconds and megabytes that work quadratic in a deck's size would exceed on any machine (the largest decks
# take 0.5 to 1.1 s), and seconds to wait for an answer.
SECONDS, MEGABYTES, PATIENCE = 10.0, 1000, 60
COMPLAINT = re.compile(r"(.+?):(\d+):(\d+): (.*)")


class DeckReader:
    """The program read_decks, which is started anew if it has died, or takes longer than PATIENCE."""

    def __init__(self, folder):
        self.folder, self.child = folder, None

    def read(self, name):
        if not self.child:
            self.child = subprocess.Popen([os.environ["LOCKSTEP_READ_DECKS"]], cwd=self.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                          text=True, errors="replace")
            self.lines = queue.Queue()
            threading.Thread(target=self._collect, args=(self.child, self.lines), daemon=True).start()
        self.child.stdin.write(name + "\n")
        self.child.stdin.flush()
        try:
            line = self.lines.get(timeout=PATIENCE)
        except queue.Empty:
            line = None
        if line:
            return json.loads(line)
        self.child.kill()
        status = self.child.wait()
        self.close()
        return {"status": None, "message": f"hangs for {PATIENCE} s" if line is None else f"ends with status {status}", "seconds": PATIENCE, "more_mb": 0}

    @staticmethod
    def _collect(child, lines):
        for line in child.stdout:
            lines.put(line)
        lines.put("")

    def close(self):
        if self.child:
            self.child.stdin.close()
            self.child.wait()
            self.child.stdout.close()
            self.child = None


def leaves(tree, path=()):
    """(path, value) of every scalar, with a deck's short forms written out."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from leaves(value, (*path, key))
    elif isinstance(tree, list):
        for i, value in enumerate(tree):
            if path == ("model", "layers") and isinstance(value, str):
                value = {value: {}}
            yield from leaves(value, (*path, i))
    elif path[:2] == ("model", "layers") and path[-1] == "from":
        yield (*path, 0), tree
    else:
        yield path, tree


def equal(a, b):
    if a == b:
        return True
    try:
        return decimal.Decimal(a) == decimal.Decimal(b) or float(a) == float(b)
    except (decimal.InvalidOperation, ValueError):
        return False


# Keys of `parallel` that may be given without effect: they are read as if they were not given, and runs warn of that.
WITHOUT_EFFECT = {"servers", "all_reduce", "all_reduce_table", "between_nodes", "leaders", "wire", "overlap", "bucket_mb"}


def not_shown(text, resolved):
    """The values of a deck that its resolved form does not have."""
    shown = dict(leaves(yaml.load(resolved, Loader=yaml.BaseLoader)))
    # YAML allows tabs between words, but PyYAML refuses them.
    said = leaves(yaml.load(text.decode("utf-8-sig").replace("\t", " "), Loader=yaml.BaseLoader))
    return [f"{path}: {value!r}, shown as {shown.get(path)!r}" for path, value in said
            if (path not in shown or not equal(value, shown[path].replace("\t", " ")))
            and not (path[0] == "parallel" and path[1:] and path[1] in WITHOUT_EFFECT)]


def fault_of(mutant, name, answer, resolved_base):
    """What is wrong with the answer to a mutant; empty if it is correct."""
    status, message = answer["status"], answer["message"]
    if status is None:
        return message
    if status == 0:
        if mutant.fate == REFUSED:
            return "accepted"
        if mutant.fate == SAME:
            return "" if answer["resolved"] == resolved_base else "resolved as another deck"
        try:
            lost = not_shown(mutant.text, answer["resolved"])
        except (yaml.YAMLError, UnicodeDecodeError, TypeError) as error:
            return f"accepted, but PyYAML refuses it: {error}"
        return f"accepted, but: {lost}" if lost else ""
    if mutant.fate == SAME:
        return "refused"
    if answer["seconds"] > SECONDS:
        return f"takes {answer['seconds']:.2f} s"
    if answer["more_mb"] > MEGABYTES:
        return f"takes {answer['more_mb']:.0f} MB"
    complaints = [line for line in message.split("\n") if not re.fullmatch(r"and \d+ more", line)]
    if any("; " not in line or len(line) > 1000 or not line.isprintable() for line in complaints):
        return "a complaint is not a line that says what to do"
    if status in (65, 66) and mutant.fate == EITHER:
        return ""  # the deck is valid, but does not fit the data
    if status != 78:
        return "status"
    # One mistake may cause several complaints, one of which must name its place.
    wrong = [wrong_with_complaint(name, mutant, line) for line in complaints]
    return "" if "" in wrong else wrong[0]


def wrong_with_complaint(name, mutant, message):
    found = COMPLAINT.fullmatch(message)
    if not found or found[1] != name:
        return "the complaint does not name the place"
    line, column = int(found[2]), int(found[3])
    lines = mutant.text.decode("utf-8", "replace").replace("\r\n", "\n").split("\n")
    if not 1 <= line <= len(lines) + 1 or not 1 <= column <= (len(lines[line - 1].encode()) if line <= len(lines) else 0) + 2:
        return "the place is outside the file"
    if mutant.lines and line not in mutant.lines:
        return f"the place is not at line {mutant.lines}"
    return "" if mutant.words in message else f"does not say '{mutant.words}'"


@unittest.skipUnless(yaml, "no PyYAML")
class BadDecks(LockstepTest):
    def setUp(self):
        super().setUp()
        images, labels = idx_images(self.folder / "images", 100), idx_labels(self.folder / "labels", 100)
        self.lockstep("import", "idx", "--images", images, "--labels", labels, "--validation", 20, "--output", "mnist.h5")
        (self.folder / "text.txt").write_text("".join(chr(32 + i * i % 65) for i in range(3000)))
        self.lockstep("import", "text", "--file", "text.txt", "--validation", 0.1, "--output", "text.h5")
        schema = json.loads(self.lockstep("schema").out)
        self.reader = DeckReader(self.folder)
        self.addCleanup(self.reader.close)
        self.resolved, mutants = {}, []
        for path in sorted((SOURCE / "inputs").glob("*.yaml")):
            deck = Deck(path.stem, path.read_text(), schema, SEED)
            (self.folder / path.name).write_text(deck.text)
            answer = self.reader.read(path.name)
            self.assertEqual(answer["status"], 0, answer)
            self.resolved[deck.name] = answer["resolved"]
            mutants += [(deck.name, mutant) for mutant in mutants_of(deck) if mutant.text != deck.text.encode()]
        random.Random(SEED).shuffle(mutants)
        self.mutants = mutants if FULL else self.sample(mutants)

    @staticmethod
    def sample(mutants):
        """An equal number of mutants of each kind, as far as there are so many."""
        kinds = collections.defaultdict(list)
        for name, mutant in mutants:
            kinds[mutant.kind].append((name, mutant))
        chosen, left = [], SAMPLE
        for done, kind in enumerate(sorted(kinds, key=lambda kind: len(kinds[kind]))):
            share = kinds[kind][:left // (len(kinds) - done)]
            chosen += share
            left -= len(share)
        random.Random(SEED).shuffle(chosen)
        return chosen

    def test_mutants(self):
        counts, faults, slowest = collections.Counter(), [], 0
        by_program = []
        for number, (deck, mutant) in enumerate(self.mutants):
            name = f"{deck}-{number}.yaml"
            (self.folder / name).write_bytes(mutant.text)
            answer = self.reader.read(name)
            fault = fault_of(mutant, name, answer, self.resolved[deck])
            counts[mutant.kind, "refused" if answer["status"] else "accepted"] += 1
            if answer["status"]:
                slowest = max(slowest, answer["seconds"])
            if fault:
                faults.append((mutant.kind, fault, answer["message"][:300], mutant.text))
            if len(by_program) < BY_THE_PROGRAM and answer["status"] and not fault:
                by_program.append((name, answer))
            else:
                (self.folder / name).unlink()
        refused = sum(count for (_, end), count in counts.items() if end == "refused")
        print(f"{len(self.mutants)} mutants: {refused} refused, {len(self.mutants) - refused} accepted; the slowest refusal took {slowest:.3f} s")
        for kind in sorted({kind for kind, _ in counts}):
            print(f"  {kind:30} {counts[kind, 'refused']:6} refused {counts[kind, 'accepted']:6} accepted")
        shown = collections.Counter()
        for kind, fault, message, text in faults:
            shown[kind, fault[:20]] += 1
            if shown[kind, fault[:20]] > 5:
                continue
            print(f"FAULT {kind}: {fault}\n  {message}\n  {text[-600:]!r}")
        self.assertEqual(len(faults), 0, shown)
        self.by_the_program(by_program)

    def by_the_program(self, refused):
        """The program refuses them with the same status, and the same complaint alone on standard error."""
        slowest = 0
        for name, answer in refused:
            with self.subTest(deck=name):
                result = self.lockstep("check", name, status=answer["status"])
                self.assertEqual(result.err, "".join(f"error: {line}\n" for line in answer["message"].split("\n")))
                self.assertEqual(result.out, "")
                slowest = max(slowest, result.seconds)
        print(f"{len(refused)} of them by `lockstep check`: the slowest took {slowest:.3f} s in all")


if __name__ == "__main__":
    if FULL:
        sys.argv.remove("--full")
    program.main()
