// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run/deck/deck_changes.hpp"
#include "run/deck/run_config.hpp"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* rest_but_run = R"(
data: {synthetic: {kind: random, shape: [5], classes: 7, train: 50, validation: 20}}
model: {layers: [{linear: {features: 7}}]}
)";

/// A run's name is the name of its folder in runs/.
TEST(RunName, IsThatOfAFolder) {
  const auto problem = [](const std::string& name) -> std::string {
    try {
      read_run_config(parse_deck("run: {steps: 5, name: \"" + name + "\"}\n" + rest_but_run, "deck.yaml"));
      return "";
    } catch (const DeckError& error) {
      EXPECT_EQ(error.status(), ExitStatus::bad_deck);
      return error.what();
    }
  };
  for (const auto& [name, why] : {std::pair("..", "it stands for an existing folder"),
                                  {".", "it stands for"},
                                  {"a/b", "it contains a /"},
                                  {"/tmp", "it contains a /"},
                                  {"-rf", "programs would take"},
                                  {"a\\nb", "it contains a control character"},
                                  {"a\\e[1mb", "it contains a control character"}})
    EXPECT_THAT(problem(name),
                AllOf(HasSubstr("deck.yaml:1:23: run.name: '"), HasSubstr("cannot be the name of a folder"),
                      HasSubstr(why), HasSubstr("give another name")));
  for (const char* name : {"exp #3", "...", ".hidden", "größer", "a-b", "1e-3"}) EXPECT_EQ(problem(name), "");
}

TEST(StoredConfig, KnowsWhatMattersOnlyAtTheFirstStep) {
  const auto effect_of = [](const std::string& was, const std::string& is) {
    const std::vector<DeckChange> changes = changes_between(was, is);
    EXPECT_EQ(changes.size(), 1u);
    return changes.at(0).effect;
  };
  using Effect = DeckChange::Effect;
  EXPECT_EQ(effect_of("precision: {loss_scale: {initial: 8}}", "precision: {loss_scale: {initial: 4}}"), Effect::none);
  EXPECT_EQ(effect_of("precision: {compute: fp16}", "precision: {compute: fp16, loss_scale: {initial: 4}}"),
            Effect::training)
      << "of a run that begins to scale its loss";
  EXPECT_EQ(effect_of("model: {layers: [{attention: {out_initial_std: 1}}]}",
                      "model: {layers: [{attention: {out_initial_std: 2}}]}"),
            Effect::none);
}

TEST(StoredConfig, ComparesWithTheDeckOfACheckpoint) {
  const std::string four = "optimizer: {learning_rate: 4}", five = "optimizer: {learning_rate: 5}";
  const std::vector<DeckChange> changes = changes_since({{"deck", four}}, five);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].key, "optimizer.learning_rate");
  EXPECT_TRUE(changes_since({{"state", four}}, five).empty()) << "a file of another program";
}

}  // namespace
}  // namespace lockstep
