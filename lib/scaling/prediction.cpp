// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "scaling/prediction.hpp"

#include <algorithm>
#include <ranges>

#include "comm/topology.hpp"
#include "scaling/timeline.hpp"
#include "train/choose_shard.hpp"

namespace lockstep {
namespace {

using Overlap = GradientSumConfig::Overlap;

}  // namespace

Prediction Predictor::predict(int ranks) {
  const RankCount count{ranks, static_cast<int>(machine_.nodes_of(ranks))};
  const ParallelConfig given = workload_.config().parallel;
  if (given.sharding.chooses_shard && !given.sharding.machine.empty())
    workload_.change([&](TrainingConfig& config) { config.shard_times = shard_times(machine_, workload_, count); });
  const std::string choice = workload_.choose_shard(count);
  const MemoryEstimate memory = workload_.plan(count);
  SumsOfRanks sums(machine_, workload_.config().parallel);
  const PlannedStep step = planned(workload_.config().parallel, ranks, memory.plan, sums);
  Prediction prediction = predict(step, memory, workload_.batch());
  compare_with_one_rank(prediction, step.again, memory);
  const std::int64_t micro = workload_.partition(ranks).micro;
  prediction.run_seconds = run_seconds(prediction, step, memory);
  find_best_all_reduce(prediction, memory.plan, micro);
  find_best_share(prediction, memory, step, micro);
  prediction.choice = choice;
  workload_.change([&](TrainingConfig& config) { config.parallel = given; });  // other numbers of ranks choose anew
  return prediction;
}

Prediction Predictor::predict_step(int ranks, const MemoryEstimate& memory, SumsOfRanks& sums) const {
  return predict(planned(workload_.config().parallel, ranks, memory.plan, sums), memory, workload_.batch());
}

Predictor::PlannedStep Predictor::planned(const ParallelConfig& config, int ranks, const ExecutionPlan& plan,
                                          SumsOfRanks& sums) const {
  const std::int64_t batch = workload_.batch(), wanted = workload_.config().batch.largest();
  validate(
      ranks <= batch, ExitStatus::bad_usage,
      "--ranks: {} ranks are more than the {} examples of a batch (some ranks would have none); {}", ranks, batch,
      batch < wanted
          ? fmt::format("a batch of {} is limited to the {} examples to train on: give more (data.synthetic.train), or "
                        "fewer ranks",
                        wanted, batch)
          : "give fewer, or a larger batch.global");
  const std::int64_t examples = workload_.partition(ranks).largest_micro_batch(batch);
  return {.ranks = ranks,
          .plan = plan,
          .exchange = step_traffic(workload_, config, machine_, ranks, plan, sums),
          .again = times_.part_computed_again(plan, std::max<std::int64_t>(1, examples))};
}

Prediction Predictor::predict(const PlannedStep& step, const MemoryEstimate& memory, std::int64_t batch) const {
  const BatchPartition partition = workload_.partition(step.ranks);
  Prediction prediction{.ranks = step.ranks,
                        .nodes = machine_.nodes_of(step.ranks),
                        .share = partition.largest_share(batch),
                        .memory = memory.total()};
  const Waiting waits = waiting(step, prediction.share, partition.micro);
  const std::int64_t micro_batches = (prediction.share + partition.micro - 1) / partition.micro;
  const ExchangeCost sent = step.exchange.sent(micro_batches);
  prediction.sent = sent.bytes;
  prediction.messages = sent.messages;
  prediction.computing = computing(step, 1, prediction.share, partition.micro);
  prediction.stragglers = computing(step, step.ranks, prediction.share, partition.micro) - prediction.computing;
  prediction.statistics = waits.statistics;
  prediction.exposed = waits.exposed;
  prediction.states = states_seconds(step.ranks, prediction.share, memory);
  return prediction;
}

/// A single rank that offloads its states waits for them, too.
void Predictor::compare_with_one_rank(Prediction& prediction, double again, const MemoryEstimate& memory) const {
  std::optional<MemoryEstimate> of_one;
  if (memory.offloaded > 0) of_one = workload_.plan({1, 1});
  const auto alone = [&](std::int64_t share) {
    const double step = times_.of_share(share, workload_.partition(1).micro, again).total() *
                        slowest_of(machine_.noise, 1);
    return step + (of_one ? states_seconds(1, share, *of_one).value_or(0) : 0);
  };
  prediction.strong = alone(workload_.batch()) / (static_cast<double>(prediction.ranks) * prediction.step());
  prediction.weak = alone(prediction.share) / prediction.step();
}

std::optional<double> Predictor::states_seconds(int ranks, const MemoryEstimate& memory) const {
  return states_seconds(ranks, workload_.partition(ranks).largest_share(workload_.batch()), memory);
}

/// The ranks of a node share the rate of its disk, where reads and writes follow each other; each device copies by
/// itself, in both directions at once. Reading and writing states overlaps the next forward pass and, if updates begin
/// early, the last backward pass. Offloaded parameters are read in every pass, overlapped with it.
std::optional<double> Predictor::states_seconds(int ranks, std::int64_t share, const MemoryEstimate& memory) const {
  if (memory.offloaded == 0) return 0;
  const RunConfig& config = workload_.config();
  const OptimizerOptions::StatePasses passes = config.optimizer.rule().state_passes(
      config.parallel.offloads_parameters());
  double moved = 1e-9 * memory.offloaded * (passes.reads + passes.writes), gbps = 0;
  if (machine_.has_devices()) {
    moved = 1e-9 * memory.offloaded * std::max(passes.reads, passes.writes);
    gbps = *machine_.host_copy_gbps;
  } else if (machine_.disk_gbps) {
    gbps = *machine_.disk_gbps / static_cast<double>(std::min<std::int64_t>(ranks, machine_.ranks_per_node));
  }
  if (gbps == 0) return std::nullopt;
  const std::vector<MicroBatch> micro_batches = micro_batches_of(share, share,
                                                                 {.micro = workload_.partition(ranks).micro});
  double hidden = times_.of(micro_batches.front().count).forward;
  if (config.updates_early()) hidden += times_.of(micro_batches.back().count).backward;
  double exposed = std::max(0.0, moved / gbps - hidden);
  if (memory.elsewhere > 0) {
    double passes_take = 0;
    for (const MicroBatch& micro_batch : micro_batches) {
      const PhaseSeconds pass = times_.of(micro_batch.count);
      passes_take += pass.forward + pass.backward;
      moved += 2e-9 * memory.elsewhere;
    }
    exposed = std::max(exposed, moved / gbps - passes_take);
  }
  return exposed;
}

/// Seconds until the slowest of `slowest_of_ranks` ranks has done its share, on average.
double Predictor::computing(const PlannedStep& step, int slowest_of_ranks, std::int64_t share,
                            std::int64_t micro) const {
  PhaseSeconds phases = times_.of_share(share, micro, step.again);
  phases.optimizer *= step.exchange.updated;
  return phases.total() * slowest_of(machine_.noise, slowest_of_ranks);
}

/// Seconds that the slowest rank waits. While it computes, the others are ahead of it.
Predictor::Waiting Predictor::waiting(const PlannedStep& step, std::int64_t share, std::int64_t micro) const {
  if (step.ranks == 1) return {};
  const auto micro_batches = static_cast<double>((share + micro - 1) / micro);
  Waiting least{.statistics = micro_batches * step.exchange.statistics.seconds, .exposed = -1};
  for (const Overlap overlap : step.exchange.overlaps) {
    double exposed = step.exchange.norms.seconds;
    if (!step.exchange.divides_gradients()) exposed += exposed_sums(step, share, micro, overlap);
    if (step.exchange.divides) exposed += exposed_divided(step, share, micro, overlap);
    if (least.exposed < 0 || exposed < least.exposed) least.exposed = exposed;
  }
  return least;
}

/// Exposed seconds of sums of whole gradients, which are final in the last micro-batch.
double Predictor::exposed_sums(const PlannedStep& step, std::int64_t share, std::int64_t micro, Overlap overlap) const {
  const StepTraffic& exchange = step.exchange;
  const double factor = slowest_of(machine_.noise, step.ranks);
  const std::vector<MicroBatch> micro_batches = micro_batches_of(share, share, {.micro = micro});
  const double last = factor * times_.of(micro_batches.back().count, step.again).backward;
  const double before = factor * times_.of_share(share, micro, step.again).backward - last;
  std::vector<double> weights;
  double all = 0;
  for (const ReadyPoint& point : exchange.points) {
    double weight = 1e-12;
    for (const int layer : point.layers) weight += times_.backward_weight(layer, micro_batches.back().count);
    all += weights.emplace_back(weight);
  }
  std::vector<ComputedPart> backward{{before, 0}};
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const auto final = std::ranges::count_if(
        exchange.buckets, [&](const ElementRange& bucket) { return bucket.end() <= exchange.points[i].elements; });
    backward.push_back({last * weights[i] / all, static_cast<std::size_t>(final)});
  }
  const Engine engine{.overlap = overlap, .has_device = machine_.has_devices(), .vote_seconds = exchange.vote.seconds};
  return sums_end(backward, exchange.sums, engine) - before - last;
}

