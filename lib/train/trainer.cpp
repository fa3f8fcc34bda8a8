// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/trainer.hpp"

#include <algorithm>
#include <cmath>

#include "base/heartbeat.hpp"
#include "comm/choose_device_sums.hpp"
#include "parallel/data_parallel.hpp"

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

/// Where the deck has gradients summed in the devices' memory; else null. Collective.
std::unique_ptr<DeviceAllReduce> sums_on_devices(const TrainingConfig& config, const Communicator& comm) {
  const DeviceFacts facts = device_facts(comm);
  DeviceSums sums;
  comm.run_collectively(
      [&] { with_positions(config.source, [&] { sums = choose_device_sums(config.parallel, facts); }); });
  return device_all_reduce(sums, comm);
}

/// An f64 [1] for the host; waits for the device.
double on_host(const ExecSpace& space, const Tensor& number) {
  double value = 0;
  copy_to_host(space, number, &value);
  return value;
}

}  // namespace

Trainer::Trainer(const TrainingConfig& config, Graph graph, TrainingProblem problem, const Communicator& comm)
    : comm_(comm), problem_(std::move(problem)) {
  const Topology topology(comm);
  comm_.run_collectively(
      [&] { with_positions(config.source, [&] { partition_ = batch_partition(config, graph, comm_.size()); }); });
  max_micro_batch_ = partition_.largest_micro_batch(std::min(config.batch.largest(), problem_.data.size()));
  const std::size_t bytes = ParameterLayout(graph, config.dtype()).gradient_bytes();
  std::optional<NodeMemory> memory;
  std::unique_ptr<DeviceAllReduce> on_devices = problem_.make_strategy ? nullptr : sums_on_devices(config, comm_);
  if (!partition_.separate && !on_devices) memory = gradient_memory(config.parallel, topology, bytes);
  comm_.run_collectively([&] {
    const Buffer shared = !memory_is_separate && memory ? Buffer::borrow(memory->part(topology.node.rank()), bytes)
                                                        : Buffer();
    model_ = std::make_unique<Model>(make_model(config, std::move(graph), max_micro_batch_, Purpose::training, shared));
    heartbeat().beat();
  });
  strategy_ = problem_.make_strategy
                  ? problem_.make_strategy(topology, std::move(memory), model_->parameters())
                  : std::make_unique<DataParallel>(config.parallel, problem_.measured, topology, std::move(memory),
                                                   std::move(on_devices), model_->parameters());
  comm_.run_collectively([&] {
    with_positions(config.source, [&] {
      optimizer_ = config.optimizer.make(model_->parameters());
      optimizer_steps_.emplace(config, comm_, *optimizer_, problem_.length);
    });
    guard_.emplace(config, comm_, problem_.data, *model_, *optimizer_, partition_.separate ? partition_.shards : 1);
    uploader_.emplace(problem_.data.format(), problem_.normalize, config.dtype(), max_micro_batch_, problem_.augment,
                      problem_.seed);
    own_square_.emplace(model_->parameters().trained_size());
    sums_.emplace(max_micro_batch_, model_->graph().output_shape(), config.metrics, problem_.loss->ignored_class());
  });
  statistics_ = statistics_exchange(config.parallel, comm_, topology, *model_);
  model_->exchange_statistics(statistics_.get());
  consensus_.emplace(topology);
}

StepResult Trainer::step(const HostBatch& batch, const std::function<StepRequests()>& requests) {
  guard_->begin(space_, batch.plan);
  sums_->clear(space_);
  for (const MicroBatch& micro_batch : batch.plan.micro_batches) {
    const StepContext context = context_of(batch, micro_batch);
    const DeviceBatch examples = upload(batch, micro_batch);
    forward(context, examples);
    backward(context, micro_batch, examples);
  }
  const StepVote votes = finish_gradients(requests());
  const StepResult result = conclude(batch, votes);
  if (!result.done()) {
    noise_scale_.discard_step();
    return result;
  }
  if (measures_noise())
    noise_scale_.end_step(comm_, on_host(space_, strategy_->gradient_square(space_)), result.examples,
                          guard_->loss_factor());
  ++count_.done;
  count_.skipped += result.status == StepStatus::skipped ? 1 : 0;
  return result;
}

StepContext Trainer::context_of(const HostBatch& batch, const MicroBatch& micro_batch) const {
  return {.space = space_,
          .training = true,
          .seed = problem_.seed,
          .step = count_.done,
          .first_example = batch.plan.first + micro_batch.first,
          .gradients = micro_batch.begins ? Store::replace : Store::add,
          .same_parameters = micro_batch.first > 0};
}

DeviceBatch Trainer::upload(const HostBatch& batch, const MicroBatch& micro_batch) {
  const PhaseClock::Scope phase(clock_, StepPhase::data);
  if (micro_batch.begins && micro_batch.count == 0) fill_zero(space_, model_->parameters().gradients());
  return uploader_->upload(space_, batch, micro_batch.first, micro_batch.count);
}

