# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ranks that have not been started alike: with other decks, programs, threads, data or networks."""
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "faults"))
import nodes
import program
from idx import idx_images, idx_labels
from program import LockstepTest, Result, metrics, without_times

try:
    import h5py
    import numpy
except ImportError:
    h5py = None


class UnlikeRanks(LockstepTest):
    def test_other_threads(self):
        self.deck()
        result = self.on_each_rank('export OMP_NUM_THREADS=$((rank + 1)); exec "$0" train deck.yaml', 2)
        if re.search(r"backend +OpenMP", self.lockstep("info").out):
            self.expect_refusal(result, 64, ["the number of threads of rank 1 on ", "'2' instead of '1'", "give all ranks the same number (OMP_NUM_THREADS)"])
        else:
            self.assertEqual(result.status, 0, result)

    def test_data_without_validation_on_one_rank(self):
        for rank in (0, 1):
            (self.folder / str(rank)).mkdir()
            images, labels = idx_images(self.folder / "images", 48 - 8 * rank), idx_labels(self.folder / "labels", 48 - 8 * rank)
            validation = ("--validation", "8") if rank == 0 else ()
            self.lockstep("import", "idx", "--images", images, "--labels", labels, *validation, "--output", f"{rank}/data.h5")
        self.deck(data={"file": "data.h5"})
        result = self.on_each_rank(f'cd $rank; exec "$0" train ../deck.yaml run.output_dir={self.folder}/run', 2)
        self.expect_refusal(result, 65, ["the data of rank 1 on ", "no examples", "same files"])

    def test_other_deck(self):
        self.deck()
        result = self.on_each_rank('x=; [ $rank != 1 ] || x=optimizer.learning_rate=0.25; exec "$0" train deck.yaml $x', 3)
        self.expect_refusal(result, 78, ["the deck of rank 1 on ", "rank 0", "learning_rate: 0.25", "learning_rate: 0.1", "same deck"])
        self.assertFalse((self.folder / "run").exists())
        result = self.on_each_rank('x=; [ $rank != 1 ] || x=parallel.survive=true; exec "$0" train deck.yaml $x', 2, limit=60)
        self.expect_refusal(result, 78, ["the deck of rank 1 on ", "survive: true", "same deck"])

    def test_other_program(self):
        git = re.search(r"git +(\w+)", self.lockstep("info").out)[1].encode()
        other = self.folder / "other"
        with open(program.PROGRAM, "rb") as file:
            other.write_bytes(file.read().replace(git, git[::-1]))
        other.chmod(0o755)
        self.deck()
        result = self.on_each_rank(f'x=$0; [ $rank != 1 ] || x={other}; exec "$x" train deck.yaml', 2)
        self.expect_refusal(result, 64, ["the program of rank 1 on ", git.decode(), git[::-1].decode(), "same lockstep"])

    def other_data(self):
        for rank in (0, 1):
            (self.folder / str(rank)).mkdir()
            images, labels = idx_images(self.folder / "images", 40), idx_labels(self.folder / "labels", 40, 10 - rank)
            self.lockstep("import", "idx", "--images", images, "--labels", labels, "--output", f"{rank}/data.h5")
        self.deck(data={"file": "data.h5"})

    def test_one_rank_of_a_node_reads(self):
        """The other ranks use what that rank has read, whatever they would have found in the file."""
        self.other_data()
        result = self.on_each_rank(f'cd $rank; exec "$0" train ../deck.yaml run.output_dir={self.folder}/run', 2)
        self.assertEqual(result.status, 0, result)
        self.lockstep("train", "../deck.yaml", f"run.output_dir={self.folder}/same", ranks=2, cwd=self.folder / "0")
        self.assertEqual(without_times(metrics(self.folder / "run")), without_times(metrics(self.folder / "same")))

    def test_other_data_on_another_node(self):
        launcher = nodes.launcher(self, "nodea:2,nodeb:1")
        self.other_data()
        done = subprocess.run(["timeout", "60", *launcher, "3", "bash", "-c", f'cd $((OMPI_COMM_WORLD_RANK / 2)); "$0" train ../deck.yaml run.output_dir={self.folder}/run; status=$?; sleep 1; exit $status',
                               program.PROGRAM], cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        result = Result(done.returncode, done.stdout, done.stderr, 0)
        self.expect_refusal(result, 65, ["the data of rank 2 on nodeb differs from that of rank 0 on nodea", "data.h5:/train: 40 examples", "same files"])
        self.assertFalse((self.folder / "run").exists())

    def write_data(self, rank, weights=None, targets_of_test=True):
        with h5py.File(self.folder / str(rank) / "data.h5", "w") as file:
            for split in ("train", "test"):
                file[f"{split}/inputs"] = numpy.linspace(-1, 1, 80, dtype="f4").reshape(20, 4)
                if split == "train" or targets_of_test:
                    file[f"{split}/targets"] = numpy.arange(20, dtype="i4") % 2
            if weights is not None:
                file["train/weights"] = numpy.asarray(weights, dtype="f4")

    @unittest.skipUnless(h5py, "no h5py here to write data files with")
    def test_other_datasets_in_a_file(self):
        self.deck(data={"file": "data.h5"}, model={"layers": [{"linear": 2}]}, batch={"global": 8})
        for rank in (0, 1):
            (self.folder / str(rank)).mkdir()
        for part in ({"weights": [1] * 20}, {"targets_of_test": False}):
            for of in (0, 1):
                for rank in (0, 1):
                    self.write_data(rank, **(part if rank == of else {}))
                result = self.on_each_rank(f'cd $rank; exec "$0" train ../deck.yaml run.output_dir={self.folder}/run', 2, limit=60)
                self.expect_refusal(result, 65, ["data.h5:/", " of rank 1 on ", "same files"])

    def files_with_other_weights(self):
        self.deck(data={"file": "data.h5", "sampler": "weighted"}, model={"layers": [{"linear": 2}]}, batch={"global": 8}, checkpoint={"every_steps": 2})
        for rank in (0, 1):
            (self.folder / str(rank)).mkdir()
            self.write_data(rank, weights=[rank, 1 - rank] * 10)

    @unittest.skipUnless(h5py, "no h5py here to write data files with")
    def test_other_weights(self):
        self.files_with_other_weights()
        launcher = nodes.launcher(self, "nodea:1,nodeb:1")
        done = subprocess.run(["timeout", "60", *launcher, "2", "bash", "-c", f'cd $OMPI_COMM_WORLD_RANK; "$0" train ../deck.yaml run.output_dir={self.folder}/run; status=$?; sleep 1; exit $status',
                               program.PROGRAM], cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        self.expect_refusal(Result(done.returncode, done.stdout, done.stderr, 0), 65, ["the data of rank 1 on nodeb differs from that of rank 0 on nodea", "same files"])

    @unittest.skipUnless(h5py, "no h5py here to write data files with")
    def test_other_weights_than_before(self):
        self.files_with_other_weights()
        self.lockstep("train", "../deck.yaml", "run.steps=2", cwd=self.folder / "0")
        (self.folder / "1/data.h5").replace(self.folder / "0/data.h5")
        self.assertIn("was written with data that differ", self.lockstep("train", "../deck.yaml", cwd=self.folder / "0").err)

    def test_network_of_one_rank(self):
        self.deck()
        result = self.on_each_rank('set --; [ $rank != 1 ] || set -- --emulate-network ranks_per_node=1; exec "$0" train deck.yaml "$@"', 2)
        self.expect_refusal(result, 64, ["--emulate-network of rank 1 on ", "'ranks_per_node=1' instead of"])


if __name__ == "__main__":
    program.main()