/// Exposed seconds of what ranks that divide the model gather, and of sums of divided gradients.
double Predictor::exposed_divided(const PlannedStep& step, std::int64_t share, std::int64_t micro,
                                  Overlap overlap) const {
  const double factor = slowest_of(machine_.noise, step.ranks);
  const auto seconds = [&](std::int64_t examples) {
    PhaseSeconds phases = times_.of(examples, step.again);
    phases.forward *= factor, phases.backward *= factor;
    return seconds_of_times(times_, step.plan, examples, phases);
  };
  const std::vector<MicroBatch> micro_batches = micro_batches_of(share, share, {.micro = micro});
  DividedStep divided{.exchange = step.exchange,
                      .micro_batches = {},
                      .other = factor * times_.of(micro_batches.front().count).other,
                      .overlap = overlap,
                      .has_device = machine_.has_devices()};
  for (const MicroBatch& micro_batch : micro_batches) divided.micro_batches.push_back(seconds(micro_batch.count));
  const double exposed = divided.exposed();
  return step.exchange.divides_gradients() ? std::max(exposed, step.exchange.vote.seconds) : exposed;
}

/// Seconds of all steps, of evaluations of the validation split, of checkpoints, and of the first reading of the data.
double Predictor::run_seconds(const Prediction& prediction, const PlannedStep& step,
                              const MemoryEstimate& memory) const {
  const RunConfig& config = workload_.config();
  const RunLength length = workload_.length();
  const auto steps = static_cast<double>(length.steps());
  const auto epochs = length.count_at(length.steps(), TrainingSpan::Unit::epochs);
  const std::vector<RunLength::Stage> stages = config.batch.stages();
  double seconds = 0;
  std::int64_t end = length.steps();
  for (const RunLength::Stage& stage : stages | std::views::reverse) {
    const std::int64_t batch = std::min(stage.batch, workload_.train_examples());
    const std::int64_t begin = std::min(end, length.step_of(stage.begin));
    seconds += static_cast<double>(end - begin) * predict(step, memory, batch).step();
    end = begin;
  }

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

void Predictor::find_best_all_reduce(Prediction& prediction, const ExecutionPlan& plan, std::int64_t micro) const {
  constexpr double worth_a_word = 0.99;
  const ParallelConfig& asked = workload_.config().parallel;
  prediction.best_all_reduce = asked.sums.all_reduce ? asked.sums.all_reduce->name : "auto";
  prediction.best_step = prediction.step();
  if (prediction.ranks == 1) return;
  const auto ranks = static_cast<int>(prediction.ranks);
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.by_library || algorithm.in_device_memory) continue;
    ParallelConfig config = asked;
    config.sums.all_reduce = &algorithm;
    if (!config.allows(config.sharding.shard)) continue;
    SumsOfRanks sums(machine_, config);
    const Waiting waits = waiting(planned(config, ranks, plan, sums), prediction.share, micro);
    const double seconds = prediction.computing + prediction.stragglers + waits.statistics + waits.exposed +
                           prediction.states.value_or(0);
    if (seconds >= worth_a_word * prediction.best_step) continue;
    prediction.best_step = seconds;
    prediction.best_all_reduce = algorithm.name;
  }
}

