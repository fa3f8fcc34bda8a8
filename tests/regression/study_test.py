#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Studies: the same ledger for any number of slots and after any interruption; pruning; what the report says; and what users
get wrong in a study file."""
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time

import program


def yaml(sections):
    return "".join(f"{key}: {json.dumps(value)}\n" for key, value in sections.items() if value is not None)


def records(ledger):
    """What must be the same, by group and trial."""
    lines = [json.loads(line) for line in ledger.read_text().splitlines()]
    return {(line["group"], line["trial"]): {key: value for key, value in line.items() if key != "run"}
            for line in lines[1:]}


class StudyTest(program.LockstepTest):
    def study(self, name="study.yaml", **sections):
        study = {
            "base": "deck.yaml",
            "output_dir": "study",
            "batches": [16, 64],
            "space": {"optimizer.learning_rate": {"log": [0.01, 3]}, "optimizer.momentum": {"reverse_log": [0, 0.9]}},
            "goal": {"metric": "validation_accuracy", "value": 0.75},
            "trials_feasible": 4,
            "budget": {"steps": 300},
            "evaluations": 60,
        }
        study.update(sections)
        return self.write(name, yaml(study))

    def setUp(self):
        super().setUp()
        self.deck(data={"synthetic": {"kind": "glyphs", "train": 1024, "validation": 100, "noise": 0.1}},
                  run={"steps": 4, "seed": 7}, checkpoint={"every_steps": 40})

    def summary(self, folder="study"):
        return json.loads((self.folder / folder / "study.json").read_text())


class Studies(StudyTest):
    def test_slots_and_interruptions_change_nothing(self):
        self.study()
        self.lockstep("study", "study.yaml")
        alone = records(self.folder / "study/ledger.jsonl")
        self.assertGreaterEqual(len(alone), 8)
        self.lockstep("study", "study.yaml", "output_dir=two", ranks=2)
        self.assertEqual(records(self.folder / "two/ledger.jsonl"), alone)
        self.interrupt("killed", kills=int(os.environ.get("LOCKSTEP_STUDY_KILLS", "3")))
        self.assertEqual(records(self.folder / "killed/ledger.jsonl"), alone)
        left = self.folder / "killed/trials/00-0000/checkpoints", self.folder / "killed/trials/00-0001/checkpoints"
        for folder in left:  # as a process that was killed just after it had committed these
            folder.mkdir(exist_ok=True)
        self.lockstep("study", "study.yaml", "output_dir=killed")
        kept = sorted(path.parent.name for path in self.folder.glob("killed/trials/*/checkpoints"))
        best = [f"{number:02}-{group['best']['trial']:04}" for number, group in enumerate(self.summary("killed")["groups"])]
        self.assertLessEqual(set(kept), set(best))
        # A line that was cut off is written anew.
        ledger = self.folder / "study/ledger.jsonl"
        ledger.write_bytes(ledger.read_bytes()[:-40])
        self.lockstep("study", "study.yaml")
        self.assertEqual(records(ledger), alone)

    def interrupt(self, folder, kills):
        """Kills the study on two ranks, again and again, and lets it come to its end."""
        chance = random.Random(5)
        command = [*program.MPIEXEC, "2", program.PROGRAM, "study", "study.yaml", f"output_dir={folder}"]
        for _ in range(kills):
            child = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                     start_new_session=True)
            time.sleep(chance.uniform(0.3, 2))
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        self.lockstep("study", "study.yaml", f"output_dir={folder}", ranks=2)

    def test_a_signal_stops_it_and_it_goes_on(self):
        self.study(budget={"steps": 5000}, evaluations=20, goal={"metric": "validation_accuracy", "value": 0.999},
                   trials_feasible=2)
        child = subprocess.Popen([*program.MPIEXEC, "2", program.PROGRAM, "study", "study.yaml"], cwd=self.folder,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        while not list(self.folder.glob("study/trials/*/metrics.csv")):
            self.assertIsNone(child.poll())
            time.sleep(0.05)
        (self.folder / "study/stop").touch()
        out, _ = child.communicate(timeout=60)
        self.assertEqual(child.returncode, 75, out)
        self.assertIn("stopped: the file study/stop", out)
        self.assertFalse((self.folder / "study/stop").exists())
        before = (self.folder / "study/ledger.jsonl").read_text()
        self.lockstep("study", "study.yaml", ranks=2)
        self.assertTrue((self.folder / "study/ledger.jsonl").read_text().startswith(before))
        # More trials are wanted: those that there are stay.
        self.lockstep("study", "study.yaml", "trials_feasible=3", ranks=2)
        self.assertEqual([group["feasible"] for group in self.summary()["groups"]], [3, 3])

    def test_it_says_why_it_stops(self):
        """A signal to any rank, when it comes; and the end of its time, which a slot sees for itself. Its folder is its own meanwhile."""
        self.study(budget={"steps": 1000000}, evaluations=2, goal={"metric": "validation_accuracy", "value": 0.999}, trials_feasible=2)
        for ranks in (1, 2):
            child = subprocess.Popen([*program.MPIEXEC, str(ranks), program.PROGRAM, "study", "study.yaml"], cwd=self.folder,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.addCleanup(child.terminate)
            while len(list(self.folder.glob("study/trials/*/metrics.csv"))) < ranks:
                self.assertIsNone(child.poll())
                time.sleep(0.05)
            self.refused(73, ["study: another study is writing here: process", "choose another output_dir or name, or wait"], "study", "study.yaml")
            child.send_signal(signal.SIGUSR1)
            out, _ = child.communicate(timeout=60)
            self.assertEqual(child.returncode, 75, out)
            self.assertRegex(out, r"(?m)^SIGUSR1: the study stops, each trial at a checkpoint$")
            self.assertIn("stopped: SIGUSR1; the same command continues from there", out)
        out = self.lockstep("study", "study.yaml", "wall_time=6 s", ranks=2, status=75).out
        self.assertRegex(out, r"stopped: its time is up.*; the same command continues from there")

    def test_exact_pruning_saves_steps_and_changes_nothing(self):
        self.deck(data={"synthetic": {"kind": "glyphs", "train": 1024, "validation": 100, "noise": 0.1}},
                  run={"steps": 4, "seed": 7}, checkpoint={"keep_best": {"metric": "validation_accuracy"}})
        self.study(batches=[64], trials_feasible=8)
        self.lockstep("study", "study.yaml")
        for log in self.folder.glob("study/trials/*/log.txt"):
            self.assertNotIn("warning", log.read_text(), "a trial that is ended by the study ends as others do")
        self.lockstep("study", "study.yaml", "prune=none", "output_dir=none")
        exact, none = self.summary()["groups"][0], self.summary("none")["groups"][0]
        self.assertEqual(exact["steps_to_goal"], none["steps_to_goal"])
        self.assertIsNotNone(exact["steps_to_goal"])
        self.assertEqual(exact["best"], none["best"])
        print(f"steps: exact {exact['steps_run']}, none {none['steps_run']}", flush=True)
        self.assertLessEqual(exact["steps_run"], 0.6 * none["steps_run"])

    def test_search_for_the_best(self):
        for prune in ("asha", "median"):
            self.study(batches=[], goal={"metric": "validation_loss", "best": "min"}, trials_feasible=9, prune=prune,
                       median={"startup_trials": 3}, output_dir=prune, budget={"steps": 192}, evaluations=16)
            self.lockstep("study", "study.yaml", ranks=2)
            group = self.summary(prune)["groups"][0]
            self.assertEqual(group["feasible"], 9)
            self.assertGreater(group["pruned"], 0)
            self.assertLess(group["best_result"], 2)
            kept = sorted(path.parent.parent.name for path in self.folder.glob(f"{prune}/trials/*/checkpoints/latest"))
            self.assertEqual(kept, [f"00-{group['best']['trial']:04}"])

    def test_ensemble(self):
        self.study(batches=None, space=None, trials_feasible=None, seeds=3, budget={"examples": 320},
                   goal={"metric": "validation_loss", "best": "min"}, ranks_per_trial=2)
        self.lockstep("study", "study.yaml", ranks=2)
        members = records(self.folder / "study/ledger.jsonl").values()
        self.assertEqual([member["seed"] for member in members], [7, 8, 9])
        self.assertEqual({member["steps"] for member in members}, {20})
        self.assertEqual(len(list(self.folder.glob("study/trials/*/checkpoints/latest"))), 3)

    def test_repetitions_of_batches_for_the_best(self):
        """No goal is to be reached, so that nothing is fitted; trials have no settings of their own, but a seed."""
        self.study(space=None, trials_feasible=None, budget={"steps": 2}, evaluations=1,
                   goal={"metric": "validation_loss", "best": "min"})
        out = self.lockstep("study", "study.yaml").out
        self.assertIn("batch 16: trial 0 complete at step 2 (seed 7); 1 of 1 feasible", out)
        self.assertNotIn("reach the goal", out)
        # What cannot be written has been said before.
        (self.folder / "study/measurements.csv").unlink()
        (self.folder / "study/measurements.csv").mkdir()
        result = self.refused(73, ["study/measurements.csv", "cannot be created"], "study", "study.yaml")
        self.assertIn("best result", result.out)

    def test_every_seed_comes_to_its_own_goal(self):
        self.study(batches=[64], space=None, trials_feasible=None, seeds=3, evaluations=300)
        out = self.lockstep("study", "study.yaml", ranks=2).out
        members = records(self.folder / "study/ledger.jsonl").values()
        self.assertEqual([member["outcome"] for member in members], ["reached"] * 3)
        steps = [member["goal_step"] for member in members]
        self.assertEqual(self.summary()["groups"][0]["steps_by_seed"], steps)
        self.assertIn(f"batch 64: steps to goal by seed: {', '.join(map(str, steps))}; the smallest number counts", out)

    def test_diverged_and_failed_trials_are_lost_alone(self):
        # At a learning rate of 1e30 parameters are not finite after two steps; a weight decay of −1 is no deck's.
        self.study(batches=[16], trials_feasible=3, budget={"steps": 20}, evaluations=2,
                   goal={"metric": "validation_loss", "best": "min"},
                   space={"optimizer.learning_rate": [0.01, 1e30], "optimizer.weight_decay": [0, 0.001, -1]})
        result = self.lockstep("study", "study.yaml", ranks=2)  # its first trial has failed
        outcomes = [line["outcome"] for line in records(self.folder / "study/ledger.jsonl").values()]
        self.assertEqual(sorted(outcomes)[:1], ["complete"])
        self.assertEqual(outcomes.count("complete"), 3)
        self.assertIn("diverged", outcomes)
        self.assertIn("failed", outcomes)
        for line in map(json.loads, (self.folder / "study/ledger.jsonl").read_text().splitlines()[1:]):
            if line["outcome"] == "diverged":  # between two evaluations
                self.assertGreater(line["steps"], 0)
                self.assertEqual(line["steps"], line["run"]["steps"])
                self.assertIn(f"trial {line['trial']} diverged at step {line['steps']} (", result.out)
        self.assertIn("study: 1 group of 3 feasible trials, on 2 slots of 1 rank\n", result.out)
        self.assertRegex(result.out, r"\d s on 2 slots, busy \d")
        self.assertIn("optimizer.weight_decay", result.err)

    def test_a_trial_that_has_failed_at_its_end_is_no_complete_one(self):
        """Also where the study was killed before the trial was in its ledger."""
        self.deck(run={"steps": 1, "log_every": 1}, loss={"type": "mse"}, model={"layers": [{"linear": 2}]}, batch={"global": 64},
                  data={"synthetic": {"kind": "linear", "features": 64, "outputs": 2, "train": 64, "validation": 20}},
                  optimizer={"type": "sgd", "learning_rate": 2e38},  # the outputs overflow, and no parameter does
                  loss_watch={"on_anomaly": "stop"})
        self.study(batches=None, space=None, trials_feasible=None, seeds=1, budget={"steps": 1}, evaluations=1,
                   goal={"metric": "validation_loss", "best": "min"})
        ledger = self.folder / "study/ledger.jsonl"
        for _ in range(2):
            result = self.refused(70, ["study: all: 0 of the ensemble's 1 members are feasible"], "study", "study.yaml")
            self.assertIn("all: no trial is feasible", result.out)
            self.assertEqual([(record["outcome"], record["steps"]) for record in records(ledger).values()], [("diverged", 1)])
            ledger.write_text(ledger.read_text().splitlines()[0] + "\n")

    def test_what_is_no_trials_fault_ends_the_study(self):
        """Data or a folder that are not to be had cost no trial: the study goes on once they are."""
        self.write("words.txt", "to be or not to be, that is the question " * 20)
        self.lockstep("import", "text", "--file", "words.txt", "--validation", 0.2, "--output", "text.h5")
        self.deck(data={"file": "text.h5", "sequence_length": 8}, run={"steps": 4, "seed": 7},
                  model={"preset": "lstm", "vocabulary": 14, "sequence": 8, "embedding": 8, "units": 8})
        self.study(batches=[4, 8], trials_feasible=1, budget={"steps": 4}, evaluations=1,
                   space={"optimizer.learning_rate": {"log": [0.01, 0.1]}},
                   goal={"metric": "validation_loss", "best": "min"})
        self.lockstep("study", "study.yaml")
        ledger = self.folder / "study/ledger.jsonl"
        before = ledger.read_text()
        more = ("study", "study.yaml", "trials_feasible=3")
        (self.folder / "text.h5").rename(self.folder / "away.h5")
        for ranks in (1, 2):
            self.refused(66, ["text.h5", "study/trials/00-0001 is not finished"], *more, ranks=ranks)
            self.assertEqual(ledger.read_text(), before)
        (self.folder / "away.h5").rename(self.folder / "text.h5")
        foreign = self.write("study/trials/00-0001/metrics.csv", "mine\n")
        self.refused(73, ["metrics.csv", "study/trials/00-0001 is not finished"], *more, ranks=2)
        foreign.unlink()
        self.lockstep(*more, ranks=2)
        self.assertEqual([record["outcome"] for record in records(ledger).values()], 6 * ["complete"])

    def test_settings_that_do_not_fit_the_data_cost_their_trials(self):
        self.deck(data={"synthetic": {"kind": "glyphs", "train": 64, "validation": 10}}, model={"preset": "fc"}, run={"steps": 4, "seed": 7})
        short = {"batches": None, "trials_feasible": 1, "budget": {"steps": 2}, "evaluations": 1, "goal": {"metric": "validation_loss", "best": "min"}}
        self.study(vary={"model.preset": ["lstm", "fc"]}, **short)
        out = self.lockstep("study", "study.yaml", ranks=2).out
        self.assertIn("model.preset lstm: no trial is feasible", out)
        self.assertEqual([record["outcome"] for _, record in sorted(records(self.folder / "study/ledger.jsonl").items())], 10 * ["failed"] + ["complete"])
        self.study(vary={"model.weights": ["nowhere.h5"]}, output_dir="missing", **short)
        self.refused(70, ["missing: model.weights nowhere.h5: none of 10 trials is feasible"], "study", "study.yaml")
        self.assertIn("nowhere.h5", records(self.folder / "missing/ledger.jsonl")[(0, 9)]["message"])

    def test_a_signal_while_a_trial_waits_for_its_folder(self):
        self.study(batches=[16], trials_feasible=1, budget={"steps": 4}, evaluations=1,
                   goal={"metric": "validation_loss", "best": "min"})
        self.lockstep("study", "study.yaml")
        ledger = self.folder / "study/ledger.jsonl"
        ledger.write_text(ledger.read_text().splitlines()[0] + "\n")  # as it is while that trial runs
        lock = {"lockstep": "lock", "host": "elsewhere", "process": 1, "since": "2026-01-01T00:00:00Z", "boot": "another"}
        self.write("study/trials/00-0000/lock", json.dumps(lock) + "\n")
        child = subprocess.Popen([program.PROGRAM, "study", "study.yaml"], cwd=self.folder, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True)
        log = self.folder / "study/trials/00-0000/log.txt"
        while not (log.exists() and "may still be writing here" in log.read_text()):
            self.assertIsNone(child.poll())
            time.sleep(0.05)
        child.terminate()
        out, _ = child.communicate(timeout=60)
        self.assertEqual(child.returncode, 75, out)
        self.assertEqual(len(records(ledger)), 0)

    def test_report(self):
        self.study()
        self.lockstep("study", "study.yaml", ranks=2)
        out = self.lockstep("report", "--study", "study").out
        for word in ("batch 16", "batch 64", "steps to goal", "perfect scaling"):
            self.assertIn(word, out)
        rows = (self.folder / "study/measurements.csv").read_text().splitlines()
        self.assertEqual(rows[0], "group,batch,trial,seed,outcome,optimizer.learning_rate,optimizer.momentum,step,"
                                  "validation_accuracy")
        for name in ("steps_to_goal.svg", "learning_rate.svg"):
            self.assertIn("</svg>", (self.folder / "study" / name).read_text())
        (self.folder / "study/study.json").unlink()
        (self.folder / "study/study.json").mkdir()
        result = self.lockstep("report", "--study", "study")
        self.assertEqual(result.out, out)
        # The order in which groups' trials have ended changes nothing.
        rows, ledger = (self.folder / "study/measurements.csv").read_text(), self.folder / "study/ledger.jsonl"
        header, *lines = ledger.read_text().splitlines(keepends=True)
        ledger.write_text(header + "".join(sorted(lines, key=lambda line: -json.loads(line)["group"])))
        self.lockstep("report", "--study", "study")
        self.assertEqual((self.folder / "study/measurements.csv").read_text(), rows)
        self.assertRegex(result.err, "warning: study/study.json: cannot be created .*some or all of measurements.csv, study.json and the pictures are not those of this report")
        self.refused(66, ["nowhere", "not the folder of a study"], "report", "--study", "nowhere")
        self.refused(64, ["--study FOLDER"], "report")
        for option in (["--csv"], ["--sort", "train_loss"]):
            self.refused(64, [f"--study excludes {option[0]}"], "report", "--study", "study", *option)


class Inputs(StudyTest):
    def test_the_study_of_inputs(self):
        study = program.SOURCE / "inputs/studies/glyphs.yaml"
        self.lockstep("study", study, ranks=2, limit=60)
        steps = [group["steps_to_goal"] for group in self.summary("studies/glyphs")["groups"]]
        self.assertTrue(all(steps), steps)
        self.assertGreater(steps[0], 2 * steps[1])
        self.assertGreater(steps[1], 2 * steps[2])

    def test_studies_of_the_document(self):
        """Their ledgers give what it says of them, and its pictures."""
        text = (program.SOURCE / "perf/results/studies.md").read_text()
        for folder in (program.SOURCE / "docs/user/studies").iterdir():
            with self.subTest(folder.name):
                shutil.copytree(folder, self.folder / folder.name)
                out = self.lockstep("report", "--study", folder.name).out
                largest = re.search("times the steps of perfect scaling: (.*)", out).group(1)
                self.assertIn(f"times the steps of perfect scaling is {largest}", text)
                self.assertIn(re.search(r"lr/\(1-momentum\) grows as (batch\^\S+)", out).group(1).replace("-", "−"), text)
                for name in ("steps_to_goal.svg", "learning_rate.svg"):
                    self.assertEqual((self.folder / folder.name / name).read_text(), (folder / name).read_text())

    def test_studies_of_files_are_in_order(self):
        """No run, but what they say is read: they end where the data are missing."""
        for name, data in (("mnist_fc", "mnist.h5"), ("text_transformer", "text.h5")):
            self.refused(66, [data], "study", program.SOURCE / f"inputs/studies/{name}.yaml")


class BadInput(StudyTest):
    def test_ranks_that_divide_a_network_begin_with_all_of_it(self):
        """The loss at step 0, which the message gives, is that of whole replicas."""
        self.study(goal={"metric": "validation_loss", "value": 100}, ranks_per_trial=2)
        losses = []
        for parallel in ({}, {"shard": "parameters", "share_parameters": False}):
            self.deck(data={"synthetic": {"kind": "glyphs", "train": 1024, "validation": 100}}, run={"steps": 4, "seed": 7}, parallel=parallel)
            error, = self.refused(78, ["is reached at step 0"], "study", "study.yaml", ranks=2).errors()
            losses.append(re.search(r"validation_loss = [\d.]+", error)[0])
        self.assertEqual(losses[0], losses[1])

    def test_named_errors(self):
        rate = "optimizer.learning_rate"
        for sections, words in [
            ({"goal": {"metric": "validation_accuracy", "value": 0.01}}, ["goal.value", "is reached at step 0"]),
            ({"goal": {"metric": "validation_f1", "value": 0.5}}, ["study.yaml:5:", "do not compute f1; add it to metrics"]),
            ({"goal": {"metric": "validation_loss", "best": "max"}}, ["goal.best", "write min"]),
            ({"goal": {"metric": "validation_loss"}}, ["goal.value", "goal.best"]),
            ({"space": {rate: {"log": [0.1, 0.1]}}}, [rate, "has one point"]),
            ({"space": {rate: [0.1]}}, [rate, "has one point"]),
            ({"space": {rate: {"log": [1, 0.1]}}}, [rate, "in reverse order"]),
            ({"space": {rate: {"log": [0, 0.1]}}}, [rate, "no logarithm"]),
            ({"space": {rate: {"reverse_log": [0, 1]}}}, [rate, "below 1"]),
            ({"space": {rate: {"integer": [1, 2.5]}}}, [rate, "not a whole number"]),
            ({"space": {rate: {"linear": [1]}}}, [rate, "not a range"]),
            ({"space": {rate: {"discrete": [0.1, 0.5], "of_budget": True}}}, ["study.yaml:4:", "of_budget", "cannot be combined with discrete"]),
            ({"space": {rate: {"linaer": [1, 2]}}}, [rate, "did you mean 'linear'?"]),
            ({"space": {rate: {"linear": [1, 2], "log": [1, 2]}}}, [rate, "cannot be combined with linear"]),
            ({"space": {"optimizer.lerning_rate": {"log": [0.1, 1]}}},
             ["study.yaml:4:", "optimizer.lerning_rate", "did you mean 'learning_rate'?"]),
            ({"vary": {"optimizer.nesterof": [True, False]}}, ["optimizer.nesterof", "did you mean 'nesterov'?"]),
            ({"vary": {"optimizer.nesterov": [True, True]}}, ["study.yaml:", "vary", "optimizer.nesterov", "value true twice"]),
            ({"vary": {"optimizer.weight_decay": [0.1, 0.2, 1e-1]}}, ["vary", "optimizer.weight_decay", "value 0.1 twice"]),
            ({"vary": {"batch.global": [1, 2]}}, ["vary", "which batches already gives"]),
            ({"vary": {rate: [0.1, 0.2]}}, ["space", "varied already"]),
            ({"vary": {"run.steps": [1, 2]}}, ["vary", "run.steps", "the study itself sets the keys of run"]),
            ({"space": None}, ["trials_feasible", "without a space"]),
            ({"budgett": {"steps": 1}}, ["did you mean 'budget'?"]),
            ({"wall_time": "1:60:00"}, ["wall_time: '1:60:00' is not a valid duration", "minutes and seconds up to 59"]),
            ({"prune": "exakt"}, ["did you mean 'exact'?"]),
            ({"prune": "exact", "goal": {"metric": "validation_loss", "best": "min"}}, ["prune", "goal.value"]),
            ({"prune": "exact", "space": None, "trials_feasible": None, "seeds": 3}, ["prune", "members of an ensemble"]),
            ({"ranks_per_trial": 2}, ["ranks_per_trial", "more than the number of ranks, 1"]),
        ]:
            with self.subTest(sections):
                self.study(**sections)
                self.refused(78, words, "study", "study.yaml")
        self.assertFalse((self.folder / "study/trials/00-0000").exists())
        self.study()
        for command in ("train", "check"):
            self.refused(78, ["study.yaml:1:1: is a study, not a deck; start it with `lockstep study study.yaml`"], command, "study.yaml")
        self.refused(78, ["deck.yaml:1:1: is a deck, not a study; start it with `lockstep train deck.yaml`"], "study", "deck.yaml", "seed=3")
        self.refused(78, ["name: '../mine' cannot be the name of a folder (it contains a /)", "output_dir"], "study", "study.yaml", "name=../mine")
        self.study(base="study.yaml")
        self.refused(78, ["study.yaml:1:1: is a study, not a deck"], "study", "study.yaml")
        self.study(base="nowhere.yaml")
        self.refused(66, ["study.yaml:1:", "base: nowhere.yaml: no such file; the path is relative to the study file: check it"], "study", "study.yaml")
        (self.folder / "below").mkdir()
        self.study(base="below/deck.yaml")
        self.write("below/deck.yaml", (self.folder / "deck.yaml").read_text())
        (self.folder / "study.yaml").rename(self.folder / "below/study.yaml")
        self.refused(66, ["base: below/below/deck.yaml: no such file; the path is relative to the study file: write deck.yaml"], "study", "below/study.yaml")
        self.study(ranks_per_trial=2)
        self.refused(78, ["ranks_per_trial", "cannot be divided"], "study", "study.yaml", ranks=3)


if __name__ == "__main__":
    program.main()
