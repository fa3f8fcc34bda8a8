# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The recommender learns the clicks of inputs/synthetic_recommender.yaml about as well as they can be known."""
import program
from program import SOURCE, LockstepTest, summary

DECK = SOURCE / "inputs" / "synthetic_recommender.yaml"
# Of the probabilities that the validation examples are drawn with; unit/data/synthetic_test.cpp computes it.
AUC_OF_THE_LAW = 0.85494


class Recommender(LockstepTest):
    def validation(self, name, *overrides, ranks=1):
        self.lockstep("train", DECK, f"run.output_dir={name}", *overrides, ranks=ranks, limit=300)
        return summary(self.folder / name)["validation"]

    def test_its_clicks_are_told_as_well_as_by_their_law(self):
        auc = self.validation("trained")["auc"]
        self.assertLess(abs(auc - AUC_OF_THE_LAW), 0.005)

    def test_two_ranks_do_as_one(self):
        one, two = (self.validation(f"ranks{ranks}", "run.steps=200", ranks=ranks) for ranks in (1, 2))
        self.assertGreater(one["auc"], 0.6)
        self.assertAlmostEqual(two["loss"], one["loss"], delta=1e-5)
        self.assertAlmostEqual(two["auc"], one["auc"], delta=1e-4)

    def test_rows_that_are_not_there(self):
        """Found by the law: the deck's world has rows beyond those of this model."""
        fewer = ["data.synthetic.train=1000", "data.synthetic.validation=100", "model.vocabularies=[100, 50, 20, 9]"]
        ended = self.lockstep("train", DECK, "run.output_dir=ended", *fewer, status=70)
        self.assertRegex(ended.err, r"step 1: .* in its batch, the inputs of examples \d+, .* are not finite, or name rows that the tables do not have")
        found = self.lockstep("check", DECK, "--data", *fewer, status=65)
        self.assertRegex(found.out + found.err, r"train: 1000 examples; row numbers outside their tables of \d+ examples: \d+, ")

    def test_row_numbers_that_16_bits_round(self):
        tables = "[300, 50, 20, 10]"
        refused = self.lockstep("check", DECK, f"data.synthetic.vocabularies={tables}", f"model.vocabularies={tables}", "precision.compute=bf16", status=78)
        self.assertIn("bf16 rounds row numbers of a table with 300 rows in layer 'tables'", refused.err)


if __name__ == "__main__":
    program.main()