void Predictor::find_best_share(Prediction& prediction, const MemoryEstimate& memory, const PlannedStep& step,
                                std::int64_t micro) const {
  constexpr std::int64_t most = 1 << 16;
  constexpr double enough = 0.9;
  // Memory that grows with the batch grows in proportion, up to the size of a micro-batch.
  const std::int64_t at_once = workload_.config().batch.micro.value_or(most);
  const double each = memory.per_batch() / static_cast<double>(std::min(prediction.share, micro));
  std::vector<std::pair<std::int64_t, double>> speeds;  // share, examples a second of a rank
  double highest = 0;
  for (std::int64_t share = 1; share <= most; share *= 2) {
    const double bytes = memory.total() - memory.per_batch() + each * static_cast<double>(std::min(share, at_once));
    if (machine_.memory_gb && bytes > 1e9 * *machine_.memory_gb) break;
    const Waiting waits = waiting(step, share, at_once);
    const double seconds = computing(step, step.ranks, share, at_once) + waits.statistics + waits.exposed;
    speeds.emplace_back(share, static_cast<double>(share) / seconds);
    highest = std::max(highest, speeds.back().second);
  }
  const auto found = std::ranges::find_if(speeds, [&](const auto& speed) { return speed.second >= enough * highest; });
  if (found != speeds.end()) prediction.best_share = found->first;
}

