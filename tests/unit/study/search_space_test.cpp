// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "study/search_space.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace lockstep {
namespace {

struct SpaceConfig : Config {
  SearchSpace space;
  void describe(Fields& fields) override { space.describe(fields, "space"); }
};

SearchSpace read(const std::string& text) {
  SpaceConfig config;
  read_config(parse_deck(text, "study.yaml"), config);
  return config.space;
}

double number_at(const SearchSpace& space, std::size_t i, double place) {
  return std::stod(space.dimensions[i].value_at(place, 1000));
}

TEST(SearchSpace, Scales) {
  const SearchSpace space = read(
      "space:\n"
      "  a: {linear: [-1, 3]}\n"
      "  b.c: {log: [1e-3, 10]}\n"
      "  d: {reverse_log: [0, 0.99]}\n"
      "  e: {integer: [2, 5]}\n"
      "  f: [x, y]\n"
      "  g: {linear: [0.5, 1], of_budget: true}\n");
  EXPECT_EQ(space.keys, (std::vector<std::string>{"a", "b.c", "d", "e", "f", "g"}));
  EXPECT_DOUBLE_EQ(number_at(space, 0, 0.25), 0);
  EXPECT_NEAR(number_at(space, 1, 0.5), 0.1, 1e-6);
  EXPECT_NEAR(number_at(space, 2, 0.5), 0.9, 1e-6);  // 1 − x is 1, 0.1 and 0.01
  EXPECT_EQ(number_at(space, 2, 0), 0);
  for (const auto& [place, value] : {std::pair(0.0, 2.0), {0.24, 2.0}, {0.26, 3.0}, {0.999, 5.0}})
    EXPECT_EQ(number_at(space, 3, place), value);
  EXPECT_EQ(space.dimensions[4].value_at(0.4, 1000), "x");
  EXPECT_EQ(space.dimensions[4].value_at(0.6, 1000), "y");
  EXPECT_EQ(space.dimensions[5].value_at(0.5, 1000), "750 steps");
}

TEST(SearchSpace, EndsAreNumbersAsDecksHaveThem) {
  const SearchSpace space = read("space: {a: {log: [1E-3, +1.0E+1]}, b: {linear: [1e-3, 1e1]}}\n");
  EXPECT_NEAR(number_at(space, 0, 0.5), 0.1, 1e-6);
  EXPECT_NEAR(number_at(space, 1, 0.5), 5.0005, 1e-4);
  EXPECT_THROW(read("space: {a: {log: [+-1, 2]}}\n"), DeckError);
}

/// Discrete values go into decks as they are: they are no shares of a budget.
TEST(SearchSpace, RefusesASharedBudgetOfValuesToChooseFrom) {
  try {
    read("space:\n  a: {discrete: [0.1, 0.5], of_budget: true}\n");
    ADD_FAILURE() << "nothing was thrown";
  } catch (const DeckError& error) {
    EXPECT_NE(std::string(error.what()).find("study.yaml:2:"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("of_budget"), std::string::npos) << error.what();
  }
}

TEST(SearchSpace, Borders) {
  const SearchSpace space = read("space: {a: {log: [1, 10]}, b: [1, 2]}\n");
  EXPECT_TRUE(space.dimensions[0].is_at_border(0.01));
  EXPECT_TRUE(space.dimensions[0].is_at_border(0.96));
  EXPECT_FALSE(space.dimensions[0].is_at_border(0.5));
  EXPECT_FALSE(space.dimensions[1].is_at_border(0.01));
}

TEST(SearchSpace, WrittenItReadsBack) {
  SpaceConfig config;
  read_config(parse_deck("space: {a: {log: [1e-3, 1]}, b: [x, true, 3]}\n", "study.yaml"), config);
  const std::string text = write_config(config);
  SpaceConfig again;
  read_config(parse_deck(text, "study.yaml"), again);
  EXPECT_EQ(write_config(again), text);
}

}  // namespace
}  // namespace lockstep
