// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs that offload optimizer states, or parameters, too, to a file (devices: to host memory) give the same results as
// runs that do not.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "comm/emulated_network.hpp"
#include "mpi/serial_training.hpp"
#include "parameters/block_file.hpp"
#include "run/training/training_run.hpp"
#include "support/fixtures.hpp"
#include "support/whole_checkpoint.hpp"

namespace lockstep {
namespace {

struct OffloadCase {
  const char* name;
  const char* precision;
  const char* optimizer;
  bool on_fewer_ranks = false;  ///< skipped on three ranks
  double block_mb = 0.001;      ///< one block of the kernels; a layer has several
  const char* micro = "";       ///< the batch's key, if there are several micro-batches
  bool has_nodes = false;       ///< true if each rank is an emulated node, which sends new values
};
void PrintTo(const OffloadCase& c, std::ostream* out) { *out << c.name; }

/// The way of sharding, and whether parameters are offloaded with the states.
struct Division {
  const char* shard;
  bool with_values = false;
};
void PrintTo(const Division& d, std::ostream* out) { *out << d.shard << (d.with_values ? "_elsewhere" : ""); }

class Offload : public testing::TestWithParam<std::tuple<OffloadCase, Division>> {
 protected:
  void SetUp() override {
    enable_log(false);
    try {
      if (!memory_is_separate) ScratchFile(folder_.path());
    } catch (const Error& error) {
      if (error.status() == ExitStatus::cannot_create) GTEST_SKIP() << error.what();
      throw;
    }
  }
  void TearDown() override { enable_log(true); }

  /// The arrays of a checkpoint, by name.
  using Arrays = std::map<std::string, std::vector<std::byte>>;
  /// Trains to `steps`, from the checkpoint `from` if given; returns the checkpoints' arrays on rank 0. Collective.
  std::vector<Arrays> train(const std::string& name, bool offloads, int steps, const std::string& from = "") const {
    const auto& [c, division] = GetParam();
    // Each copy opens all memory of a fake device, which takes time.
    const double block_mb = memory_is_separate ? std::max(c.block_mb, 0.25) : c.block_mb;
    const std::string place = memory_is_separate ? "memory" : folder_.path().string(),
                      values = division.with_values ? fmt::format(", parameters: '{}'", place) : "",
                      offload = fmt::format(", offload: {{optimizer: '{}'{}, block_mb: {}}}", place, values, block_mb);
    RunConfig config = test::read_run_config(
        fmt::format(
            "{{run: {{steps: {}, seed: 3, log_every: 1, evaluate_every: '2 steps'}}, batch: {{global: 12{}}},"
            " data: {{synthetic: {{kind: random, shape: [90], classes: 7, train: 36, validation: 12}}}},"
            " model: {{layers: [{{linear: {{features: 512}}}}, {{batch_norm: {{}}}}, relu, {{linear: {{features: 513}}}},"
            " tanh, {{linear: {{features: 7}}}}]}}, checkpoint: {{every_steps: 2, keep: 0}}, precision: {{compute: {}}},"
            " optimizer: {}, parallel: {{shard: {}, unit_mb: 0.1, bucket_mb: 0.15, audit_every: 3{}}}}}",
            steps, c.micro, c.precision, c.optimizer, division.shard, offloads ? offload : ""),
        (folder_.path() / name).string());
    if (!from.empty()) config.run.resume = from;
    {
      const Communicator ranks = c.has_nodes ? emulate_network(world_, {.latency_us = 20}) : world_;
      TrainingRun run(config, ranks);
      EXPECT_EQ(run.run(), ExitStatus::done);
      const std::vector<Optimizer::State>& states = run.trainer().optimizer().states();
      for (const Optimizer::State& state : states) {
        EXPECT_EQ(static_cast<bool>(state.offloaded), offloads);
        EXPECT_EQ(state.values.data == nullptr, offloads);
      }
      const ParameterShard& owned = run.trainer().model().parameters().owned();
      EXPECT_EQ(owned.values().data == nullptr, offloads && division.with_values);
      if constexpr (LOCKSTEP_FAKE_DEVICE)
        if (!division.with_values || world_.size() > 1) check_memory(states, block_mb, offloads);
    }
    world_.barrier();
    std::vector<Arrays> written;
    if (!world_.is_root()) return written;
    for (const auto& path : list_checkpoints(folder_.path() / name / "checkpoints")) {
      Arrays& arrays = written.emplace_back();
      for (const NamedArray& array : test::read_checkpoint(path).arrays)
        arrays[array.name].assign(array.data.get(), array.data.get() + array.bytes());
    }
    return written;
  }
  /// Expects offloading to reduce the device's memory by that of the states, except for their blocks.
  void check_memory(const std::vector<Optimizer::State>& states, double block_mb, bool offloads) const {
    const Tensor& first = states.front().values;
    const std::size_t numbers = states.size() + (std::get<1>(GetParam()).with_values ? 1 : 0);
    const double of_states = static_cast<double>(numbers * first.bytes());
    const std::size_t blocks = OffloadedStates::divide(block_mb, first.dtype, numbers, first.count()).bytes_in_memory();
    if (offloads) EXPECT_NEAR(device_bytes_ - of_states + static_cast<double>(blocks), in_use(), 2048);
    else device_bytes_ = in_use();
  }
  static double in_use() { return static_cast<double>(fake_device::bytes_in_use()); }
  std::string file(const std::string& run, int step) const {
    return folder_.path() / run / "checkpoints" / checkpoint_name(step);
  }

