# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command line of `run`."""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import yaml


def arguments():
    parser = argparse.ArgumentParser(prog="tests/random_decks/run", description="Trains random decks and compares what must be the same.")
    parser.add_argument("--seeds", default="1-1000000", help="A-B, or one number [1-1000000]; with --deck: the oracle's choices [1-10]")
    parser.add_argument("--minutes", type=float, default=0, help="begin no new deck after this time (0: go through all seeds)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="decks at a time [the number of cores]")
    parser.add_argument("--oracle", action="append", default=[], help="ask only this oracle (several times: these)")
    parser.add_argument("--deck", type=pathlib.Path, help="try this deck")
    parser.add_argument("--ranks", type=int, default=1, help="ranks for --deck")
    parser.add_argument("--per-node", type=int, default=0, help="ranks of an emulated node for --deck (0: all)")
    parser.add_argument("--list", action="store_true", help="list the oracles")
    return parser.parse_args()


def deck_of(path):
    """A deck, and the content of its data.h5, which a comment has."""
    text = path.read_text()
    content = re.search(r"^# data.h5: (.*)$", text, re.M)
    return {"run": {}, **yaml.safe_load(text)}, json.loads(content[1]) if content else None


def main():
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="random-decks-") as folder, tempfile.TemporaryDirectory(prefix="lockstep-mpi-",
                                                                                                    dir="/dev/shm") as memory:
        # Killed launchers leave files of Open MPI behind, which go with these folders.
        os.environ.update(TMPDIR=folder, OMPI_MCA_btl_sm_backing_directory=memory)
        import campaign
        import case
        import program
        from oracles import ORACLES
        if options.list:
            print("\n".join(f"{name:16} {oracle.check.__doc__}" for name, oracle in ORACLES.items()))
            return 0
        schema = json.loads(subprocess.run([program.PROGRAM, "schema"], capture_output=True, check=True, text=True).stdout)
        asked = campaign.Campaign(schema, folder, options.oracle)
        first, last = (re.split("-", options.seeds) * 2)[:2]
        tell = lambda text: print(text, flush=True)
        if options.deck:
            deck, file = deck_of(options.deck)
            deck["run"]["output_dir"] = "run"
            counts = campaign.collections.Counter()
            for seed in range(1, 11) if options.seeds == "1-1000000" else range(int(first), int(last) + 1):
                with tempfile.TemporaryDirectory(dir=folder) as own:
                    tried = case.Case(seed, deck, file, options.ranks, options.per_node, own)
                    tried.drafts = [deck]
                    outcome = asked.ask(tried, options.oracle or [name for name in ORACLES if ORACLES[name].applies(tried)])
                counts += outcome.counts
                for failure in outcome.failures:
                    tell(failure)
        else:
            counts = campaign.run_campaign(asked, range(int(first), int(last) + 1), 60 * options.minutes, options.jobs, tell)
        print(campaign.table(counts))
        return 1 if campaign.total_failures(counts) else 0


if __name__ == "__main__":
    sys.exit(main())
