// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Steps that are recorded once and then launched as graphs give the results of steps whose kernels are launched one by
// one. In preset fake_device, a recorded kernel keeps the arguments of the step in which it was recorded: a host number
// that changes from step to step, but is not copied to device memory, shows. On hosts nothing is recorded; with
// several ranks, only passes and updates without communication are.
#include "train/step_graphs.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/log.hpp"
#include "mpi/run_outcome.hpp"
#include "mpi/serial_training.hpp"
#include "run/training/training_run.hpp"
#include "support/fixtures.hpp"

namespace lockstep {
namespace {

struct Case {
  const char* name;
  std::string deck;  ///< without the device section
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class StepGraphs : public testing::TestWithParam<Case> {};

std::string with_graph(const char* graph, const std::string& deck) {
  return fmt::format("{{device: {{graph: {}}}, {}}}", graph, deck);
}

TEST_P(StepGraphs, LeaveWhatKernelsLeave) {
  const test::RunOutcome plain = test::train_to_the_end(with_graph("off", GetParam().deck));
  const test::RunOutcome recorded = test::train_to_the_end(with_graph("auto", GetParam().deck));
  test::expect_the_same(recorded, plain);
  EXPECT_EQ(recorded.rows.size(), plain.rows.size());
}

// A deck with augmented and mixed images, dropout, overflows of fp16, clipped gradients, a schedule, averages,
// evaluations between steps, three micro-batches, and a smaller last batch in each epoch.
const std::string images =
    "data: {synthetic: {kind: random, shape: [6, 6, 3], classes: 5, train: 56, validation: 20},"
    " augment: {random_crop: 1, horizontal_flip: true, noise: 0.1, mixup: 0.4}},"
    " model: {layers: [{conv2d: {filters: 4, kernel: 3}}, batch_norm, relu, {dropout: {rate: 0.2}}, flatten,"
    " {linear: {features: 5}}]},"
    " optimizer: {type: adamw, learning_rate: 0.01, clip_norm: 1, ema_decay: 0.9},"
    " schedule: {type: cosine, warmup: 5 steps}, batch: {global: 12, micro: 5},"
    " precision: {compute: fp16, loss_scale: {initial: 1.0e+8, interval: 4}},"
    " run: {steps: 33, log_every: 1, evaluate_every: 7 steps}";

// A deck with inputs that kernels read where they were copied to, attention, and an optimizer of several kernels. A
// rank has fewer examples in an evaluation than in the step after it.
const std::string patches =
    "data: {synthetic: {kind: random, shape: [8, 8, 3], classes: 5, train: 64, validation: 6}},"
    " model: {layers: [{patchify: {patch: 4}}, {linear: {features: 8}}, {position_embedding: {length: 4}}, layer_norm,"
    " {attention: {heads: 2}}, {dropout: {rate: 0.1}}, flatten, {linear: {features: 5}}]},"
    " optimizer: {type: lamb, learning_rate: 0.01}, schedule: {type: inverse_sqrt, warmup: 20 steps},"
    " batch: {global: 8}, run: {steps: 30, log_every: 1, evaluate_every: 11 steps}";

// A deck with more steps than a table of coefficients has, batches that grow, and a loss watch, which is the host's.
const std::string numbers =
    "data: {synthetic: {kind: linear, features: 3, train: 60, validation: 10}},"
    " model: {layers: [{linear: {features: 4}}, {dropout: {rate: 0.1}}, {linear: {features: 1}}]}, loss: {type: mse},"
    " optimizer: {type: sgd, learning_rate: 0.01, momentum: 0.5}, schedule: {type: linear, warmup: 10 steps},"
    " batch: {global: 10, ramp: [[150 steps, 20]]}, loss_watch: {},"
    " run: {steps: 280, log_every: 10, evaluate_every: 0}";

const std::string diverging =
    "data: {synthetic: {kind: linear, features: 5, train: 60, validation: 10}},"
    " model: {layers: [{linear: {features: 3}}, {linear: {features: 1}}]}, loss: {type: mse},"
    " optimizer: {type: sgd, learning_rate: 30.0, momentum: 0.5}, batch: {global: 10},"
    " run: {steps: 200, log_every: 1000, evaluate_every: 0}";

INSTANTIATE_TEST_SUITE_P(All, StepGraphs,
                         testing::Values(Case{"images", images}, Case{"patches", patches}, Case{"numbers", numbers},
                                         Case{"diverging", diverging}),
                         [](const auto& info) { return info.param.name; });

Case of_optimizer(const char* type) {
  return {type, fmt::format("data: {{synthetic: {{kind: random, shape: [6], classes: 5, train: 40, validation: 8}}}},"
                            " model: {{layers: [{{linear: {{features: 7}}}}, relu, {{linear: {{features: 5}}}}]}},"
                            " optimizer: {{type: {}, learning_rate: 0.01, weight_decay: 0.1, clip_value: 0.5}},"
                            " schedule: {{type: linear, warmup: 3 steps}}, batch: {{global: 8}},"
                            " run: {{steps: 8, log_every: 1, evaluate_every: 0}}",
                            type)};
}

INSTANTIATE_TEST_SUITE_P(Optimizers, StepGraphs,
                         testing::Values(of_optimizer("sgd"), of_optimizer("adam"), of_optimizer("adamw"),
                                         of_optimizer("rmsprop"), of_optimizer("lion"), of_optimizer("lars"),
                                         of_optimizer("lamb"), of_optimizer("adafactor")),
                         [](const auto& info) { return info.param.name; });

int kernels = 0;

/// Number of kernels that the host launches one by one in a step, once all that can be recorded is.
int kernels_of_a_step(const char* graph, const std::string& deck) {
  const Communicator comm = Communicator::world();
  const test::TemporaryFolder folder;
  enable_log(false);
  TrainingRun run(test::read_run_config(with_graph(graph, deck), (folder.path() / "run").string()), comm);
  for (int step = 0; step < 3; ++step) run.step();
  namespace tools = Kokkos::Tools::Experimental;
  static tools::EventSet before;
  before = tools::get_callbacks();
  const auto count = [](const char* name, std::uint32_t device, std::uint64_t* handle) {
    ++kernels;
    if (before.begin_parallel_for) before.begin_parallel_for(name, device, handle);
  };
  tools::set_begin_parallel_for_callback(count);
  tools::set_begin_parallel_reduce_callback(count);
  kernels = 0;
  run.step();
  tools::set_callbacks(before);
  enable_log(true);
  return kernels;
}

void put(const ExecSpace& space, std::int64_t number, const Tensor& place) {
  auto* const to = place.as<std::int64_t>();
  Kokkos::parallel_for(
      "lockstep::test::put", RangePolicy(space, 0, 1), KOKKOS_LAMBDA(const std::int64_t) { *to = number; });
}

/// When measured shares change, a rank may have as many examples as before, but at another place of the batch.
TEST(StepGraphsOfADevice, AreRecordedAnewWhereARankHasOtherExamplesOfTheBatch) {
  const ExecSpace space;
  const OwnedTensor found("found", DType::i64, {1});
  lockstep::StepGraphs graphs(true, Communicator::world().size());
  BatchPlan plan{.global_examples = 30, .examples = std::vector<std::int64_t>(10)};
  plan.micro_batches = {{.count = 10, .begins = true, .ends = true, .examples = 10}};
  for (const std::int64_t first : {10, 10, 10, 12, 12, 10}) {
    plan.first = first;
    graphs.begin_step(plan, true);
    graphs.run(space, {lockstep::StepGraphs::Part::Kind::update}, lockstep::StepGraphs::Ranks::this_one,
               [&] { put(space, plan.first, found.get()); });
    std::int64_t number = 0;
    copy_to_host(space, found.get(), &number);
    EXPECT_EQ(number, first);
  }
}

TEST(StepGraphsOfADevice, TakeTheHostFewCalls) {
  if (!DeviceGraph::exist) GTEST_SKIP() << "kernels run on the host";
  const bool alone = Communicator::world().size() == 1;
  const int recorded = kernels_of_a_step("auto", patches), plain = kernels_of_a_step("off", patches);
  EXPECT_GT(plain, 40);
  if (alone) EXPECT_LT(recorded, 20);
  else EXPECT_LT(recorded, plain);  // only the update is recorded
  if (!alone) return;
  EXPECT_GT(kernels_of_a_step("off", images), 80);
  EXPECT_LT(kernels_of_a_step("auto", images), 20);
}

}  // namespace
}  // namespace lockstep
