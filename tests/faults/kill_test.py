# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""kill -9 of a random rank at a random moment: every restart goes on, and the end equals that of a run that was never killed,
bit for bit. Arguments: the number of kills [1000] and a seed [1]; without arguments: the short form. `divided`: with sharded optimizer
states, whose parts travel to rank 0 while ranks are killed."""
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "regression"))
import program
from processes import ranks_of
from program import LockstepTest, metrics, without_times

NUMBERS = [int(argument) for argument in sys.argv[1:] if argument.isdigit()]
KILLS = NUMBERS[0] if NUMBERS else 8
SEED = NUMBERS[1] if len(NUMBERS) > 1 else 1
RANKS = 2
DECK = {
    "run": {"steps": 800, "output_dir": "run", "log_every": 7, "seed": 7},
    "data": {"synthetic": {"kind": "glyphs", "train": 500, "validation": 90}},
    "model": {"layers": ["flatten", {"linear": {"features": 64}}, "relu", {"dropout": {"rate": 0.1}}, {"linear": {"features": 10}}]},
    "optimizer": {"type": "adamw", "learning_rate": 0.002},
    "batch": {"global": 33},
    "checkpoint": {"every_steps": 5, "keep": 2},
}
if "divided" in sys.argv[1:]:  # larger checkpoints, so that many kills come while one is being written
    DECK["run"]["steps"] = 300
    DECK["model"]["layers"][1] = {"linear": {"features": 300}}
    DECK["parallel"] = {"shard": "optimizer", "bucket_mb": 0.2}
LAST = f"checkpoints/step-{DECK['run']['steps']:08}.h5"


class Kill(LockstepTest):
    def test_killed_at_any_moment(self):
        self.deck("whole/deck.yaml", **DECK)
        whole = self.lockstep("train", "deck.yaml", ranks=RANKS, cwd=self.folder / "whole")
        chance = random.Random(SEED)
        kills, runs, resumed, reported = 0, 0, 0, 0
        while kills < KILLS:
            name = f"killed{runs}"
            runs += 1
            self.deck(f"{name}/deck.yaml", **DECK)
            while True:
                # Kills come at any time from the start of the ranks (set-up included) to steps after several checkpoints. Every
                # other kill comes after a new checkpoint, however long the set-up takes.
                moment = chance.uniform(0, whole.seconds / 3) if kills < KILLS else None
                before = self.newest(name)
                status, out, err, killed = self.train_and_kill(name, chance, moment, after=before if kills % 2 else None)
                kills += killed
                self.assertGreaterEqual(self.newest(name), before, "a checkpoint is lost")
                if "" < before < pathlib.Path(LAST).name and "run: " in out:  # the run has printed its banner
                    self.assertIn(f"resumes from run/checkpoints/{before} at step", out)
                resumed += "resumes from" in out
                reported += "has died" in err
                self.assertNotRegex(err, "fault of Lockstep|terminate called|Segmentation|none of its|damaged", err)
                if status == 0:
                    break
                self.assertTrue(killed, f"status {status}, and nobody killed it\n{out}{err}")
            self.assertEqual((self.folder / "whole/run" / LAST).read_bytes(), (self.folder / name / "run" / LAST).read_bytes())
            self.assertEqual(without_times(metrics(self.folder / "whole/run")), without_times(metrics(self.folder / name / "run")))
            shutil.rmtree(self.folder / name)
        self.assertGreaterEqual(resumed, KILLS // 4)
        print(f"{kills} kills in {runs} runs of {RANKS} ranks: {resumed} restarts went on from a checkpoint, {reported} deaths were "
              "reported by another rank, and all ends were equal")

    def newest(self, name):
        """Name of the newest checkpoint; empty if there is none."""
        return max((path.name for path in (self.folder / name / "run/checkpoints").glob("step-*.h5")), default="")

    def train_and_kill(self, name, chance, moment, after):
        """Trains, and kills a rank `moment` seconds after all ranks have started, or (`after`) after a checkpoint newer than that.
        `moment` None: kills no rank."""
        child = subprocess.Popen([*program.MPIEXEC, str(RANKS), program.PROGRAM, "train", "deck.yaml"], cwd=self.folder / name,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 start_new_session=True)
        killed = False
        try:
            if moment is not None:
                while child.poll() is None and (len(ranks_of(child.pid, program.PROGRAM)) < RANKS or
                                                (after is not None and self.newest(name) <= after)):
                    time.sleep(0.01)
                time.sleep(moment)
                ranks = ranks_of(child.pid, program.PROGRAM)
                try:
                    if ranks:
                        os.kill(chance.choice(ranks), signal.SIGKILL)
                        killed = True
                except ProcessLookupError:  # the rank has ended in the meantime
                    pass
            out, err = child.communicate(timeout=120)
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.communicate()
        return child.returncode, out, err, killed


if __name__ == "__main__":
    sys.argv = sys.argv[:1]
    program.main()
