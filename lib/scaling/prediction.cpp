// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "scaling/prediction.hpp"

#include <algorithm>

#include "parallel/buckets.hpp"
#include "scaling/noise.hpp"
#include "scaling/sums.hpp"
#include "scaling/timeline.hpp"

namespace lockstep {
namespace {

using Overlap = ParallelConfig::Overlap;

/// The ways of overlapping that BucketedReducer would try. On hosts a second thread waits for its turn on a core that
/// computes, and hides hardly more than looking between layers does (perf/results/predict-scaling.md): it is not
/// counted on.
std::vector<Overlap> overlaps_of(const ParallelConfig& config, bool one_node, bool has_devices) {
  if (config.overlap != Overlap::automatic) return {config.overlap};
  if (has_devices) return {Overlap::none, Overlap::poll, Overlap::thread};
  return one_node ? std::vector{Overlap::none} : std::vector{Overlap::none, Overlap::poll};
}

}  // namespace

Prediction Predictor::predict(int ranks) {
  const std::int64_t batch = workload_.batch();
  validate(
      ranks <= batch, ExitStatus::bad_usage,
      "--ranks: {} ranks are more than the {} examples of a batch (the others would have nothing to do); give fewer, "
      "or a larger batch.global",
      ranks, batch);
  const BatchPartition partition = workload_.partition(ranks);
  const StepMemory memory = workload_.plan(ranks);
  Prediction prediction{.ranks = ranks,
                        .nodes = machine_.nodes_of(ranks),
                        .share = partition.largest_share(batch),
                        .memory = memory.total()};
  const Exchange sums = exchange(workload_.config().parallel, ranks, memory.plan);
  const Waiting waits = waiting(sums, ranks, prediction.share, partition.micro);
  prediction.computing = computing(1, prediction.share, partition.micro);
  prediction.stragglers = computing(ranks, prediction.share, partition.micro) - prediction.computing;
  prediction.statistics = waits.statistics;
  prediction.exposed = waits.exposed;
  prediction.strong = alone(batch) / (static_cast<double>(ranks) * prediction.step());
  prediction.weak = alone(prediction.share) / prediction.step();
  prediction.run_seconds = run_seconds(prediction, memory);
  find_best_all_reduce(prediction, memory.plan, partition.micro);
  find_best_share(prediction, memory, sums, partition.micro);
  return prediction;
}

/// Until the slowest of so many ranks has done its share, in the mean.
double Predictor::computing(int ranks, std::int64_t share, std::int64_t micro) const {
  return times_.of_share(share, micro).total() * slowest_of(machine_.noise, ranks);
}

double Predictor::alone(std::int64_t share) const { return computing(1, share, workload_.partition(1).micro); }

Predictor::Exchange Predictor::exchange(const ParallelConfig& config, int ranks, const StepPlan& plan) const {
  Exchange exchange{.points = workload_.ready_points(plan)};
  if (ranks == 1) return exchange;
  Sums sums(machine_, ranks, config);
  const double bytes = workload_.element_bytes();
  const GradientBuckets buckets(workload_.layout(), config);
  // fp64 travels as it is, and what stands behind the gradients (statistics) as well, in buckets of its own.
  const double wire = config.wire != ParallelConfig::Wire::fp32 && bytes == 4 ? 2 : bytes;
  for (const auto& [stretches, travels] : {std::pair(&buckets.trained, wire), {&buckets.statistics, bytes}})
    for (const Stretch& bucket : *stretches) {
      SumTime sum = sums.of(bucket.count(), bytes, travels);
      if (machine_.has_devices())  // to the host and back
        sum.seconds += 2 * static_cast<double>(bucket.count()) * bytes * 1e-9 / *machine_.host_copy_gbps;
      exchange.buckets.push_back(bucket);
      exchange.sums.push_back(sum);
    }
  constexpr double vote_bytes = 40;
  exchange.vote = sums.ordered(vote_bytes).seconds;
  for (const double exchanged : workload_.statistics(plan)) exchange.statistics += sums.ordered(exchanged).seconds;
  exchange.overlaps = overlaps_of(config, sums.one_node(), machine_.has_devices());
  return exchange;
}

/// What the slowest rank waits for: while it computes, the others are ahead.
Predictor::Waiting Predictor::waiting(const Exchange& exchange, int ranks, std::int64_t share,
                                      std::int64_t micro) const {
  if (ranks == 1) return {};
  const double factor = slowest_of(machine_.noise, ranks);
  // Gradients are final in the last micro-batch.
  const double last = factor * times_.of((share - 1) % micro + 1).backward;
  const double before = factor * times_.of_share(share, micro).backward - last;
  std::vector<double> weights;
  double all = 0;
  for (const ReadyPoint& point : exchange.points) {
    double weight = 1e-12;
    for (const int layer : point.layers) weight += times_.backward_weight(layer, std::min(share, micro));
    all += weights.emplace_back(weight);
  }
  std::vector<ComputedStretch> backward{{before, 0}};
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const auto final = std::ranges::count_if(
        exchange.buckets, [&](const Stretch& bucket) { return bucket.end <= exchange.points[i].elements; });
    backward.push_back({last * weights[i] / all, static_cast<std::size_t>(final)});
  }

