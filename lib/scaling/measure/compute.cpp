// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "base/duration.hpp"
#include "base/median.hpp"
#include "core/tensor.hpp"
#include "ops/products/provider.hpp"
#include "run/reports/reports.hpp"
#include "scaling/machine.hpp"
#include "scaling/measure/measure_machine.hpp"
#include "scaling/workload.hpp"

namespace lockstep {
namespace {

/// Median time of many calls in a fifth of a second.
double median_seconds(const std::function<void()>& call) {
  const ExecSpace space;
  std::vector<double> seconds;
  for (const Timer all; all.seconds() < 0.2 || seconds.size() < 5;) {
    const Timer timer;
    call();
    space.fence("lockstep::bench");
    seconds.push_back(timer.seconds());
  }
  return median(std::move(seconds));
}

/// Seconds of a product of n × n by n × n numbers, by the first library that has one; none if no library has.
std::optional<double> product_seconds(DType dtype, std::int64_t n) {
  const InnerProductShape shape{n, n, n, dtype, true, Activation::none};
  for (const Provider* provider : providers()) {
    const auto product = provider->inner_product(shape);
    if (!product) continue;
    const OwnedTensor x("lockstep::bench::x", dtype, {n, n}), weight("lockstep::bench::weight", dtype, {n, n}),
        y("lockstep::bench::y", dtype, {n, n}), bias("lockstep::bench::bias", master_dtype(dtype), {n});
    const ExecSpace space;
    for (const OwnedTensor* tensor : {&x, &weight, &y, &bias}) fill_zero(space, tensor->get());
    const Buffer scratch("lockstep::bench::workspace", std::max<std::size_t>(8, product->workspace_bytes()));
    const Tensor workspace = scratch.tensor(0, DType::u8, {static_cast<std::int64_t>(scratch.size())});
    product->set_weight(weight.get());
    return median_seconds([&] { product->forward(space, x.get(), bias.get(), y.get(), workspace); });
  }
  return std::nullopt;
}

/// Numbers of all ranks, on rank 0 only. Collective.
std::vector<double> gathered(const Communicator& comm, const std::vector<double>& own) {
  std::vector<double> all;
  for (const std::string& text : comm.gather_to_root(fmt::format("{}", fmt::join(own, " ")))) {
    std::istringstream words(text);
    for (double value = 0; words >> value;) all.push_back(value);
  }
  return all;
}

/// Rate of copies to pinned memory of the host, and back.
double copy_gbps(const Communicator& comm) {
  const OwnedTensor on_device("lockstep::bench::copy", DType::u8, {64 << 20});
  const StagingMemory on_host = staging_memory("lockstep::bench::copy", on_device.get().bytes());
  comm.barrier();
  const double seconds = mean_of(comm, median_seconds([&] {
                                   start_copy_to_host(ExecSpace(), on_device.get(), on_host.data());
                                   start_copy_from_host(ExecSpace(), on_host.data(), on_device.get());
                                 }));
  return 2e-9 * static_cast<double>(on_host.size()) / seconds;
}

/// Steps of so many examples that each rank does by itself, all ranks at the same time. Collective.
std::vector<TimedStep> steps_of(const Communicator& comm, RunConfig config, std::int64_t batch, double seconds) {
  config.batch = {.global = batch};
  config.run.epochs = 1'000'000'000;
  config.run.steps.reset();
  // Predictions add what is computed again, and the traffic of states that are elsewhere.
  config.model.checkpointing = Checkpointing::none;
  config.parallel.offload = {};
  comm.barrier();
  TimedSteps timed;
  comm.run_collectively([&] { timed = timed_steps(config, Communicator::alone(), 20, seconds); });
  // Warm-up: the first steps make what all later ones find.
  timed.steps.erase(timed.steps.begin(), timed.steps.begin() + 5);
  return std::move(timed.steps);
}

/// Mean over ranks of the median time of these steps. Collective.
double milliseconds(const Communicator& comm, const std::vector<TimedStep>& steps, double TimedStep::* phase) {
  std::vector<double> seconds;
  for (const TimedStep& step : steps) seconds.push_back(step.*phase);
  return 1e3 * mean_of(comm, median(std::move(seconds)));
}

/// A step that takes no longer than any step must: its products and its memory are next to nothing.
constexpr const char* least_step = R"(
run: {epochs: 1}
data: {synthetic: {kind: linear, features: 1, train: 4096, validation: 0}}
model: {layers: [{linear: 1}]}
loss: {type: mse}
optimizer: {type: sgd, learning_rate: 0.001}
)";

std::vector<std::int64_t> batches_of(const RunConfig& deck, const MachineBench& options, std::int64_t examples) {
  std::vector<std::int64_t> batches = options.batches;
  if (batches.empty()) {
    const std::int64_t most = std::min({deck.batch.largest(), examples, deck.batch.micro.value_or(examples)});
    for (std::int64_t batch = 1; batch < most; batch *= 4) batches.push_back(batch);
    batches.push_back(most);
    // One batch does not show which part of a step grows with the examples.
    if (batches.size() == 1 && examples > 1) batches.push_back(std::min<std::int64_t>(4, examples));
  }
  std::ranges::sort(batches);
  return batches;
}

}  // namespace

