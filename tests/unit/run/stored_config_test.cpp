// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include "run/deck/deck_changes.hpp"
#include "run/deck/run_config.hpp"

namespace lockstep {
namespace {

constexpr const char* rest = R"(
run: {steps: 5}
data: {synthetic: {kind: random, shape: [5], classes: 7, train: 50, validation: 20}}
model: {layers: [{linear: {features: 7}}]}
)";

std::string deck(const std::string& parallel) { return "parallel: " + parallel + rest; }

TEST(StoredConfig, KnowsTheNamesOfBefore) {
  const RunConfig config = read_stored_config(deck("{replicas: 3, emulate: {latency_us: 5}}"), "old.yaml");
  EXPECT_EQ(config.parallel.virtual_replicas, 3);
  EXPECT_THROW(read_run_config(parse_deck(deck("{replicas: 3}"), "new.yaml")), DeckError);
}

TEST(StoredConfig, HasPathsThatDecksMayNotHave) {
  const std::string here = R"(
run: {steps: 5, output_dir: ~/runs/x}
data: {file: $SCRATCH/x.h5}
model: {layers: [{linear: {features: 7}}]}
)";
  EXPECT_EQ(read_stored_config(here, "old.yaml").data.file, "$SCRATCH/x.h5");
  EXPECT_THROW(read_run_config(parse_deck(here, "new.yaml")), Error);
}

TEST(StoredConfig, DoesNotDifferFromTheSameUnderNewNames) {
  EXPECT_TRUE(changes_between(deck("{replicas: 3, emulate: {}}"), deck("{virtual_replicas: 3}")).empty());
  const std::vector<DeckChange> changes = changes_between(deck("{replicas: 3}"), deck("{virtual_replicas: 4}"));
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].key, "parallel.virtual_replicas");
  EXPECT_EQ(changes[0].effect, DeckChange::Effect::training);
}

}  // namespace
}  // namespace lockstep
