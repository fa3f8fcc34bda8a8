# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`lockstep check` beside `train`: it refuses the same decks, and does steps of theirs to estimate the time."""
import os
import unittest

import program
from program import LockstepTest, runs_on_device


@unittest.skipIf(runs_on_device(), "ranks that run freely are refused on devices")
class AsTrain(LockstepTest):
    def test_what_train_refuses(self):
        self.deck()
        self.write("order.txt", "no record\n")
        weights, free, steps = "loss.class_weights=[1,1,1,1,1,1,1,1,1,2]", "parallel.asynchronous.schedule.free=true", "parallel={asynchronous: {schedule: {simulate: {ranks: 2}}}, local: 2}"
        for status, *overrides in ((78, free, weights), (78, free, "batch.ramp=[[1 steps, 32]]"), (78, free, "batch.global=15"), (78, steps, "batch.global=15"),
                                   (78, steps, "batch.ramp=[[1 steps, 32]]"), (65, "parallel.asynchronous.schedule.replay=order.txt")):
            with self.subTest(overrides=overrides):
                said = self.refused(status, [], "train", "deck.yaml", *overrides).errors()
                self.assertEqual(self.refused(status, [], "check", "deck.yaml", *overrides).errors(), said)


class Time(LockstepTest):
    @unittest.skipIf(runs_on_device(), "ranks that run freely are refused on devices")
    def test_several_steps_at_once(self):
        simulated = "schedule: {simulate: {ranks: 2}}"
        for steps in (1, 2, 21):
            self.deck(run={"steps": steps, "evaluate_every": 0, "output_dir": "run"})
            for ranks, parallel in ((1, "{asynchronous: {schedule: {free: true}}}"), (2, "{asynchronous: {schedule: {free: true}}}"), (2, "{backup: 1}"),
                                    (1, f"{{asynchronous: {{{simulated}}}}}"), (1, f"{{asynchronous: {{{simulated}}}, local: 16}}")):
                with self.subTest(steps=steps, ranks=ranks, parallel=parallel):
                    out = self.lockstep("check", "deck.yaml", "--time", f"parallel={parallel}", ranks=ranks, limit=60).out
                    self.assertRegex(out, rf"\ntime +\S.* for {steps} steps of \S+ ms \(the median of [123], on {ranks} rank")

    def test_it_leaves_nothing(self):
        self.deck(run={"epochs": 5, "log_every": 1, "name": "timed", "output_dir": "run"}, checkpoint={"every_steps": 1})
        temporary = self.folder / "temporary"
        temporary.mkdir()
        before, os.environ["TMPDIR"] = os.environ["TMPDIR"], str(temporary)
        self.addCleanup(os.environ.update, TMPDIR=before)
        # The run's record of the order of gradients must not change.
        self.write("order.txt", "# lockstep pushes, as a run has left them")
        for ranks in (1, 2):
            out = self.lockstep("check", "deck.yaml", "--time", "run.overwrite=true", "parallel.asynchronous={collect: 2, schedule: {simulate: {ranks: 2}, record: order.txt}}", ranks=ranks).out
            lines = [line for line in out.splitlines() if line.startswith("time ")]
            self.assertEqual(len(lines), 1, out)
            self.assertRegex(lines[0], rf"^time {{17}}\d.* for 20 steps of \S+ ms \(the median of 3, on {ranks} rank{'s' if ranks > 1 else ''}\)")
            self.assertNotRegex(out, r"(?m)^(step +\d|validation|results)", "no run's log")
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["deck.yaml", "order.txt", "temporary"])
        self.assertEqual((self.folder / "order.txt").read_text(), "# lockstep pushes, as a run has left them")
        self.assertEqual([path.name for path in temporary.iterdir() if "lockstep" in path.name], [])
        self.assertNotIn("\ntime ", self.lockstep("check", "deck.yaml").out)


if __name__ == "__main__":
    program.main()