  const Communicator world_ = Communicator::world();
  const test::TemporaryFolder folder_;
  mutable double device_bytes_ = 0;  ///< in use after the last step of the run that offloads nothing
};

TEST_P(Offload, HasTheBitsOfStatesInMemory) {
  const auto& [c, division] = GetParam();
  if (world_.size() == 1 && std::string_view(division.shard) != "none" && !division.with_values)
    GTEST_SKIP() << "one rank divides nothing";
  if (world_.size() == 3 && c.on_fewer_ranks) GTEST_SKIP() << "on 1 and 2 ranks";
  if (memory_is_separate && std::string_view(c.name).starts_with("clipped"))
    GTEST_SKIP() << "no step begins early on devices, so these are like those that need no norm";
  const std::vector<Arrays> whole = train("whole", false, 7), offloaded = train("offloaded", true, 7);
  if (world_.is_root()) {
    ASSERT_EQ(whole.size(), 4u);
    EXPECT_GT(whole[0].size(), 12u);
  }
  EXPECT_EQ(whole, offloaded);
  // Each kind of run goes on from a checkpoint of the other.
  const std::vector<Arrays> onto = train("onto", true, 7, file("whole", 4)),
                            from = train("from", false, 7, file("offloaded", 4));
  if (!world_.is_root()) return;
  EXPECT_EQ(onto.back(), whole.back());
  EXPECT_EQ(from.back(), whole.back());
}

constexpr const char* clipped = "{type: adamw, learning_rate: 0.01, clip_norm: 0.5, ema_decay: 0.9}";
constexpr const char* adamw = "{type: adamw, learning_rate: 0.01, ema_decay: 0.9}";
// With this scale gradients overflow, so that the first steps are left out.
constexpr const char* scaled = "fp16, loss_scale: {initial: 1.0e+9, backoff: 0.01, hysteresis: 1}";

INSTANTIATE_TEST_SUITE_P(
    Cases, Offload,
    testing::Combine(
        testing::Values(
            OffloadCase{"clipped", "fp32", clipped}, OffloadCase{"clipped_in_few_blocks", "bf16", clipped, true, 1.2},
            OffloadCase{"clipped_sums", "fp32", clipped, true, 0.001, ", micro: 2", true},
            OffloadCase{"adamw_sums", "fp32", adamw, false, 0.001, ", micro: 2", true},
            OffloadCase{"adamw_in_few_blocks", "bf16", adamw, true, 1.2}, OffloadCase{"left_out", scaled, adamw, true},
            OffloadCase{"momentum", "fp64", "{type: sgd, momentum: 0.9, clip_value: 0.1}", false, 0.001, "", true},
            OffloadCase{"lamb", "fp32", "{type: lamb, learning_rate: 0.01}"},
            OffloadCase{"lars", "fp32", "{type: lars, ema_decay: 0.9}", true, 0.1}),
        testing::Values(Division{"none"}, Division{"optimizer"}, Division{"parameters"}, Division{"parameters", true})),
    [](const auto& info) {
      return fmt::format("{}_{}", std::get<0>(info.param).name, testing::PrintToString(std::get<1>(info.param)));
    });

}  // namespace
}  // namespace lockstep
