// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/trainer.hpp"

#include <algorithm>
#include <cmath>

#include "base/heartbeat.hpp"
#include "parallel/local/local_parallel.hpp"
#include "train/make_strategy.hpp"
#include "train/step_memory.hpp"

namespace lockstep {
namespace {

/// SyncBatchNorm, where the deck wants it and the network has such layers; else null. Collective.
std::unique_ptr<SyncBatchNormExchange> statistics_exchange(const ParallelConfig& config, const Communicator& comm,
                                                           const Topology& topology, const Model& model) {
  std::int64_t channels = 0;
  for (const GraphNode& node : model.graph().nodes())
    if (node.layer->traits().needs_statistics) channels += node.shape[-1];
  const std::int64_t group_size = config.group_size.value_or(comm.size());
  if (channels == 0 || !config.sync_batch_norm || std::min<std::int64_t>(group_size, comm.size()) == 1) return nullptr;
  const Communicator group = comm.split(static_cast<int>(comm.rank() / group_size));
  return std::make_unique<SyncBatchNormExchange>(topology.of(group), model.parameters().dtype(), channels);
}

}  // namespace

Trainer::Trainer(const TrainingConfig& config, Graph graph, TrainingProblem problem, const Communicator& comm)
    : comm_(comm), problem_(std::move(problem)) {
  const Topology topology(comm);
  const LocalConfig& local = config.parallel.local;
  comm_.run_collectively(
      [&] { with_positions(config.source, [&] { partition_ = batch_partition(config, graph, comm_.size()); }); });
  max_micro_batch_ = partition_.largest_micro_batch(std::min(config.batch.largest(), problem_.data.size()));
  const RankCount ranks{comm_.size(), topology.nodes};
  comm_.run_collectively([&] {
    if (config.parallel.memory_gb > 0)
      with_positions(config.source,
                     [&] { check_memory(config, graph, step_memory(config, graph, problem_.data, ranks), ranks); });
  });
  Model::Options options = model_options(config, max_micro_batch_, Purpose::training);
  StepPlan plan;
  comm_.run_collectively([&] { with_positions(config.source, [&] { plan = plan_model(graph, options); }); });
  std::optional<ShardGroups> groups;
  comm_.run_collectively([&] { with_positions(config.source, [&] { groups.emplace(config.parallel, topology); }); });
  ParallelMemory memory;
  std::unique_ptr<DeviceAllReduce> on_devices = sums_on_devices(config, comm_);
  const bool has_workers = config.parallel.runs_freely() || config.parallel.has_stepping_workers();
  if (!on_devices && !has_workers) memory = parallel_memory(config.parallel, *groups, graph, plan, config.dtype());
  comm_.run_collectively([&] {
    options.windows = memory.windows;
    options.memory = memory.of_buffers(ParameterLayout(graph, config.dtype()), config.dtype(),
                                       groups->group.node.rank());
    model_ = std::make_unique<Model>(std::move(graph), options, std::move(plan));
    heartbeat().beat();
  });
  Topology group = topology;
  comm_.run_collectively([&] {
    if (has_workers) group = topology.of(comm_.split(comm_.rank() / config.parallel.ranks_of_worker(comm_.size())));
    else if (local.present) with_positions(config.source, [&] { group = ranks_of_step(local, topology); });
  });
  strategy_ = make_strategy(config, problem_, topology, group, *groups, std::move(memory), std::move(on_devices),
                            partition_, model_->parameters());
  comm_.run_collectively([&] {
    with_positions(config.source, [&] {
      optimizer_ = config.optimizer.make(model_->parameters(), config.state_offload());
      if (strategy_->applies_momentum()) optimizer_->expect_momentum_in_gradients();
      optimizer_steps_.emplace(config, comm_, *optimizer_, problem_.length);
    });
    strategy_->update_by(*optimizer_, [this](std::int64_t applied, std::int64_t taken) {
      return optimizer_steps_->scalars(applied, taken);
    });
    guard_.emplace(config, comm_, problem_.data, *model_, *optimizer_,
                   partition_.sums(std::min(config.batch.largest(), problem_.data.size())));
    uploader_.emplace(problem_.data.format(), problem_.normalize, config.dtype(), max_micro_batch_, problem_.augment,
                      problem_.seed);
    noise_.emplace(comm_, model_->parameters().trained_size(),
                   strategy_->sums_exactly() ? std::nullopt : std::optional(problem_.seed));
    sums_.emplace(max_micro_batch_, model_->graph().output_shape(), config.metrics, problem_.loss->ignored_class());
  });
  ParameterArrival* const arrival = strategy_->parameter_arrival(*optimizer_);
  model_->await_parameters(arrival);
  model_->move_windows(strategy_->window_traffic());
  statistics_ = statistics_exchange(config.parallel, group.all, group, *model_);
  model_->exchange_statistics(statistics_.get());
  // Passes in which other ranks take part are not recorded, nor those of states that come and go.
  graphs_.emplace(config.device.graph == DeviceOptions::Graph::automatic && !partition_.separate && !arrival &&
                  !strategy_->window_traffic() && !statistics_ && !config.parallel.offload.present);
  voter_.emplace(topology, group);
  no_examples_.plan.micro_batches = {{.begins = true, .ends = true}};
  early_.may_be = optimizer_->begins_early() && config.updates_early();
}

StepResult Trainer::step(const HostBatch& batch, const std::function<StepRequests()>& requests) {
  step_ranks_ = strategy_->begin_step(space_, count_.done + 1, batch.plan, before_update_);
  const HostBatch& own = step_ranks_.examples > 0 ? batch : no_examples_;
  own_examples_ = own.size();
  last_examples_ = step_ranks_.examples_of_all.value_or(batch.plan.global_examples);
  guard_->begin(space_, own.plan, step_ranks_, count_.done + 1);
  noise_->begin_step(count_.done,
                     (comm_.size() > 1 || partition_.separate) && !step_ranks_.group && step_ranks_.one_version);
  graphs_->begin_step(own.plan, step_ranks_, !own.inputs_on_device && !own.targets_on_device);
  sums_->begin(space_, step_ranks_.losses);
  for (const MicroBatch& micro_batch : own.plan.micro_batches) {
    const StepContext context = context_of(own, micro_batch);
    const DeviceBatch examples = upload(own, micro_batch);
    forward(context, micro_batch, examples);
    if (early_.may_be && &micro_batch == &own.plan.micro_batches.back()) vote(requests());
    backward(context, micro_batch, examples);
  }
  if (!early_.voted) vote(requests());
  const StepVote votes = finish_gradients();
  const StepResult result = conclude(votes);
  if (!result.done()) return result;
  noise_->end_step(space_, [this] { return gradient_square(); }, result.examples, guard_->loss_factor_tensor());
  count_.done += step_ranks_.updates;
  meet();
  return result;
}

StepContext Trainer::context_of(const HostBatch& batch, const MicroBatch& micro_batch) const {
  return {.space = space_,
          .training = true,
          .seed = problem_.seed,
          .step = micro_batch.place ? StepNumber(micro_batch.place->batch) : guard_->steps_before(),
          .first_example = micro_batch.place ? micro_batch.place->first : batch.plan.first + micro_batch.first,
          .gradients = micro_batch.begins ? Store::replace : Store::add,
          .same_parameters = micro_batch.first > 0 && (step_ranks_.one_version || !micro_batch.begins)};
}

PartRequest Trainer::next_part() {
  const PhaseClock::Scope phase(clock_, StepPhase::reduce);
  return strategy_->next_part(space_);
}

DeviceBatch Trainer::upload(const HostBatch& batch, const MicroBatch& micro_batch) {
  const PhaseClock::Scope phase(clock_, StepPhase::data);
  return uploader_->upload(space_, batch, micro_batch.first, micro_batch.count);
}

void Trainer::forward(const StepContext& context, const MicroBatch& micro_batch, const DeviceBatch& examples) {
  const PhaseClock::Scope phase(clock_, StepPhase::forward);
  // The host's part of a backward pass needs that of the forward pass before it, such as the number of examples: both
  // are recorded, or neither is.
  const Ranks ranks = micro_batch.ends ? Ranks::all : Ranks::this_one;
  begin_part(part_of(StepGraphs::Part::Kind::forward, micro_batch, examples), ranks, [&] {
    model_->forward(context, examples.inputs, [&](const Model::Output& output) {
      sums_->add(space_, *problem_.loss, examples.n, output, examples.targets, guard_->loss_factor(), examples.mixed);
    });
  });
  voter_->look(space_, sums_->in_memory(), optimizer_->nonfinite());
}

void Trainer::backward(const StepContext& context, const MicroBatch& micro_batch, const DeviceBatch& examples) {
  const PhaseClock::Scope phase(clock_, StepPhase::backward);
  const Ranks ranks = micro_batch.ends ? Ranks::all : Ranks::this_one;  // sums begin in the last one
  begin_part(part_of(StepGraphs::Part::Kind::backward, micro_batch, examples), ranks, [&] {
    model_->backward(context, examples.inputs, [&](ParameterRange range) {
      if (!micro_batch.ends) return;
      guard_->gradient_ready(space_, range);
      noise_->gradient_ready(space_, model_->parameters(), range);
      strategy_->gradient_ready(space_, range);
      if (early_.voted) update_early();
    });
  });
  if (!micro_batch.ends) return;
  guard_->sum_done();
  noise_->small_batch_done(micro_batch.examples);
  strategy_->shard_done(space_);
}

/// While gradients are summed, this rank's vote is on its way. What ranks do together here, they do at the same place.
void Trainer::vote(const StepRequests& requests) {
  voter_->begin(requests, step_ranks_);
  early_.voted = true;
  if (early_.may_be) provide_coefficients();
}

/// Parameters become new as their gradients are summed, once it is known that the step is applied whatever these are:
/// unless the loss is not finite, gradients that are not are for the next step to find, in the parameters.
void Trainer::update_early() {
  if (!early_.votes) {
    if (!voter_->advance()) return;
    early_.votes = voter_->finish();
    space_.fence("lockstep::trainer::loss");
    const SummedLoss loss = summed_loss(*early_.votes);
    const bool bad_parameters = early_.votes->bad_parameters || *optimizer_->nonfinite().as<std::int32_t>() != 0;
    if (bad_parameters || loss.examples == 0 || !std::isfinite(loss.mean())) return;
    early_.begun = judge(*early_.votes);
    before_update_();
    optimizer_->begin_step(space_, model_->parameters(), guard_->scalars());
  }
  if (early_.begun) optimizer_->gradients_are_final(space_, strategy_->summed());
}

StepVote Trainer::finish_gradients() {
  const PhaseClock::Scope phase(clock_, StepPhase::reduce);
  strategy_->finish_gradients(space_, [this] {
    if (early_.may_be) update_early();
    else voter_->advance();
  });
  return early_.votes ? *early_.votes : voter_->finish();
}

/// What becomes of the step whose gradients are there: an update, or not.
StepResult Trainer::conclude(const StepVote& votes) {
  const PhaseClock::Scope phase(clock_, StepPhase::optimizer);
  if (!early_.may_be) provide_coefficients();
  StepResult result = early_.begun ? *early_.begun : judge(votes);
  early_ = {.may_be = early_.may_be};
  if (result.status == StepStatus::applied) {
    before_update_();
    begin_part({StepGraphs::Part::Kind::update}, Ranks::this_one, [&] { update(); });
  }
  if (guard_->untaken() > 1) result = take_finding();
  result.examples = last_examples_;
  result.requests = {.stop = votes.stop, .checkpoint = votes.checkpoint};
  return result;
}

SummedLoss Trainer::summed_loss(const StepVote& votes) const {
  return {.loss = votes.loss,
          .weight = votes.weight,
          .in_memory = comm_.size() > 1 ? nullptr : sums_->in_memory(),
          .positions = sums_->positions(),
          .examples = step_ranks_.examples};
}

StepResult Trainer::judge(const StepVote& votes) {
  begin_part({StepGraphs::Part::Kind::judgement}, Ranks::all, [&] {  // of votes, which are numbers of the host
    guard_->judge(space_, *strategy_, summed_loss(votes), votes.bad_parameters,
                  optimizer_steps_->update_options(space_, *strategy_));
  });
  guard_->judged(space_);
  return reads_late() ? StepResult() : take_finding();
}

void Trainer::update() {
  strategy_->update(space_, *optimizer_, guard_->scalars(), 1 / static_cast<double>(step_ranks_.examples));
}

/// Where groups of ranks have gone their own ways, and it is time.
void Trainer::meet() {
  const PhaseClock::Scope phase(clock_, StepPhase::reduce);
  if (strategy_->end_step(space_, *optimizer_, step_scales().learning_rate, before_update_)) guard_->agree(space_);
  if (step_ranks_.updates == 1) return;
  guard_->set_applied(applied_steps());
  optimizer_steps_->provide(space_, applied_steps());
}

StepGraphs::Part Trainer::part_of(StepGraphs::Part::Kind kind, const MicroBatch& micro_batch,
                                  const DeviceBatch& examples) const {
  return {kind,
          micro_batch.first,
          {examples.inputs.data, examples.targets.data, examples.mixed.others.data, examples.mixed.shares.data,
           model_->workspace()}};
}

/// Of the oldest step of which it was not taken. One that cannot be done takes those behind it along.
StepResult Trainer::take_finding() {
  StepGuard::Finding finding = guard_->take(space_);
  const bool is_local = strategy_->is_local(finding.step);
  count_.skipped += finding.status == StepStatus::skipped && !is_local ? 1 : 0;
  StepResult result{.number = finding.step,
                    .status = finding.status,
                    .message = std::move(finding.message),
                    .bad_parameters = finding.bad_parameters,
                    .examples = last_examples_};
  if (!result.done() && is_local)  // the other groups do not know
    throw Error(ExitStatus::internal, fmt::format("{} (found by rank {} for itself, as its deck has it: the "
                                                  "others end with it)",
                                                  result.message, comm_.rank()));
  if (!result.done()) count_.done = result.number - 1;
  return result;
}

std::optional<StepResult> Trainer::take_last() {
  if (guard_->untaken() == 0) return std::nullopt;
  return take_finding();
}

std::optional<StepResult> Trainer::settle() {
  strategy_->finish_update(space_);
  return take_last();
}

template <class Work>
auto Trainer::with_averages(const Work& work) {
  if (!optimizer_->averages() || count_.optimizer_steps() == 0) return work();
  before_update_();
  swap_average();
  auto result = [&] {
    try {
      return work();
    } catch (...) {
      optimizer_->swap_average(space_, model_->parameters());  // ranks that have failed wait for nobody
      throw;
    }
  }();
  swap_average();
  return result;
}

std::optional<Metrics> Trainer::evaluate(const Dataset& data, const std::function<bool()>& gives_up) {
  const PhaseClock::Scope phase(clock_, StepPhase::evaluation);
  return with_averages([&] {
    return lockstep::evaluate(space_, comm_, *model_, *problem_.loss, data, *uploader_, *sums_, max_micro_batch_,
                              gives_up);
  });
}

Metrics Trainer::evaluate(const HostBatch& batch) {
  const PhaseClock::Scope phase(clock_, StepPhase::evaluation);
  return with_averages([&] {
    return lockstep::evaluate(space_, comm_, *model_, *problem_.loss, batch, *uploader_, *sums_, max_micro_batch_);
  });
}

void Trainer::swap_average() {
  strategy_->change_parameters(space_, [this] { optimizer_->swap_average(space_, model_->parameters()); });
}

double Trainer::gradient_square() { return f64_on_host(space_, optimizer_steps_->gradient_square(space_, *strategy_)); }

StepNumbers Trainer::step_numbers() {
  return {.metrics = sums_->reduce(space_, comm_, *problem_.loss, last_examples_),
          .gradient_norm = std::sqrt(gradient_square()) * guard_->gradient_factor()};
}

StepScales Trainer::step_scales() const {
  const std::int64_t applied = std::max<std::int64_t>(0, applied_steps() - 1);
  return {.learning_rate = optimizer_steps_->learning_rate(applied),
          .loss_scale = guard_->loss_scale(),
          .noise_scale = noise_->value()};
}

Trainer::ExposedSeconds Trainer::take_exposed_seconds() {
  ExposedSeconds seconds{.gradients = strategy_->take_exposed_seconds()};
  if (statistics_) seconds.statistics = statistics_->take_exposed_seconds();
  return seconds;
}

void StepCount::describe_state(StateFields& fields) {
  fields.integer("step", done);
  fields.integer("skipped_steps", skipped);
  if (fields.has("steps_before_branch", before > 0)) fields.integer("steps_before_branch", before);
  else before = 0;
}

void Trainer::branch_behind(std::int64_t optimizer_steps) {
  count_.before = optimizer_steps;
  optimizer_steps_->begin_behind(optimizer_steps);
}

void Trainer::describe_state(StateFields& fields) {
  count_.describe_state(fields);
  branch_behind(count_.before);
  guard_->describe_state(fields);
  if (fields.restores()) guard_->set_applied(applied_steps());
  noise_->describe_state(fields);
}

void Trainer::share_parameters() {
  comm_.run_collectively([&] { strategy_->go_on_behind(count_.done); });
  optimizer_steps_->provide(space_, applied_steps());
  comm_.run_collectively([&] { strategy_->share(space_, *optimizer_); });
  optimizer_->forget_nonfinite(space_);
}

}  // namespace lockstep
