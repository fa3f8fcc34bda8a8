// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>

#include "base/log.hpp"
#include "mpi/serial_training.hpp"
#include "parameters/block_file.hpp"
#include "run/training/training_run.hpp"
#include "support/fixtures.hpp"

namespace lockstep {
namespace {

/// Calls to Kokkos, counted by its tools interface.
struct Counts {
  int allocations = 0, deallocations = 0, fences = 0, copies = 0;
  friend bool operator==(const Counts&, const Counts&) = default;
  friend Counts operator-(const Counts& a, const Counts& b) {
    return {a.allocations - b.allocations, a.deallocations - b.deallocations, a.fences - b.fences, a.copies - b.copies};
  }
};
Counts counts;

void PrintTo(const Counts& c, std::ostream* out) {
  *out << fmt::format("{} allocations, {} deallocations, {} fences, {} copies", c.allocations, c.deallocations,
                      c.fences, c.copies);
}

class StepResources : public testing::Test {
 protected:
  void SetUp() override {
    const OwnedTensor first("lockstep::test", DType::f32, {1});  // sets the callbacks of a fake device
    namespace tools = Kokkos::Tools::Experimental;
    before = tools::get_callbacks();
    tools::set_allocate_data_callback([](auto, const char*, const void*, std::uint64_t) { ++counts.allocations; });
    tools::set_deallocate_data_callback([](auto, const char*, const void*, std::uint64_t) { ++counts.deallocations; });
    tools::set_begin_fence_callback([](const char* name, std::uint32_t device, std::uint64_t* handle) {
      ++counts.fences;
      if (before.begin_fence) before.begin_fence(name, device, handle);
    });
    tools::set_begin_deep_copy_callback([](auto to_space, const char* to_label, const void* to, auto from_space,
                                           const char* from_label, const void* from, std::uint64_t bytes) {
      ++counts.copies;
      if (before.begin_deep_copy) before.begin_deep_copy(to_space, to_label, to, from_space, from_label, from, bytes);
    });
    counts = {};
  }
  void TearDown() override {
    Kokkos::Tools::Experimental::set_callbacks(before);
    enable_log(true);
  }

  static inline Kokkos::Tools::Experimental::EventSet before;  // the callbacks of others

  static constexpr const char* small_cnn =
      "{layers: [{conv2d: {filters: 8, kernel: 5, padding: same}}, relu, {max_pool: {kernel: 4}}, {dropout: {rate: 0.1}}, flatten,"
      " {linear: {features: 40}}, relu, {linear: {features: 10}}]}";
  // Layers that need statistics, that save something for the backward pass, and that are fused.
  static constexpr const char* with_norms =
      "{layers: [{conv2d: {filters: 8, kernel: 3, padding: same, stride: 2}}, {batch_norm: {}, name: a},"
      " {conv2d: {filters: 8, kernel: 3, padding: same}}, {batch_norm: {}, name: b}, {add: {}, from: [a, b]}, relu,"
      " {global_avg_pool: {}, name: p}, {linear: {features: 8}}, {gelu: {}, name: g}, {add: {}, from: [p, g]}, layer_norm,"
      " {linear: {features: 10}}]}";

  RunConfig config(const std::string& precision, int steps, int log_every, const std::string& model = small_cnn) const {
    // 4 batches of 24 examples, so that no batch is ragged.
    RunConfig made = test::read_run_config(
        "{data: {synthetic: {kind: glyphs, train: 96, validation: 26}, normalize: {mean: [0.1], std: [0.3]}},"
        " model: " +
            model + ", optimizer: {type: sgd, momentum: 0.9}, batch: {global: 24, micro: 5}, precision: {compute: " +
            precision +
            "},"
            " run: {steps: " +
            std::to_string(steps) + ", log_every: " + std::to_string(log_every) + ", evaluate_every: 1000}}",
        (folder_.path() / "run").string());
    return made;
  }