  const auto micro_batches = static_cast<double>((share + micro - 1) / micro);
  Waiting least{.statistics = micro_batches * exchange.statistics, .exposed = -1};
  for (const Overlap overlap : exchange.overlaps) {
    const Engine engine{.overlap = overlap, .has_device = machine_.has_devices(), .vote_seconds = exchange.vote};
    const double exposed = sums_end(backward, exchange.sums, engine) - before - last;
    if (least.exposed < 0 || exposed < least.exposed) least.exposed = exposed, least.overlap = overlap;
  }
  return least;
}

/// Steps, evaluations of the validation split, checkpoints; the first reading of the data.
double Predictor::run_seconds(const Prediction& prediction, const StepMemory& memory) const {
  const RunConfig& config = workload_.config();
  const RunLength length = workload_.length();
  const auto steps = static_cast<double>(length.steps());
  const auto epochs = length.count_at(length.steps(), TrainingSpan::Unit::epochs);
  double seconds = steps * prediction.step();

  const RunOptions::Interval every = config.run.evaluation_interval();
  const double evaluations = every.count == 0
                                 ? 1
                                 : std::max(1.0, (every.in_steps ? steps : epochs) / static_cast<double>(every.count));
  const std::int64_t validated = (workload_.validation_examples() + prediction.ranks - 1) / prediction.ranks;
  seconds += evaluations * times_.of_share(validated, std::max<std::int64_t>(1, prediction.share)).forward;

  if (machine_.disk_gbps) {
    const CheckpointOptions& checkpoint = config.checkpoint;
    const double checkpoints = 1 +
                               (checkpoint.every_steps > 0 ? steps / static_cast<double>(checkpoint.every_steps) : 0) +
                               (checkpoint.every_epochs > 0 ? epochs / static_cast<double>(checkpoint.every_epochs)
                                                            : 0) +
                               (checkpoint.every_minutes > 0 ? seconds / (60 * checkpoint.every_minutes) : 0);
    const double read = config.data.file.empty()
                            ? 0
                            : static_cast<double>(workload_.train_examples()) * workload_.example_bytes();
    seconds += (checkpoints * memory.checkpoint + read) * 1e-9 / *machine_.disk_gbps;
  }
  return seconds;
}

void Predictor::find_best_all_reduce(Prediction& prediction, const StepPlan& plan, std::int64_t micro) const {
  constexpr double worth_a_word = 0.99;
  const ParallelConfig& asked = workload_.config().parallel;
  prediction.best_all_reduce = asked.all_reduce ? asked.all_reduce->name : "auto";
  prediction.best_step = prediction.step();
  if (prediction.ranks == 1) return;
  const auto ranks = static_cast<int>(prediction.ranks);
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.by_library || algorithm.in_device_memory) continue;
    ParallelConfig config = asked;
    config.all_reduce = &algorithm;
    const Waiting waits = waiting(exchange(config, ranks, plan), ranks, prediction.share, micro);
    const double seconds = prediction.computing + prediction.stragglers + waits.statistics + waits.exposed;
    if (seconds >= worth_a_word * prediction.best_step) continue;
    prediction.best_step = seconds;
    prediction.best_all_reduce = algorithm.name;
  }
}

void Predictor::find_best_share(Prediction& prediction, const StepMemory& memory, const Exchange& exchange,
                                std::int64_t micro) const {
  constexpr std::int64_t most = 1 << 16;
  constexpr double enough = 0.9;
  const auto ranks = static_cast<int>(prediction.ranks);
  // What grows with the batch does so in proportion; micro-batches bound it.
  const std::int64_t at_once = workload_.config().batch.micro.value_or(most);
  const double each = memory.per_batch() / static_cast<double>(std::min(prediction.share, micro));
  std::vector<std::pair<std::int64_t, double>> speeds;  // share, examples a second of a rank
  double highest = 0;
  for (std::int64_t share = 1; share <= most; share *= 2) {
    const double bytes = memory.total() - memory.per_batch() + each * static_cast<double>(std::min(share, at_once));
    if (machine_.memory_gb && bytes > 1e9 * *machine_.memory_gb) break;
    const Waiting waits = waiting(exchange, ranks, share, at_once);
    const double seconds = computing(ranks, share, at_once) + waits.statistics + waits.exposed;
    speeds.emplace_back(share, static_cast<double>(share) / seconds);
    highest = std::max(highest, speeds.back().second);
  }
  const auto found = std::ranges::find_if(speeds, [&](const auto& speed) { return speed.second >= enough * highest; });
  if (found != speeds.end()) prediction.best_share = found->first;
}

}  // namespace lockstep