void Trainer::forward(const StepContext& context, const DeviceBatch& examples) {
  const PhaseClock::Scope phase(clock_, StepPhase::forward);
  model_->forward(context, examples.inputs, [&](const Model::Output& output) {
    sums_->add(space_, *problem_.loss, examples.n, output, examples.targets, guard_->loss_factor(), examples.mixed);
  });
}

void Trainer::backward(const StepContext& context, const MicroBatch& micro_batch, const DeviceBatch& examples) {
  const PhaseClock::Scope phase(clock_, StepPhase::backward);
  model_->backward(context, examples.inputs, [&](ParameterRange range) {
    if (!micro_batch.ends) return;
    guard_->gradient_ready(space_, range);
    if (measures_noise() && range.first < model_->parameters().trained_size())
      noise_scale_.add_small_batch(
          on_host(space_, own_square_->compute(space_, model_->parameters().gradients(range))));
    strategy_->gradient_ready(space_, range);
  });
  if (!micro_batch.ends) return;
  guard_->sum_done();
  if (measures_noise()) noise_scale_.end_small_batch(micro_batch.examples);
  strategy_->shard_done(space_);
}

/// While they are summed, this rank's vote is on its way.
StepVote Trainer::finish_gradients(const StepRequests& requests) {
  const PhaseClock::Scope phase(clock_, StepPhase::reduce);
  const LossSums sums = sums_->local(space_);
  consensus_->begin({.stop = requests.stop,
                     .checkpoint = requests.checkpoint,
                     .bad_parameters = optimizer_->left_nonfinite(space_),
                     .loss = sums.loss,
                     .weight = sums.weight});
  strategy_->finish_gradients(space_, [this] { consensus_->advance(); });
  return consensus_->finish();
}

/// What becomes of the step whose gradients are there: an update, or not.
StepResult Trainer::conclude(const HostBatch& batch, const StepVote& votes) {
  const PhaseClock::Scope phase(clock_, StepPhase::optimizer);
  const auto examples = static_cast<double>(batch.plan.global_examples);
  const double divisor = sums_->divisor(votes.weight, batch.plan.global_examples);
  last_step_ = {.examples = batch.plan.global_examples, .gradient_factor = 1 / (divisor * guard_->loss_factor())};
  const StepGuard::Finding finding = guard_->classify(space_, *strategy_, votes, votes.loss / divisor, count_.done + 1);
  if (finding.status == StepStatus::applied) {
    before_update_();
    strategy_->update(space_, *optimizer_,
                      optimizer_steps_->at(space_, *strategy_, applied_steps(), last_step_.gradient_factor),
                      1 / examples);
    if (optimizer_->averages()) optimizer_->average(space_, model_->parameters(), count_.optimizer_steps() == 0);
  }
  return {.status = finding.status,
          .message = finding.message,
          .requests = {.stop = votes.stop, .checkpoint = votes.checkpoint},
          .bad_parameters = votes.bad_parameters,
          .examples = batch.plan.global_examples};
}

bool Trainer::measures_noise() const {
  return (comm_.size() > 1 || partition_.separate) && count_.done % NoiseScale::every == 0;
}

std::optional<Metrics> Trainer::evaluate(const Dataset& data, const std::function<bool()>& gives_up) {
  const PhaseClock::Scope phase(clock_, StepPhase::evaluation);
  const AveragedParameters averaged = averaged_parameters();
  return lockstep::evaluate(space_, comm_, *model_, *problem_.loss, data, *uploader_, *sums_, max_micro_batch_,
                            gives_up);
}

Metrics Trainer::evaluate(const HostBatch& batch) {
  const PhaseClock::Scope phase(clock_, StepPhase::evaluation);
  const AveragedParameters averaged = averaged_parameters();
  return lockstep::evaluate(space_, comm_, *model_, *problem_.loss, batch, *uploader_, *sums_, max_micro_batch_);
}

Trainer::AveragedParameters Trainer::averaged_parameters() {
  if (!optimizer_->averages() || count_.optimizer_steps() == 0) return AveragedParameters(nullptr, [](Trainer*) {});
  before_update_();
  optimizer_->swap_average(space_, model_->parameters());
  return AveragedParameters(this, [](Trainer* trainer) {
    trainer->optimizer_->swap_average(trainer->space_, trainer->model_->parameters());
  });
}

StepNumbers Trainer::step_numbers() {
  return {.metrics = sums_->reduce(space_, comm_, *problem_.loss, last_step_.examples),
          .gradient_norm = std::sqrt(on_host(space_, strategy_->gradient_square(space_))) * last_step_.gradient_factor};
}

StepScales Trainer::step_scales() const {
  const std::int64_t applied = std::max<std::int64_t>(0, applied_steps() - 1);
  return {.learning_rate = optimizer_steps_->learning_rate(applied),
          .loss_scale = guard_->loss_scale(),
          .noise_scale = noise_scale_.value()};
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
  noise_scale_.describe_state(fields);
}

void Trainer::share_parameters() {
  comm_.broadcast(space_, model_->parameters().values());
  model_->parameters().round(space_);
  for (const auto& state : optimizer_->states()) comm_.broadcast(space_, state.values);
  optimizer_->forget_nonfinite(space_);
}

}  // namespace lockstep