std::vector<TrainingConfig::ShardTime> shard_times(const Machine& machine, Workload& workload, RankCount ranks) {
  std::vector<TrainingConfig::ShardTime> times;
  const ParallelConfig given = workload.config().parallel;
  const auto take = [&](const Shard shard) {
    workload.change([&](TrainingConfig& config) { config.parallel.sharding.take(shard); });
  };
  take(Shard::none);
  MemoryEstimate memory = workload.plan(ranks);
  const Predictor predictor(machine, workload);
  SumsOfRanks sums(machine, given);
  const bool whole_sums = has_whole_sums(given, expected_devices(ranks.all));
  for (const Shard shard : shards_by_speed(workload.config(), ranks.all, whole_sums)) {
    take(shard);
    static_cast<ModelMemory&>(memory) = model_memory(workload.config(), workload.graph(), memory.plan, ranks);
    times.push_back({shard, predictor.predict_step(ranks.all, memory, sums).step()});
  }
  workload.change([&](TrainingConfig& config) { config.parallel = given; });
  return times;
}

void predict_shards(RunConfig& config, RankCount ranks) {
  const ParallelConfig& parallel = config.parallel;
  if (!parallel.sharding.chooses_shard || parallel.sharding.machine.empty()) return;
  config.shard_times.emplace();
  if (ranks.all == 1 || not_predicted(parallel)) return;
  Machine machine = read_machine(parallel.sharding.machine);
  if (ranks.all % ranks.nodes == 0) machine.ranks_per_node = ranks.all / ranks.nodes;
  with_positions(config.source, [&] {
    Workload workload(config);
    if (ranks.all <= workload.batch()) config.shard_times = shard_times(machine, workload, ranks);
  });
}

void predict_shards(RunConfig& config, const Communicator& comm) {
  const RankCount ranks{comm.size(), Topology(comm).nodes};
  comm.run_collectively([&] {
    if (comm.is_root()) predict_shards(config, ranks);
  });
}

}  // namespace lockstep
