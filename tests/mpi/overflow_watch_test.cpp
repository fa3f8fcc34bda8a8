// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/guard/nonfinite_report.hpp"

#include <gmock/gmock.h>

#include <limits>
#include <vector>

#include "mpi/serial_training.hpp"
#include "run/experiment/experiment.hpp"

namespace lockstep {
namespace {

/// In a deterministic run, only the first shard's sum overflows, on the last rank; a later sum must not hide that.
TEST(OverflowWatch, SeesEachOfTheSums) {
  const ExecSpace space;
  const Communicator comm = Communicator::world();
  const RunConfig config = test::read_run_config(
      "{data: {synthetic: {kind: random, shape: [6], classes: 5}}, run: {steps: 1},"
      " model: {layers: [{linear: {features: 3}, name: first}, {linear: {features: 5}, name: second}]}}",
      "unused");
  const Model model = make_model(config, open_experiment(config).graph, 1, Purpose::training);
  const ParameterBuffer& parameters = model.parameters();
  constexpr std::int64_t sums = 2;
  OverflowWatch watch(parameters, model.graph(), sums);
  const auto is_faulty = [&](std::int64_t sum) { return sum == 0 && comm.rank() == comm.size() - 1; };

  watch.begin(space);
  for (std::int64_t sum = 0; sum < sums; ++sum) {
    fill_zero(space, parameters.gradients());
    for (const std::size_t node : {1, 0}) {
      const ElementRange range = parameters.of_layer(node).own;
      const float number = std::numeric_limits<float>::infinity();
      if (node == 0 && is_faulty(sum))
        copy_from_host(space, &number, {parameters.gradients(range).data, DType::f32, {1}});
      watch.inspect(space, parameters, range);
    }
    watch.end_sum();
  }
  watch.end(space, 1);
  // One of 21 numbers in each of two sums is not finite.
  EXPECT_EQ(watch.describe(space, comm, {}, 1),
            fmt::format("2.38 % of the gradient of layer 'first' is not finite on rank {}", comm.size() - 1));

  watch.begin(space);
  for (const Parameter& parameter : parameters.parameters()) {
    const std::vector<float> numbers(static_cast<std::size_t>(parameter.range.count),
                                     std::numeric_limits<float>::infinity());
    copy_from_host(space, numbers.data(), parameters.gradients(parameter.range));
  }
  for (std::int64_t sum = 0; sum < sums; ++sum) {
    for (const std::size_t node : {1, 0}) watch.inspect(space, parameters, parameters.of_layer(node).own);
    watch.end_sum();
  }
  watch.end(space, 2);
  EXPECT_EQ(watch.describe(space, comm, {}, 2), "100 % of the gradient of layer 'second' is not finite on rank 0");
}

}  // namespace
}  // namespace lockstep