  test::TemporaryFolder folder_;
};

TEST_F(StepResources, NothingIsAllocatedAfterTwoSteps) {
  const Communicator comm = Communicator::world();
  for (const auto& [network, model] : {std::pair("cnn", small_cnn), std::pair("norms", with_norms)})
    for (const char* precision : {"fp32", "fp64", "bf16", "fp16, loss_scale: {initial: 16}"}) {
      SCOPED_TRACE(fmt::format("{} in {}", network, precision));
      TrainingRun run(config(precision, 1000, 1000, model), comm);
      run.step();
      run.step();
      Counts before = counts, first{};
      for (int step = 0; step < 12; ++step) {
        const bool measures_noise = run.trainer().steps() % NoiseScale::every == 0;
        run.step();
        const Counts used = counts - before;
        before = counts;
        EXPECT_EQ(used.allocations, 0);
        EXPECT_EQ(used.deallocations, 0);
        if (step == 0) first = used;
        if (!measures_noise) {
          EXPECT_EQ(used, first) << "step " << step;
        }
        // A single rank only waits for events, one step later.
        if (LOCKSTEP_FAKE_DEVICE && comm.size() == 1) {
          EXPECT_EQ(used.fences, 0);
        }
        // There are a few for each micro-batch at most: copies of inputs, zeroed sums, and other small ones.
        EXPECT_LE(used.copies, 50);
        EXPECT_LE(used.fences, 100);
      }
      if (comm.is_root())
        std::printf("a step of %s in %s: %d fences, %d copies\n", network, precision, first.fences, first.copies);
    }
}

TEST_F(StepResources, OffloadedStepsAllocateNothing) {
  try {
    if (!memory_is_separate) ScratchFile(folder_.path());
  } catch (const Error& error) {
    if (error.status() == ExitStatus::cannot_create) GTEST_SKIP() << error.what();
    throw;
  }
  const Communicator comm = Communicator::world();
  const std::string place = memory_is_separate ? "memory" : folder_.path().string();
  for (const bool with_parameters : {false, true}) {
    RunConfig offloads = config("fp32", 1000, 1000);
    offloads.parallel.offload = {
        .present = true, .optimizer = place, .parameters = with_parameters ? place : "", .block_mb = 0.001};
    if (with_parameters) offloads.parallel.sharding.shard = Shard::parameters;
    TrainingRun run(offloads, comm);
    run.step();
    run.step();
    const Counts before = counts;
    for (int step = 0; step < 6; ++step) run.step();
    EXPECT_EQ((counts - before).allocations, 0);
    EXPECT_EQ((counts - before).deallocations, 0);
  }
}

TEST_F(StepResources, LoggingAllocatesNothingEither) {
  const Communicator comm = Communicator::world();
  enable_log(false);
  const auto run = [&](int steps, int log_every) {
    TrainingRun run(config("fp32", steps, log_every), comm);
    const Counts before = counts;
    run.run();
    return counts - before;
  };
  // Allocations besides those of steps (the last evaluation and checkpoint) are the same in each run.
  const Counts few = run(10, 1000), many = run(40, 1000), few_logged = run(10, 1), many_logged = run(40, 1);
  EXPECT_EQ(few.allocations, many.allocations);
  EXPECT_EQ(few_logged.allocations, many_logged.allocations);
  EXPECT_EQ(few.allocations, few_logged.allocations);
  // Each step has a fixed number of fences and copies, with logging a few more; each tenth step has some for the noise
  // scale.
  const Counts thirty = many - few, thirty_logged = many_logged - few_logged;
  EXPECT_EQ(thirty.fences % 3, 0);
  EXPECT_EQ(thirty.copies % 3, 0);
  EXPECT_EQ(thirty_logged.fences % 3, 0);
  EXPECT_EQ(thirty_logged.copies % 3, 0);
  EXPECT_LE((thirty_logged.copies - thirty.copies) / 30, 4);
}

}  // namespace
}  // namespace lockstep