double mean_of(const Communicator& comm, double value) {
  comm.all_reduce_sum(std::span(&value, 1));
  return value / comm.size();
}

void measure_compute(const Communicator& comm, const std::vector<Precision>& precisions, Machine& machine) {
  for (const Precision precision : precisions)
    for (const std::int64_t n : {32, 128, 512, 1024}) {
      const DType dtype = PrecisionOptions{.compute = precision}.dtype();
      comm.barrier();
      const auto seconds = product_seconds(dtype, n);
      if (!comm.every_rank(seconds.has_value())) continue;
      const double flops = 2.0 * static_cast<double>(n * n * n);
      machine.products.push_back({precision, 1e-6 * flops, 1e-9 * flops / mean_of(comm, *seconds)});
    }
  std::ranges::sort(machine.products, {}, [](const ProductSpeed& p) { return std::pair(p.precision, p.mflop); });
  const OwnedTensor from("lockstep::bench::copy", DType::u8, {64 << 20}),
      to("lockstep::bench::copy", DType::u8, {64 << 20});
  comm.barrier();
  const double seconds = mean_of(comm, median_seconds([&] { copy(ExecSpace(), from.get(), to.get()); }));
  machine.memory_gbps = 2e-9 * static_cast<double>(from.get().bytes()) / seconds;
  if constexpr (memory_is_separate) machine.host_copy_gbps = copy_gbps(comm);
  const RunConfig least = read_run_config(parse_deck(least_step, "bench machine"));
  machine.step_us = 1e3 * milliseconds(comm, steps_of(comm, least, 1, 0.2), &TimedStep::total);
}

NetworkToMeasure::NetworkToMeasure(const RunConfig& deck, const MachineBench& options)
    : network{.precision = deck.precision.compute, .optimizer = deck.optimizer.type} {
  const Workload workload(deck);
  const std::int64_t examples = workload.train_examples();
  network.parameters = workload.parameters();
  network.mflop_per_example = 1e-6 * workload.flops_per_example();
  for (const std::int64_t batch : options.batches)
    validate(batch <= examples, ExitStatus::bad_usage,
             "--batches: {} is more than the {} examples to train on; give a smaller batch", batch, examples);
  batches = batches_of(deck, options, examples);
}

void measure_steps(const Communicator& comm, const RunConfig& deck, const NetworkToMeasure& steps, double seconds,
                   Machine& machine) {
  for (const std::int64_t batch : steps.batches) {
    const std::vector<TimedStep> timed = steps_of(comm, deck, batch, seconds);
    const auto median_of = [&](double TimedStep::* phase) { return milliseconds(comm, timed, phase); };
    MeasuredStep step = steps.network;
    step.examples = batch;
    step.forward_ms = median_of(&TimedStep::forward);
    step.backward_ms = median_of(&TimedStep::backward);
    step.optimizer_ms = median_of(&TimedStep::optimizer);
    step.other_ms = std::max(0.0,
                             median_of(&TimedStep::total) - step.forward_ms - step.backward_ms - step.optimizer_ms);
    machine.measured.push_back(step);
    std::vector<double> totals;
    for (const TimedStep& one : timed) totals.push_back(one.total);
    totals = gathered(comm, totals);
    if (comm.is_root()) machine.noise = noise_of(totals);  // that of the last, the largest batch, stays
  }
}

}  // namespace lockstep
