# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Parts of data for validation, names of datasets, and networks that go with other data than they were trained on."""
import re
import shutil

import program
from made_data import MadeDataTest, h5py, numpy
from program import metrics, summary


class Parts(MadeDataTest):
    # Parts for validation

    def test_import_chooses_at_random(self):
        """Of files that lie by class, each part has all classes."""
        x, y = numpy.arange(400, dtype="f4").reshape(200, 2), numpy.repeat(numpy.arange(4), 50)
        numpy.save(self.folder / "x.npy", x)
        numpy.save(self.folder / "y.npy", y)
        arguments = ["import", "npy", "--inputs", "x.npy", "--targets", "y.npy", "--overwrite", "--output", "data.h5"]
        chosen = []
        for _ in range(2):
            result = self.lockstep(*arguments, "--validation", 40)
            self.assertEqual(result.err, "")
            with h5py.File(self.folder / "data.h5") as file:
                chosen.append(file["validation/inputs"][:, 0].tolist())
                rows = numpy.concatenate([file["train/inputs"][:], file["validation/inputs"][:]])
                targets = numpy.concatenate([file["train/targets"][:], file["validation/targets"][:]])
                self.assertEqual(set(file["validation/targets"][:]), {0, 1, 2, 3})
            order = rows[:, 0].argsort()
            self.assertEqual(rows[order].tolist(), x.tolist())
            self.assertEqual(targets[order].tolist(), y.tolist())
        self.assertEqual(chosen[0], chosen[1])
        result = self.lockstep(*arguments, "--validation-last", 40)
        with h5py.File(self.folder / "data.h5") as file:
            self.assertEqual(file["validation/inputs"][:].tolist(), x[160:].tolist())
        said = "data.h5:/validation: has no example of 3 of 4 classes (0, 1, 2) of data.h5:/train, so its metrics say nothing about them; choose the examples of each split at random"
        self.assertEqual(result.err, f"warning: {said}\n")
        self.deck(run={"steps": 1, "output_dir": "run", "log_every": 1}, data={"file": "data.h5"}, model={"layers": [{"linear": 4}]}, optimizer={"type": "sgd", "learning_rate": 0})
        self.assertEqual(self.warnings(ranks=2), [said])
        result = self.lockstep(*arguments, "--validation-last", 50)
        lacks = "data.h5:/train: has no example of 1 of 1 classes (3) of data.h5:/validation, so the network cannot learn them; choose the examples of each split at random"
        self.assertIn(f"warning: {lacks}\n", result.err)
        self.refused(64, ["--validation"], *arguments, "--validation", 4, "--validation-last", 4)

    def test_import_says_that_it_makes_sequences(self):
        numpy.save(self.folder / "x.npy", numpy.zeros((6, 28, 20), "f4"))
        numpy.save(self.folder / "y.npy", numpy.arange(6) % 2)
        out = self.lockstep("import", "npy", "--inputs", "x.npy", "--targets", "y.npy", "--output", "data.h5").out
        self.assertIn("each input is a sequence of 28 steps of 20 numbers (an image would be 28×20×1)", out)

    def test_empty_parts_count_as_missing(self):
        x, y = numpy.random.default_rng(0).normal(size=(20, 6)).astype("f4"), (numpy.arange(20) % 3).astype("i4")
        self.h5(train_inputs=x, train_targets=y, validation_inputs=x[:0], validation_targets=y[:0], test_inputs=x[:0], test_targets=y[:0])
        self.deck(run={"steps": 1, "output_dir": "run", "log_every": 1}, data={"file": "data.h5"}, model={"layers": [{"linear": 3}]})
        self.train(ranks=2)
        self.assertEqual({row["split"] for row in metrics(self.folder / "run")}, {"train"})
        self.refused(78, ["run.target: needs validation examples, and there are none"], "check", "deck.yaml", "run.target={metric: validation_accuracy, value: 1}", "run.output_dir=other")
        self.train("data.validation=0.25")
        self.assertIn("validation", summary(self.folder / "run"))

    # Checkpoints

    def test_a_network_that_is_no_longer_the_trained_one(self):
        layers = [{"linear": 8}, {"leaky_relu": {"slope": 0.1}}, {"layer_norm": {"epsilon": 1e-3}}, {"linear": 3}]
        x = numpy.random.default_rng(3).normal(size=(64, 6)).astype("f4")
        self.h5(train_inputs=x, train_targets=(numpy.arange(64) % 3).astype("i4"), validation_inputs=x, validation_targets=(numpy.arange(64) % 3).astype("i4"))
        self.deck(run={"steps": 2, "output_dir": "run", "log_every": 1}, data={"file": "data.h5", "normalize": {"mean": [1], "std": [2]}}, model={"layers": layers})
        self.lockstep("train", "deck.yaml")
        evaluate = ["evaluate", "deck.yaml", "--checkpoint", "run/checkpoints/latest"]
        self.assertEqual(self.lockstep(*evaluate).err, "")
        for change, said in (("data.normalize.mean=[0]", "data.normalize.mean was [1] and is [0] in this deck"),
                             ("data.scale=none", "data.scale was auto and is none in this deck"),
                             ("model.layers.1.leaky_relu.slope=0.2", "slope was 0.1 and is 0.2 in this deck"),
                             ("model.layers.2.layer_norm.epsilon=1e-5", "epsilon was 0.001 and is 1.0e-05 in this deck"),
                             ("loss.label_smoothing=0.1", "loss.label_smoothing was 0 and is 0.1 in this deck")):
            for arguments in ([*evaluate, change], ["train", "deck.yaml", "run.output_dir=other", "run.overwrite=true", "run.resume=never",
                                                    "model.weights={file: run/checkpoints/latest}", change]):
                err = self.lockstep(*arguments, ranks=2).err
                self.assertEqual(err.count("warning: run/checkpoints/latest: its parameters were trained otherwise: "), 1, err)
                self.assertIn(said, err)

    def test_evaluations_of_what_is_not_finite(self):
        x = numpy.random.default_rng(3).normal(size=(64, 6)).astype("f4")
        self.h5(train_inputs=x, train_targets=(numpy.arange(64) % 3).astype("i4"), validation_inputs=x, validation_targets=(numpy.arange(64) % 3).astype("i4"))
        self.deck(run={"steps": 2, "output_dir": "run", "log_every": 1}, data={"file": "data.h5"}, model={"layers": [{"linear": 3}]})
        self.lockstep("train", "deck.yaml")
        with h5py.File(self.folder / "data.h5", "a") as file:
            file["validation/inputs"][7, 2] = numpy.nan
            file["validation/inputs"][40, 0] = numpy.inf
        for ranks in (1, 3):
            self.refused(65, ["data.h5:/validation: the loss is nan, because inputs or targets are not finite (examples 7, 40)"],
                         "evaluate", "deck.yaml", "--checkpoint", "run/checkpoints/latest", ranks=ranks)

    def test_averages_have_statistics_of_their_own(self):
        """The average network of a run is evaluated with averaged statistics: those of a plain loop."""
        random = numpy.random.default_rng(4)
        x, y = random.normal(3, 2, size=(48, 5)).astype("f4"), (numpy.arange(48) % 3).astype("i4")
        self.h5(train_inputs=x, train_targets=y, validation_inputs=x, validation_targets=y)
        self.deck(run={"steps": 6, "output_dir": "run", "log_every": 1, "evaluate_every": "3 steps"}, data={"file": "data.h5", "shuffle": False}, batch={"global": 16},
                  model={"layers": [{"batch_norm": {}, "name": "bn"}, {"linear": 3}]}, optimizer={"type": "sgd", "learning_rate": 0.5, "ema_decay": 0.9}, checkpoint={"every_steps": 3, "keep": 0})
        mean, average = numpy.zeros(5), None
        for step in range(6):
            mean = 0.9 * mean + 0.1 * x[16 * (step % 3):][:16].astype("f8").mean(0)
            average = mean.copy() if average is None else 0.9 * average + 0.1 * mean
        curves = {}
        for ranks, shard in ((1, "none"), (2, "none"), (2, "optimizer"), (2, "parameters"), (3, "gradients")):
            self.train(f"parallel.shard={shard}", ranks=ranks)
            with h5py.File(self.folder / "run/checkpoints/latest") as file:
                numpy.testing.assert_allclose(file["model/bn/running_mean"][:], mean, rtol=1e-4)
                numpy.testing.assert_allclose(file["optimizer/ema/bn/running_mean"][:], average, rtol=1e-4)
            curves[ranks, shard] = [float(row["loss"]) for row in metrics(self.folder / "run") if row["split"] == "validation"]
            evaluated = float(re.search(r"loss ([0-9.]+)", self.lockstep("evaluate", "deck.yaml", "--checkpoint", "run/checkpoints/latest").out)[1])
            self.assertAlmostEqual(evaluated, curves[ranks, shard][-1], places=4)
            # A run from the middle ends in the same numbers.
            shutil.copy(self.folder / "run/checkpoints/step-00000006.h5", self.folder / "whole.h5")
            self.lockstep("train", "deck.yaml", "run.output_dir=resumed", "run.overwrite=true", "run.resume=run/checkpoints/step-00000003.h5", f"parallel.shard={shard}", ranks=ranks)
            with h5py.File(self.folder / "whole.h5") as whole, h5py.File(self.folder / "resumed/checkpoints/latest") as resumed:
                for name in ("model/bn/running_var", "optimizer/ema/bn/running_mean", "optimizer/ema/bn/running_var", "optimizer/ema/linear1/weight" if "optimizer/ema/linear1/weight" in whole else "model/bn/bias"):
                    self.assertEqual(whole[name][:].tolist(), resumed[name][:].tolist(), name)
        for losses in curves.values():
            numpy.testing.assert_allclose(losses, curves[1, "none"], rtol=1e-5)

    def test_a_copy_of_latest_is_not_trusted(self):
        self.deck(run={"steps": 6, "output_dir": "run", "log_every": 1}, checkpoint={"every_steps": 2, "keep": 0})
        self.lockstep("train", "deck.yaml")
        checkpoints = self.folder / "run/checkpoints"
        (checkpoints / "latest").unlink()
        shutil.copy(checkpoints / "step-00000002.h5", checkpoints / "latest")
        evaluate = ["evaluate", "deck.yaml", "--checkpoint"]
        newest = self.lockstep(*evaluate, checkpoints / "step-00000006.h5").out
        self.assertNotEqual(self.lockstep(*evaluate, checkpoints / "step-00000002.h5").out.split("loss")[1], newest.split("loss")[1])
        result = self.lockstep(*evaluate, "run/checkpoints/latest")
        self.assertEqual(result.out.split("loss")[1], newest.split("loss")[1])
        self.assertIn("run/checkpoints/latest: is a copy and no link, and may be older than its folder's checkpoints; reads step-00000006.h5, the newest whole one", result.err)
        with open(checkpoints / "step-00000006.h5", "r+b") as file:
            file.truncate(1000)
        result = self.lockstep(*evaluate, "run/checkpoints/latest", ranks=2)
        self.assertIn("step-00000006.h5", result.err)
        self.assertIn("reads step-00000004.h5, the newest whole one", result.err)

    def test_names_of_datasets(self):
        random = numpy.random.default_rng(11)
        x, y = random.normal(size=(60, 6)).astype("f4"), (numpy.arange(60) % 3).astype("i4")
        self.h5(train_inputs=x, train_targets=y)
        self.deck(run={"steps": 4, "output_dir": "run", "log_every": 1}, data={"file": "data.h5", "validation": 0.2}, model={"layers": [{"linear": 3}]})
        self.train()
        losses = self.losses()
        with h5py.File(self.folder / "named.h5", "w") as file:
            file["fields/x"], file["labels"], file["other"] = x, y, x
        names = ["data.file=named.h5", "data.inputs=/fields/x", "data.targets=labels"]
        for ranks in (1, 3):
            self.train(*names, ranks=ranks)
            numpy.testing.assert_allclose(self.losses(), losses, rtol=1e-5)
        self.assertIn("validation", summary(self.folder / "run"))
        self.lockstep("predict", "run/checkpoints/latest", "--data", "named.h5:/fields/x", "--output", "y.npy")
        self.assertEqual(numpy.load(self.folder / "y.npy").shape, (60, 3))
        other = "run.output_dir=other"
        self.refused(78, ["data.targets: named.h5 has no dataset /y; it has /fields/x, /labels, /other"], "check", "deck.yaml", other, *names, "data.targets=/y")
        self.refused(78, ["data.targets: is missing; inputs and targets are named together"], "check", "deck.yaml", other, *names[:2])
        self.refused(65, ["named.h5: is not a dataset", "data: {inputs: /x, targets: /y}"], "check", "deck.yaml", other, names[0])


if __name__ == "__main__":
    program.main()
