// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/trainer.hpp"

#include <algorithm>
#include <cmath>

#include "base/heartbeat.hpp"
#include "train/memory_estimate.hpp"

namespace lockstep {
namespace {

/// Returns the exchange of SyncBatchNorm if the deck wants it and the network has such layers; else null. Collective.
std::unique_ptr<SyncBatchNormExchange> statistics_exchange(const ParallelConfig& config, const Topology& ranks,
                                                           const Model& model) {
  std::int64_t channels = 0;
  for (const GraphNode& node : model.graph().nodes())
    if (node.layer->traits().needs_statistics) channels += node.shape[-1];
  const int together = config.ranks_of_statistics(ranks.all.size());
  if (channels == 0 || together == 1) return nullptr;
  const Communicator group = ranks.all.split(ranks.all.rank() / together);
  return std::make_unique<SyncBatchNormExchange>(ranks.of(group), model.parameters().dtype(), channels);
}

}  // namespace

Trainer::Trainer(const TrainingConfig& config, Graph graph, TrainingProblem problem, const Communicator& comm)
    : comm_(comm), config_(config), problem_(std::move(problem)) {
  const Topology topology(comm);
  const RankCount ranks{comm_.size(), topology.nodes};
  const std::int64_t batch = std::min(config.batch.largest(), problem_.data.size());
  Model::Options options;
  ExecutionPlan plan;
  comm_.run_collectively([&] {
    with_positions(config.source, [&] {
      partition_ = batch_partition(config, graph, comm_.size());
      max_micro_batch_ = partition_.largest_micro_batch(batch);
      if (config.parallel.sharding.memory_gb > 0)
        check_memory(config, graph, memory_estimate(config, graph, problem_.data, ranks), ranks);
      options = model_options(config, max_micro_batch_, Purpose::training);
      plan = plan_model(graph, options);
    });
  });

  const ShardGroups groups = shard_groups(config.parallel, config.source, topology);
  SumMemory memory = sum_memory(config.parallel, config.source, groups, graph, plan, config.dtype());
  gradient_memory_ = memory.on_hosts.gradients;
  // Windows of gradients are used again in the next micro-batch.
  partition_.sums_each = memory.on_hosts.windows.division.gradients;
  comm_.run_collectively([&] {
    with_positions(config.source, [&] {
      options.windows = memory.on_hosts.windows;
      options.memory = memory.on_hosts.of_buffers(ParameterLayout(graph.layer_specs(), config.dtype()), config.dtype(),
                                                  groups.group.node.rank());
      model_ = std::make_unique<Model>(std::move(graph), options, std::move(plan));
      heartbeat().beat();
    });
    sums_.emplace(max_micro_batch_, model_->graph().output_shape(), config.metrics, problem_.loss->ignored_class());
    uploader_.emplace(problem_.data.format(), problem_.normalization, config.dtype(), max_micro_batch_,
                      problem_.augment, problem_.seed);
  });
  clock_.count_waits_of([this] { return strategy_->take_exposed_seconds(); });
  join_ranks(topology, problem_.strategy ? problem_.strategy(groups, model_->parameters())
                                         : make_strategy(config.parallel, problem_.measured, problem_.seed, groups,
                                                         std::move(memory), model_->parameters()));
}

/// Makes what does the steps of these ranks with each other, around their strategy.
void Trainer::join_ranks(const Topology& topology, std::unique_ptr<ParallelStrategy> strategy) {
  strategy_ = std::move(strategy);
  comm_.run_collectively([&] {
    with_positions(config_.source, [&] {
      if (!optimizer_) optimizer_ = config_.optimizer.make(model_->parameters(), config_.state_offload());
      if (OffloadedValues* values = optimizer_->offloaded_values()) model_->parameters().keep_values_in(*values);
      strategy_->bind({.optimizer = *optimizer_, .before_change = [this] { before_change_(); }});
    });
    noise_.emplace(comm_, model_->parameters().trained_size(),
                   strategy_->traits().sums_exactly ? std::nullopt : std::optional(problem_.seed));
  });
  attach_hooks(topology);
  make_update(topology);
}

/// Lets the passes of the network report their gradients, and wait for what other ranks contribute.
void Trainer::attach_hooks(const Topology& topology) {
  statistics_ = statistics_exchange(config_.parallel, topology, *model_);
  PassHooks hooks = strategy_->pass_hooks();
  hooks.statistics = statistics_.get();
  if (const auto& call = problem_.between_layers) hooks.on_layer = [call](const ExecSpace&) { call(); };
  model_->attach(hooks);
  // Passes in which other ranks take part are not recorded, nor those with states that come and go.
  graphs_.emplace(config_.device.graph == DeviceOptions::Graph::automatic && !partition_.separate && !hooks.any() &&
                      !config_.parallel.offload.present,
                  comm_.size());
}

void Trainer::make_update(const Topology& topology) {
  auto votes = std::make_unique<StepVotes>(topology);
  const std::int64_t batch = std::min(config_.batch.largest(), problem_.data.size());
  comm_.run_collectively([&] {
    with_positions(config_.source, [&] {
      update_ = std::make_unique<StepUpdate>(
          config_, comm_, problem_.data, problem_.length,
          StepGuard::Options{.sums = partition_.sums(batch),
                             .rank_numbers = problem_.rank_numbers,
                             .counts_missed = problem_.counts_missed},
          std::move(votes),
          StepUpdate::Parts{.model = *model_,
                            .optimizer = *optimizer_,
                            .strategy = *strategy_,
                            .losses = *sums_,
                            .graphs = *graphs_,
                            .clock = clock_,
                            .before_change = [this] { before_change_(); },
                            .between_layers = problem_.between_layers ? problem_.between_layers : [] {}});
    });
  });
}

void Trainer::continue_on(const Communicator& ranks, const TrainingConfig& config, bool counts_missed,
                          std::vector<std::int64_t> rank_numbers) {
  comm_ = ranks;
  config_ = config;
  problem_.counts_missed = counts_missed;
  problem_.rank_numbers = std::move(rank_numbers);
  problem_.measured.clear();  // with other ranks
  partition_ = batch_partition(config_, model_->graph(), comm_.size());
  const Topology topology(comm_);
  const ShardGroups groups = shard_groups(config_.parallel, config_.source, topology);
  SumMemory memory;
  memory.on_devices = sums_on_devices(config_.parallel, config_.source, comm_);
  join_ranks(topology, make_strategy(config_.parallel, problem_.measured, problem_.seed, groups, std::move(memory),
                                     model_->parameters()));
}

StepResult Trainer::step(const HostBatch& batch, const std::function<RankRequests()>& requests) {
  strategy_->begin_step(space_, steps() + 1, batch.plan);
  own_examples_ = batch.size();
  update_->begin(batch.plan);
  noise_->begin_step(steps(), (comm_.size() > 1 || partition_.separate) && batch.plan.global_examples > 0 &&
                                  problem_.measures_noise && strategy_->traits().one_version);
  graphs_->begin_step(batch.plan, !batch.inputs_on_device && !batch.targets_on_device);
  sums_->clear(space_);
  for (const MicroBatch& micro_batch : batch.plan.micro_batches) {
    const PassContext context = context_of(batch, micro_batch);
    const DeviceBatch examples = upload(batch, micro_batch);
    forward(context, micro_batch, examples);
    update_->forward_started(&micro_batch == &batch.plan.micro_batches.back(), requests);
    backward(context, micro_batch, examples);
  }
  const StepVotes::Vote votes = update_->finish_gradients(requests);
  const StepResult result = update_->conclude(votes);
  if (!result.done()) return result;
  noise_->end_step(
      space_, [this] { return update_->gradient_square(); }, result.examples,
      update_->decisions().loss_factor_tensor());
  update_->end();
  return result;
}

PassContext Trainer::context_of(const HostBatch& batch, const MicroBatch& micro_batch) const {
  return {.space = space_,
          .training = true,
          .seed = problem_.seed,
          .step = micro_batch.place ? StepNumber(micro_batch.place->batch) : update_->decisions().steps_before(),
          .first_example = micro_batch.place ? micro_batch.place->first : batch.plan.first + micro_batch.first,
          .gradients = micro_batch.begins ? Store::replace : Store::add,
          .same_parameters = micro_batch.first > 0 && (strategy_->traits().one_version || !micro_batch.begins)};
}

DeviceBatch Trainer::upload(const HostBatch& batch, const MicroBatch& micro_batch) {
  const PhaseClock::Scope phase(clock_, RunPhase::data);
  return uploader_->upload(space_, batch, micro_batch.first, micro_batch.count);
}

void Trainer::forward(const PassContext& context, const MicroBatch& micro_batch, const DeviceBatch& examples) {
  const PhaseClock::Scope phase(clock_, RunPhase::forward);
  // The host's part of a backward pass needs that of the forward pass before it, such as the number of examples: both
  // are recorded, or neither is.
  const auto ranks = micro_batch.ends ? StepGraphs::Ranks::all : StepGraphs::Ranks::this_one;
  graphs_->run(space_,
               StepGraphs::Part::of(StepGraphs::Part::Kind::forward, micro_batch, examples, model_->workspace()), ranks,
               [&] {
                 model_->forward(context, examples.inputs, [&](const Model::Output& output) {
                   sums_->add(space_, *problem_.loss, examples.n, output, examples.targets,
                              update_->decisions().loss_factor(), examples.mixed);
                 });
               });
}

void Trainer::backward(const PassContext& context, const MicroBatch& micro_batch, const DeviceBatch& examples) {
  const PhaseClock::Scope phase(clock_, RunPhase::backward);
  const auto ranks = micro_batch.ends ? StepGraphs::Ranks::all
                                      : StepGraphs::Ranks::this_one;  // sums over ranks begin in the last micro-batch
  graphs_->run(space_,
               StepGraphs::Part::of(StepGraphs::Part::Kind::backward, micro_batch, examples, model_->workspace()),
               ranks, [&] {
                 model_->backward(context, examples.inputs, [&](ElementRange range) {
                   if (!micro_batch.ends) return;
                   update_->guard().gradient_ready(space_, range);
                   noise_->gradient_ready(space_, model_->parameters(), range);
                   strategy_->gradient_ready(space_, range);
                   update_->advance();
                 });
               });
  if (!micro_batch.ends) return;
  update_->guard().sum_done();
  noise_->small_batch_done(micro_batch.examples);
  strategy_->gradient_sum_done(space_);
}

std::optional<StepOutcome> Trainer::settle() {
  strategy_->finish_update(space_);
  return update_->take_last();
}

std::optional<Metrics> Trainer::evaluate(const Dataset& data, const Communicator& ranks,
                                         const std::function<bool()>& gives_up) {
  const PhaseClock::Scope phase(clock_, RunPhase::evaluation);
  Evaluator evaluator(ranks, {*model_, *problem_.loss, *uploader_, *sums_}, ranks.all_reduce_min(max_micro_batch_));
  return update_->with_averages([&] { return evaluator.evaluate(data, gives_up); });
}

Metrics Trainer::evaluate(const HostBatch& batch) {
  const PhaseClock::Scope phase(clock_, RunPhase::evaluation);
  Evaluator evaluator(comm_, {*model_, *problem_.loss, *uploader_, *sums_}, max_micro_batch_);
  return update_->with_averages([&] { return evaluator.evaluate(batch); });
}

LoggedMetrics Trainer::step_metrics(const Communicator& ranks) {
  return {.metrics = metrics_of(loss_sums(), ranks),
          .gradient_norm = std::sqrt(update_->gradient_square()) * update_->decisions().last().gradient_factor};
}

LoggedScales Trainer::logged_scales() const {
  return {.learning_rate = update_->learning_rate(),
          .loss_scale = update_->guard().loss_scale(),
          .noise_scale = noise_->value()};
}

Trainer::ExposedSeconds Trainer::take_exposed_seconds() {
  ExposedSeconds seconds{.gradients = clock_.take_waited_in_steps()};
  if (statistics_) seconds.statistics = statistics_->take_exposed_seconds();
  return seconds;
}

void Trainer::describe_state(StateFields& fields) {
  update_->describe_state(fields);
  noise_->describe_state(fields);
}

void Trainer::share_parameters() {
  update_->provide_next();
  comm_.run_collectively([&] { strategy_->share(space_); });
  if (optimizer_->averages() && update_->count().optimizer_steps() == 0)
    comm_.run_collectively([&] { optimizer_->begin_average(space_, model_->parameters()); });
  optimizer_->forget_nonfinite(space_);
}

}  // namespace lockstep
