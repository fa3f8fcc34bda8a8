// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "scaling/compute_times.hpp"

#include <algorithm>
#include <cmath>

namespace lockstep {
namespace {

/// Interpolates linearly between neighbouring points, of which there are at least two, and extrapolates beyond the
/// ends.
double at(std::span<const MeasuredStep> points, std::int64_t examples, double MeasuredStep::* value) {
  const auto x = [](const MeasuredStep& point) { return static_cast<double>(point.examples); };
  const auto n = static_cast<double>(examples);
  const auto last = std::ranges::find_if(points.begin() + 1, points.end() - 1,
                                         [&](const MeasuredStep& point) { return point.examples >= examples; });
  const MeasuredStep &a = *(last - 1), &b = *last;
  const double line = a.*value + (b.*value - a.*value) * (n - x(a)) / (x(b) - x(a));
  return std::max(line, n < x(a) ? a.*value * n / x(a) : 0.0);
}

/// Time by a single point: the passes grow with the examples. The update goes through the parameters, and a step's
/// other work through its kernels and buffers, whatever the number of examples.
PhaseSeconds by_one(const MeasuredStep& point, std::int64_t examples) {
  const double passes = 1e-3 * static_cast<double>(examples) / static_cast<double>(point.examples);
  return {.forward = passes * point.forward_ms,
          .backward = passes * point.backward_ms,
          .optimizer = 1e-3 * point.optimizer_ms,
          .other = 1e-3 * point.other_ms};
}

}  // namespace

ComputeTimes::ComputeTimes(const Machine& machine, const Workload& workload) : machine_(machine), workload_(workload) {
  const RunConfig& config = workload.config();
  const double mflop = 1e-6 * workload.flops_per_example();
  std::ranges::copy_if(machine.measured, std::back_inserter(measured_), [&](const MeasuredStep& step) {
    return step.parameters == workload.parameters() && step.precision == config.precision.compute &&
           step.optimizer == config.optimizer.type && std::abs(step.mflop_per_example - mflop) <= 1e-4 * mflop;
  });
  std::ranges::sort(measured_, {}, &MeasuredStep::examples);
  const auto same = std::ranges::unique(measured_, {}, &MeasuredStep::examples);
  measured_.erase(same.begin(), same.end());
  std::ranges::copy_if(machine.products, std::back_inserter(products_),
                       [&](const ProductSpeed& product) { return product.precision == config.precision.compute; });
  validate(!products_.empty(), ExitStatus::bad_deck,
           "{}: compute.products: has no entry in {}, the precision of the deck; add the speed of such products",
           machine.position.file, precision_names[static_cast<std::size_t>(config.precision.compute)]);
}

PhaseSeconds ComputeTimes::of(std::int64_t examples, double again) const {
  PhaseSeconds seconds = known(examples);
  seconds.backward += again * seconds.forward;
  return seconds;
}

PhaseSeconds ComputeTimes::known(std::int64_t examples) const {
  if (examples == 0) return {};
  if (!is_measured()) return estimated(examples);
  if (measured_.size() == 1) return by_one(measured_.front(), examples);
  const auto seconds = [&](double MeasuredStep::* phase) { return 1e-3 * at(measured_, examples, phase); };
  return {.forward = seconds(&MeasuredStep::forward_ms),
          .backward = seconds(&MeasuredStep::backward_ms),
          .optimizer = seconds(&MeasuredStep::optimizer_ms),
          .other = seconds(&MeasuredStep::other_ms)};
}

PhaseSeconds ComputeTimes::of_share(std::int64_t share, std::int64_t micro, double again) const {
  const std::vector<MicroBatch> micro_batches = micro_batches_of(share, share, {.micro = micro});
  PhaseSeconds all = of(micro_batches.front().count, again);
  for (const MicroBatch& micro_batch : std::span(micro_batches).subspan(1)) {
    const PhaseSeconds next = of(micro_batch.count, again);
    all.forward += next.forward;
    all.backward += next.backward + accumulation();
  }
  return all;
}

/// Compared with the first micro-batch, which only writes gradients, they are read and written once more. If they are
/// divided, windows are written anew instead, which are no longer in the caches: that takes as long
/// (perf/results/planner.md).
double ComputeTimes::accumulation() const {
  return 2 * static_cast<double>(workload_.parameters()) * workload_.element_bytes() * 1e-9 / machine_.memory_gbps;
}

double ComputeTimes::forward_weight(int layer, std::int64_t examples) const {
  return layer_seconds(workload_.layers()[static_cast<std::size_t>(layer)], examples, 1, 1);
}

double ComputeTimes::part_computed_again(const ExecutionPlan& plan, std::int64_t examples) const {
  double again = 0, all = 0;
  for (const Segment& segment : plan.backward)
    for (const Task& task : segment.tasks)
      if (task.kind == Task::Kind::recompute) again += forward_weight(task.node, examples);
  if (again == 0) return 0;
  for (int layer = 0; layer < static_cast<int>(workload_.layers().size()); ++layer)
    all += forward_weight(layer, examples);
  return again / all;
}

double ComputeTimes::backward_weight(int layer, std::int64_t examples) const {
  const LayerWork& work = workload_.layers()[static_cast<std::size_t>(layer)];
  return layer_seconds(work, examples, work.backward, 2);
}

/// Between two known sizes, the speed is linear in the logarithm of the size.
double ComputeTimes::product_seconds(double flops) const {
  if (flops <= 0) return 0;
  const double mflop = 1e-6 * flops;
  double gflops = products_.back().gflops;
  const auto above = std::ranges::lower_bound(products_, mflop, {}, &ProductSpeed::mflop);
  if (above == products_.begin()) {
    gflops = products_.front().gflops;
  } else if (above != products_.end()) {
    const ProductSpeed &a = *(above - 1), &b = *above;
    gflops = a.gflops + (b.gflops - a.gflops) * std::log(mflop / a.mflop) / std::log(b.mflop / a.mflop);
  }
  return 1e-9 * flops / gflops;
}

double ComputeTimes::layer_seconds(const LayerWork& layer, std::int64_t examples, int products, double passes) const {
  const auto n = static_cast<double>(examples);
  return products * product_seconds(layer.flops * n) + passes * layer.bytes * n * 1e-9 / machine_.memory_gbps;
}

PhaseSeconds ComputeTimes::estimated(std::int64_t examples) const {
  PhaseSeconds seconds{.other = 1e-6 * machine_.step_us};
  for (const LayerWork& layer : workload_.layers()) {
    seconds.forward += layer_seconds(layer, examples, 1, 1);
    seconds.backward += layer_seconds(layer, examples, layer.backward, 2);
  }
  // Parameters, gradients and each state are read; all but gradients are written.
  const auto numbers = static_cast<double>((3 + 2 * workload_.states()) * workload_.parameters());
  seconds.optimizer = numbers * workload_.element_bytes() * 1e-9 / machine_.memory_gbps;
  return seconds;
}

}  // namespace lockstep
