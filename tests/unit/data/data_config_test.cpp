// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/open_datasets.hpp"

#include "config/deck.hpp"
#include "data/dataset/synthetic.hpp"
#include "support/scratch.hpp"

namespace lockstep::test {
namespace {

DataConfig config_of(const std::string& deck) {
  DataConfig config;
  read_config(parse_deck(deck, "deck.yaml"), config);
  return config;
}

TEST(DataConfig, ReadsEverything) {
  DataConfig config = config_of(
      "file: mnist.h5\nnormalize: {mean: [0.1], std: [0.3]}\nshuffle: false\n"
      "augment: {random_crop: 4, horizontal_flip: true}\ndrop_last: true\n");
  EXPECT_EQ(config.file, "mnist.h5");
  EXPECT_EQ(config.normalize.std, std::vector<double>{0.3});
  EXPECT_FALSE(config.shuffle);
  EXPECT_TRUE(config.drop_last);
  EXPECT_EQ(config.augment.random_crop, 4);
}

TEST(DataConfig, SyntheticKindsHaveTheirOwnKeys) {
  DataConfig config = config_of("synthetic: {kind: random, shape: [4, 4, 1], classes: 3, train: 20, validation: 5}\n");
  const Datasets datasets = open_datasets(config, 1);
  EXPECT_EQ(datasets.train->size(), 20);
  EXPECT_EQ(datasets.validation->size(), 5);
  EXPECT_EQ(datasets.train->format().input_shape, Shape({4, 4, 1}));
}

TEST(DataConfig, ResolvedDeckReadsBack) {
  for (const char* deck :
       {"file: a.h5\n", "synthetic: {kind: glyphs, train: 9}\nnormalize: {mean: [0, 1], std: [1, 2]}\n",
        "synthetic: {kind: linear, outputs: 2}\n", "file: text.h5\nsequence_length: 64\n",
        "synthetic: {kind: random, vocabulary: 50, sequence_length: 8}\n"}) {
    DataConfig config = config_of(deck);
    const std::string text = write_config(config);
    DataConfig again = config_of(text);
    EXPECT_EQ(write_config(again), text);
  }
}

TEST(DataConfig, RefusesContradictions) {
  const auto refused = [](const std::string& deck, const std::string& part) {
    expect_error(ExitStatus::bad_deck, part, [&] { config_of(deck); });
  };
  refused("shuffle: true\n", "neither file nor synthetic nor memory is given");
  refused("file: a.h5\nsynthetic: {kind: glyphs}\n", "cannot be combined with file");
  refused("file: a.h5\nmemory: {inputs: [3]}\n", "cannot be combined with file");
  refused("memory: {}\n", "memory.inputs: must be the shape of one example");
  refused("memory: {inputs: [1, 1, 1, 1, 1, 1]}\n", "of 1 to 5 dimensions");
  refused("memory: {inputs: [3, 3], input_type: tokens}\n", "must be the number of tokens");
  refused("memory: {inputs: [3], input_type: tokens, targets: 1}\n",
          "memory.targets: cannot be combined with input_type: tokens");
  refused("synthetic: {train: 3}\n", "kind");
  refused("synthetic: {kind: glyph}\n", "did you mean 'glyphs'");
  refused("synthetic: {kind: glyphs, features: 3}\n", "features");
  refused("synthetic: {kind: random}\n", "must have one entry");
  refused("synthetic: {kind: random, shape: [1000000, 1000000, 3]}\n",
          "too large (an example has at most 1e9 numbers)");
  refused("synthetic: {kind: random, vocabulary: 5}\n", "sequence_length: is missing");
  refused("synthetic: {kind: random, vocabulary: 5, sequence_length: 3, shape: [4]}\n",
          "shape: cannot be combined with vocabulary");
  refused("synthetic: {kind: random, vocabulary: 5, sequence_length: 3, classes: 4}\n",
          "classes: cannot be combined with vocabulary");
  refused("synthetic: {kind: random, vocabulary: 5, sequence_length: 3, type: u8}\n",
          "type: cannot be combined with vocabulary");
  refused("synthetic: {kind: random, shape: [4], sequence_length: 3}\n", "given without vocabulary");
  refused("synthetic: {kind: glyphs}\nsequence_length: 3\n", "sequence_length: is given without a file");
  refused("synthetic: {kind: glyphs, train: 0}\n", "out of range");
  // Sizes that would fill any memory, or take for ever.
  refused("synthetic: {kind: glyphs, train: 10000000000}\n", "train: 10000000000 is out of range");
  refused("synthetic: {kind: linear, features: 100000, outputs: 10000}\n", "outputs: times features");
  refused("file: a.h5\nnormalize: {mean: [0.1, 0.2], std: [1]}\n", "as many entries as mean");
  refused("file: a.h5\nnormalize: {}\n", "as many entries as mean");
  refused("file: a.h5\nnormalize: {mean: [0.1], std: [0]}\n", "out of range");
}

TEST(DataConfig, MemoryIsAFormatAndNoData) {
  const DataConfig values = config_of("memory: {inputs: [4, 4, 2], input_type: u8, targets: 3, target_type: f64}\n"),
                   tokens = config_of("memory: {inputs: [7], input_type: tokens}\n");
  EXPECT_EQ(known_format(values), (ExampleFormat{{4, 4, 2}, DType::u8, {3}, DType::f64}));
  EXPECT_EQ(known_format(tokens), (ExampleFormat{{7}, DType::i32, {7}, DType::i32}));
  EXPECT_EQ(known_format(config_of("file: a.h5\n")), std::nullopt);
  expect_error(ExitStatus::bad_deck, "data.memory: is for examples that a program passes to lockstep::Session",
               [&] { open_datasets(values, 1); });
}

}  // namespace
}  // namespace lockstep::test
