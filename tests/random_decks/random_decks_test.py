# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random decks, asked by oracles: fixed seeds, or with the argument `long` as many as 20 minutes allow. Planted faults show that the
tester finds what is wrong."""
import json
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "regression"))
import program
from program import LockstepTest

try:
    import h5py
except ImportError:
    h5py = None
else:
    import campaign
    import decks
    from compare import is_off
    from shrink import shrunk

LONG = "long" in sys.argv
# Other stages of `shard`, whose faults are silent (1031 finds gradients that one-rank groups lose between micro-batches), and all oracles.
SHORT = ((("stages",), (*range(1001, 1008), 1031)), ((), range(1, 13)))

# A program that begins with other parameters on an even number of ranks.
PLANTED = """#!/bin/bash
more=()
[ "$1" != train ] || [ $((${OMPI_COMM_WORLD_SIZE:-1} % 2)) -eq 1 ] || more=(run.seed=4711)
exec PROGRAM "$@" "${more[@]}"
"""


@unittest.skipUnless(h5py, "no h5py or NumPy")
class RandomDecks(LockstepTest):
    def setUp(self):
        super().setUp()
        self.schema = json.loads(self.lockstep("schema").out)

    def go_through(self, seeds, names=(), seconds=0):
        failures = []
        counts = campaign.run_campaign(campaign.Campaign(self.schema, self.folder, names, shrinking_seconds=90 if LONG else 20, alone=False), seeds,
                                       seconds, os.cpu_count() or 1,
                                       lambda text: (print(text, flush=True), failures.append(text) if text.startswith("seed ") else None))
        print(campaign.table(counts), flush=True)
        self.assertEqual(len(failures), 0, "\n".join(failures))
        return counts

    def test_decks(self):
        for names, seeds in (((), range(2001, 1000000)),) if LONG else SHORT:
            counts = self.go_through(seeds, names, seconds=1200 if LONG else 0)
            self.assertGreater(counts["bits"] + counts["rounding"], counts["decks"] / 3)

    def test_a_seed_has_one_deck(self):
        for seed in (1, 2, 3):
            drafts = [decks.Draft(seed, 0, self.schema) for _ in range(2)]
            self.assertEqual(drafts[0].deck, drafts[1].deck)

    def test_a_new_key_changes_no_other(self):
        key = {"type": "integer", "minimum": 0, "default": 0}
        more = json.loads(json.dumps(self.schema))
        more["properties"]["schedule"]["properties"] = {"newcomer": key, **more["properties"]["schedule"]["properties"]}
        found = 0
        for seed in range(200):
            old, new = (decks.Draft(seed, 0, schema).deck for schema in (self.schema, more))
            found += new.get("schedule", {}).pop("newcomer", None) is not None
            self.assertEqual(old, {key: own for key, own in new.items() if own})
        self.assertGreater(found, 10)

    def test_a_planted_fault_is_found_and_made_small(self):
        wrapper = self.write("planted", PLANTED.replace("PROGRAM", program.PROGRAM))
        wrapper.chmod(0o755)
        true, program.PROGRAM = program.PROGRAM, str(wrapper)
        self.addCleanup(setattr, program, "PROGRAM", true)
        asked, found, seed = campaign.Campaign(self.schema, self.folder, ("ranks",), shrinking_seconds=15, alone=False), [], 0
        while not found and seed < 10:
            seed += 1
            found = asked.seed(seed).failures
        self.assertTrue(found)
        self.assertIn("--- the smallest deck that fails so:", found[0])
        self.assertLess(len(found[0].split("fails so:")[1]), 1200, found[0])


@unittest.skipUnless(h5py, "no h5py or NumPy")
class Parts(unittest.TestCase):
    def test_shrinking_keeps_what_is_needed(self):
        deck = {"run": {"steps": 9, "output_dir": "run"}, "data": {"file": "x"},
                "model": {"layers": ["relu", {"linear": {"features": 3, "bias": False}}, "tanh", "flatten"]}, "loss": {"type": "mse"},
                "batch": {"global": 4, "micro": 2}, "parallel": {"shard": "gradients", "local": {"every": 2, "state": "keep"}}}

        def fails(deck, file, ranks, per_node):
            has_keys = decks.get(deck, "batch.micro") == 2 and decks.get(deck, "parallel.local.state") == "keep"
            return has_keys and "tanh" in deck["model"]["layers"] and ranks > 2

        small = shrunk(deck, None, 6, 2, fails, 60)
        self.assertEqual(small, ({"run": {"steps": 1, "output_dir": "run"}, "data": {"file": "x"}, "model": {"layers": ["tanh", "flatten"]},
                                  "loss": {"type": "mse"}, "batch": {"global": 4, "micro": 2},
                                  "parallel": {"local": {"state": "keep"}}}, None, 3, 0))

    def test_rounding(self):
        self.assertFalse(is_off("1.00000001", "1", 1e-7))
        self.assertTrue(is_off("1.000001", "1", 1e-7))
        self.assertTrue(is_off("nan", "1", 1e-7))
        self.assertTrue(is_off("", "1", 1e-7))
        self.assertFalse(is_off("", None, 1e-7))


if __name__ == "__main__":
    sys.argv = sys.argv[:1]
    program.main()
