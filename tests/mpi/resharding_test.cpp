// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Any number of ranks, with any sharding, can resume from the checkpoint of any other.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "mpi/serial_training.hpp"
#include "run/training/training_run.hpp"
#include "support/fixtures.hpp"
#include "support/whole_checkpoint.hpp"

namespace lockstep {
namespace {

constexpr int numbers_of_ranks[] = {1, 2, 3, 4, 6};
/// Ways of sharding: their names in folders, and their keys.
constexpr std::pair<const char*, const char*> stages[] = {
    {"none", "shard: none"},
    {"optimizer", "shard: optimizer"},
    {"optimizer_by_messages", "shard: optimizer, share_parameters: false"},
    {"gradients", "shard: gradients"},
    {"parameters", "shard: parameters, share_parameters: false, unit_mb: 0.1"},
    {"groups", "shard: parameters, shard_group: 2, share_parameters: false, unit_mb: 0.1"},
};
bool divides(std::string_view stage, int ranks) { return stage != "groups" || ranks % 2 == 0; }
constexpr int middle = 3, end = 5;

class Resharding : public testing::TestWithParam<const char*> {
 protected:
  Resharding() { enable_log(false); }
  ~Resharding() override { enable_log(true); }

  std::string file(const std::string& run, int step) const {
    return folder_.path() / run / "checkpoints" / checkpoint_name(step);
  }

  /// Trains to a checkpoint after `steps`, from the checkpoint `from` if given. Collective over the world.
  void train(const std::string& name, int ranks, const char* stage, int steps, const std::string& from) const {
    const bool takes_part = world_.rank() < ranks;
    const Communicator group = world_.split(takes_part ? 0 : 1);
    if (takes_part) {
      RunConfig config = test::read_run_config(
          fmt::format(
              "{{run: {{steps: {}, seed: 3}}, batch: {{global: 36}},"
              " data: {{synthetic: {{kind: random, shape: [90], classes: 7, train: 72}}}},"
              " model: {{layers: [{{linear: {{features: 512}}}}, {{batch_norm: {{}}}}, relu, {{linear: {{features: "
              "520}}}}, tanh, {{linear: {{features: 7}}}}]}},"
              " checkpoint: {{every_steps: 2, keep: 0}}, optimizer: {},"
              " parallel: {{{}, bucket_mb: 0.15, deterministic: {{shards: 12}}, sync_batch_norm: false}}}}",
              steps, GetParam(), stage),
          (folder_.path() / name).string());
      if (!from.empty()) config.run.resume = from;
      TrainingRun run(config, group);
      EXPECT_EQ(run.run(), ExitStatus::done);
    }
    world_.barrier();
  }

  using Arrays = std::map<std::string, std::vector<std::byte>>;
  Arrays arrays_in(const std::string& file) const {
    Arrays arrays;
    if (!world_.is_root()) return arrays;
    for (const NamedArray& array : test::read_checkpoint(file).arrays)
      arrays[array.name].assign(array.data.get(), array.data.get() + array.bytes());
    EXPECT_GT(arrays.size(), 12u);
    return arrays;
  }

  const Communicator world_ = Communicator::world();
  const test::TemporaryFolder folder_;
};

TEST_P(Resharding, AllPairsComeToTheSameBits) {
  ASSERT_GE(world_.size(), std::ranges::max(numbers_of_ranks));
  train("whole", 1, "shard: none", end, "");
  const Arrays in_the_middle = arrays_in(file("whole", 2)), at_the_end = arrays_in(file("whole", end));
  std::vector<std::string> written;
  for (const auto& [stage, deck] : stages)
    for (const int ranks : numbers_of_ranks) {
      if (!divides(stage, ranks)) continue;
      const std::string name = fmt::format("{}_{}", stage, ranks);
      train(name, ranks, deck, middle, "");
      EXPECT_EQ(arrays_in(file(name, 2)), in_the_middle) << "written by " << name << " after its steps";
      written.push_back(name);
    }
  // All files must hold the same bits, whichever run wrote them: the first one stands for all, and each reader takes
  // another file.
  const Arrays behind_middle = arrays_in(file(written.front(), middle));
  std::size_t next = 0;
  for (const auto& [stage, deck] : stages)
    for (const int ranks : numbers_of_ranks) {
      if (!divides(stage, ranks)) continue;
      const std::string& writer = written[next++ * 7 % written.size()];
      EXPECT_EQ(arrays_in(file(writer, middle)), behind_middle) << "written by " << writer;
      const std::string name = fmt::format("from_{}_{}", stage, ranks);
      train(name, ranks, deck, end, file(writer, middle));
      EXPECT_EQ(arrays_in(file(name, end)), at_the_end) << stage << " on " << ranks << " ranks, from " << writer;
    }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, Resharding,
                         testing::Values("{type: adamw, learning_rate: 0.01, clip_norm: 0.5}",
                                         "{type: sgd, momentum: 0.9, ema_decay: 0.9}"),
                         [](const auto& info) { return info.index == 0 ? "adamw" : "average"; });

}  // namespace
}  // namespace lockstep
