// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/log.hpp"
#include "comm/all_reduce_table.hpp"
#include "comm/shard_tree.hpp"
#include "train/rank_agreement.hpp"
#include "train/summary.hpp"

namespace lockstep {

void Trainer::train_step() {
  const HostBatch* batch = nullptr;
  {
    const PhaseClock::Scope phase(clock_, StepPhase::data);
    batch = loader_->next();
  }
  sums_->clear(space_);
  // Scaled, the loss is a mean already, so that 16 bits hold the same numbers whatever the batch.
  const double examples_in_step = static_cast<double>(batch->plan.global_examples);
  const double loss_scale = scaler_ ? scaler_->scale() / examples_in_step : 1.0;
  if (scaler_) overflow_->begin(space_);
  for (const Piece& piece : pieces_of(cut_, batch->plan.global_examples, comm_.rank())) {
    if (piece.begins && piece.count == 0) fill_zero(space_, model_->parameters().gradients());
    const StepContext step = context(batch->plan.first, piece);
    DeviceBatch examples;
    {
      const PhaseClock::Scope phase(clock_, StepPhase::data);
      examples = uploader_->upload(space_, *batch, piece.first, piece.count);
    }
    {
      const PhaseClock::Scope phase(clock_, StepPhase::forward);
      const Tensor outputs = model_->forward(step, examples.inputs);
      if (piece.count > 0) sums_->add(space_, *loss_, outputs, examples.targets, model_->output_gradient(), loss_scale);
    }
    {
      const PhaseClock::Scope phase(clock_, StepPhase::backward);
      model_->backward(step, examples.inputs, [&](ParameterRange final) {
        if (piece.ends) gradients_final(final);
      });
    }
    if (piece.ends) sum_final(piece.examples);
  }
  {
    const PhaseClock::Scope phase(clock_, StepPhase::reduce);
    reduce_gradients(batch->plan.global_examples, loss_scale);
  }
  {
    const PhaseClock::Scope phase(clock_, StepPhase::optimizer);
    gradient_factor_ = 1 / (examples_in_step * loss_scale);
    if (!scaler_ || !overflowed()) update_parameters(examples_in_step);
  }
  if (stuck_) return;  // this step is not done: a run that goes on does it again
  examples_in_step_ = batch->plan.global_examples;
  ++state_.step;
  state_.position = batch->plan.after;
}

/// A stretch of the sum of gradients that is being computed is final: this rank's, or one of its shards'.
void Trainer::gradients_final(ParameterRange range) {
  const ParameterBuffer& parameters = model_->parameters();
  if (scaler_) overflow_->look(space_, parameters, range);
  if (measures_noise() && range.first < parameters.trained_size())
    noise_scale_.look(square_of(parameters.gradients(range)));
  gradient_sum_->ready(space_, range.count);
}

/// All of it is.
void Trainer::sum_final(std::int64_t examples) {
  if (scaler_) overflow_->end_sum();
  if (measures_noise()) noise_scale_.end_small_batch(examples);
  gradient_sum_->shard_done(space_);
}

void Trainer::reduce_gradients(std::int64_t examples_in_step, double loss_scale) {
  gradient_sum_->finish(space_);
  if (measures_noise())
    noise_scale_.end_step(comm_, square_of(model_->parameters().trained_gradients()), examples_in_step, loss_scale);
}

bool Trainer::measures_noise() const {
  return (comm_.size() > 1 || cut_.separate) && state_.step % NoiseScale::every == 0;
}

void Trainer::update_parameters(double examples_in_step) {
  ParameterBuffer& parameters = model_->parameters();
  const std::int64_t taken = state_.step - state_.skipped_steps;
  optimizer_->step(space_, parameters,
                   {.learning_rate = learning_rate(taken),
                    .number = taken + 1,
                    .gradient_scale = gradient_scale_->compute(space_, parameters, gradient_factor_)});
  parameters.update_statistics(space_, 1 / examples_in_step);
}

/// Whether the gradients of this step are not finite anywhere: then it is left out, on all ranks alike.
bool Trainer::overflowed() {
  skipped_ = overflow_->found(space_, model_->parameters());
  stuck_ = skipped_ && scaler_->at_floor();
  if (stuck_) return true;
  const double scale = scaler_->scale();
  scaler_->update(skipped_);
  state_.loss_scaler = scaler_->state();
  if (!skipped_) return false;
  ++state_.skipped_steps;
  log("step {:>7}  left out: {}; loss scale {:g} → {:g}", state_.step + 1, overflow_->verdict(space_, comm_), scale,
      scaler_->scale());
  return true;
}

StepContext Trainer::context(std::int64_t first_example, const Piece& piece) const {
  return {.space = space_,
          .training = true,
          .seed = static_cast<std::uint64_t>(config_.run.seed),
          .step = state_.step,
          .first_example = first_example + piece.first,
          .gradients = piece.begins ? Store::replace : Store::add,
          .same_parameters = piece.first > 0};
}

Trainer::Trainer(const RunConfig& config, const Communicator& comm)
    : comm_(comm),
      config_(config),
      deck_(agreed_deck(comm, write_config(config_))),
      folder_(config_),
      topology_(comm, config_.parallel.emulated_ranks_per_node()),
      progress_(comm.size()) {
  std::optional<Graph> graph;
  comm_.together([&] {
    Experiment experiment = open_experiment(config_);
    data_ = std::move(experiment.data);
    loss_ = std::move(experiment.loss);
    graph.emplace(std::move(experiment.graph));
  });
  for (const Dataset* split : {data_.train.get(), data_.validation.get()}) expect_same_data(comm_, split);
  start(std::move(*graph));
}

/// Of this rank, with the ragged last batch of an epoch and of an evaluation: what they need is made before the first
/// step.
std::vector<std::int64_t> Trainer::batch_sizes() const {
  const std::int64_t size = data_.train->size(), global = std::min(config_.batch.global, size);
  std::vector<std::int64_t> sizes;
  for (const std::int64_t examples : {global, config_.data.drop_last ? 0 : size % global})
    for (const Piece& piece : pieces_of(cut_, examples, comm_.rank())) sizes.push_back(piece.count);
  if (data_.validation) {
    const std::int64_t all = data_.validation->size(), round = piece_ * comm_.size();
    for (const std::int64_t examples : {std::min(all, round), all % round})
      sizes.push_back(share_of(examples, comm_.rank(), comm_.size()).count);
  }
  return sizes;
}

void Trainer::start(Graph graph) {
  const std::int64_t global = std::min(config_.batch.global, data_.train->size());
  comm_.together([&] { with_positions(config_.source, [&] { cut_ = cut_of(config_, graph, comm_.size()); }); });
  share_ = cut_.largest_share(global);
  piece_ = cut_.largest_piece(global);
  read_all_reduce_table();
  const std::size_t bytes = gradient_bytes(graph, config_.dtype());
  if (!cut_.separate) gradient_memory_ = gradient_memory(config_.parallel, topology_, bytes);
  comm_.together([&] {
    const Buffer shared = host_shares_memory && gradient_memory_
                              ? Buffer::borrow(gradient_memory_->part(topology_.node.rank()), bytes)
                              : Buffer();
    model_ = std::make_unique<Model>(make_model(config_, std::move(graph), piece_, Purpose::training, shared));
    for (const std::int64_t n : batch_sizes())
      if (n > 0) model_->prepare(n);
    const ParameterBuffer& parameters = model_->parameters();
    optimizer_ = config_.optimizer.make(parameters);
    uploader_ = std::make_unique<BatchUploader>(data_.train->format(), config_.data.normalize, config_.dtype(), piece_);
    gradient_scale_.emplace(config_.optimizer.clip_norm(), parameters);
    sums_ = std::make_unique<MetricSums>(piece_ * positions_in(model_->graph().output_shape()));
    if (config_.precision.scales_loss()) {
      scaler_.emplace(config_.precision.loss_scale);
      overflow_.emplace(parameters, model_->graph(), cut_.separate ? cut_.shards : 1);
    }
    norm_scratch_ = OwnedTensor("lockstep::norm_scratch", DType::f64,
                                {sum_of_squares_scratch(parameters.trained_size())});
  });

  if (comm_.size() > 1 && config_.parallel.audit_every > 0) audit_.emplace(comm_, model_->parameters(), *optimizer_);
  share_statistics();
  const Tensor gradients = model_->parameters().gradients();
  if (config_.parallel.deterministic.present)
    gradient_sum_ = std::make_unique<ShardTree>(comm_, config_.parallel.deterministic.shards, gradients);
  else
    gradient_sum_ = std::make_unique<GradientReducer>(config_.parallel, topology_, gradient_memory_, gradients,
                                                      model_->parameters().trained_size());

  // Rank 0 alone reads and writes the folder; what it has found goes to all.
  state_ = first_state(config_, data_.train->size());
  comm_.together([&] {
    if (comm_.is_root()) open_folder();
  });
  std::string text = state_text(state_);
  comm_.broadcast(text);
  state_ = parse_state(text);
  complete_ = comm_.max(comm_.is_root() && complete_) != 0;
  checkpointed_step_ = comm_.max(checkpointed_step_);
  if (scaler_) scaler_->restore(state_.loss_scaler);
  noise_scale_.restore(state_.noise);
  comm_.broadcast(space_, model_->parameters().values());
  model_->parameters().round(space_);
  for (const auto& optimizer_state : optimizer_->states()) comm_.broadcast(space_, optimizer_state.values);
  comm_.together([&] { make_loader(); });
}

void Trainer::read_all_reduce_table() {
  ParallelConfig& parallel = config_.parallel;
  const std::string& file = parallel.all_reduce_table;
  if (file.empty()) return;
  std::string text;
  comm_.together([&] {
    if (comm_.is_root()) text = read_deck_file(file);
  });
  comm_.broadcast(text);
  comm_.together([&] {
    const AllReduceTable table = read_table(text, file);
    const std::vector<AllReduceRow> rows = table.rows();
    const bool by_mpi = std::ranges::any_of(rows, [](const auto& row) { return row.kind == AllReduceKind::mpi; });
    validate(
        !by_mpi || (parallel.wire == ParallelConfig::Wire::fp32 && !parallel.emulate.present), ExitStatus::bad_deck,
        "{}: takes the MPI library's sums, which know neither parallel.wire nor parallel.emulate; leave these out, or "
        "the table",
        file);
    if (table.ranks == comm_.size() && table.nodes == topology_.nodes) parallel.measured = rows;
    else if (comm_.is_root())
      warn("{}: was measured with {} ranks on {} nodes, and not with {} on {}; it is not used", file, table.ranks,
           table.nodes, comm_.size(), topology_.nodes);
  });
}

/// SyncBatchNorm, where the deck wants it and the network has such layers.
void Trainer::share_statistics() {
  std::int64_t channels = 0;
  for (const GraphNode& node : model_->graph().nodes())
    if (node.layer->observes()) channels += node.shape[-1];
  const std::int64_t group_size = config_.parallel.group_size.value_or(comm_.size());
  if (channels == 0 || !config_.parallel.sync_batch_norm || std::min<std::int64_t>(group_size, comm_.size()) == 1)
    return;
  const Communicator group = comm_.split(static_cast<int>(comm_.rank() / group_size));
  statistics_ = std::make_unique<RankStatistics>(topology_.of(group), config_.parallel.emulate,
                                                 model_->parameters().dtype(), channels);
  model_->exchange_statistics(statistics_.get());
}

/// Of rank 0: where to begin, and the files that the run will write.
void Trainer::open_folder() {
  if (const auto checkpoint = folder_.find_checkpoint()) {
    resume(*checkpoint);
  } else {
    model_->parameters().initialize(space_, static_cast<std::uint64_t>(config_.run.seed));
    load_starting_weights();
  }
  complete_ = finished() && folder_.has_summary();
  if (complete_) return;
  folder_.prepare(state_.step);
  folder_.remove_summary();
  folder_.write_text("deck.yaml", deck_);
  progress_.open(folder_.metrics(), folder_.goes_on() ? state_.metrics_rows : 0);
}

void Trainer::resume(const Checkpoint& checkpoint) {
  const std::string& file = folder_.resumed_from();
  ParameterBuffer& parameters = model_->parameters();
  with_positions(config_.source,
                 [&] { check_resume(checkpoint, file, config_, data_.train->size(), parameters.parameters()); });
  restore_parameters(space_, checkpoint.arrays, file, parameters);
  restore_optimizer(space_, checkpoint.arrays, file, parameters, *optimizer_);
  const RunState fresh = state_;
  const std::string target = state_.target;
  state_ = state_of(checkpoint, file);
  if (!state_.scales_loss) state_.loss_scaler = fresh.loss_scaler;
  state_.scales_loss = fresh.scales_loss;
  state_.target_reached = state_.target_reached && state_.target == target;  // another target is not reached yet
  state_.target = target;
  checkpointed_step_ = state_.step;
}

void Trainer::load_starting_weights() {
  if (config_.model.weights.empty()) return;
  restore_parameters(space_, read_parameters(config_.model.weights), config_.model.weights, model_->parameters());
}

void Trainer::make_loader() {
  const Sampler sampler({.dataset_size = data_.train->size(),
                         .global_batch = config_.batch.global,
                         .seed = static_cast<std::uint64_t>(config_.run.seed),
                         .shuffle = config_.data.shuffle,
                         .drop_last = config_.data.drop_last,
                         .rank = comm_.rank(),
                         .cut = cut_},
                        state_.position);
  loader_ = std::make_unique<DataLoader>(*data_.train, sampler, share_, config_.data.augment,
                                         static_cast<std::uint64_t>(config_.run.seed));
}

std::int64_t Trainer::total_steps() const {
  const std::int64_t examples = data_.train->size(), batch = config_.batch.global;
  const std::int64_t steps_per_epoch = config_.data.drop_last ? examples / batch : (examples + batch - 1) / batch;
  const std::int64_t endless = std::numeric_limits<std::int64_t>::max();
  return std::min(config_.run.steps.value_or(endless),
                  config_.run.epochs ? *config_.run.epochs * steps_per_epoch : endless);
}

double Trainer::learning_rate(std::int64_t step) const {
  return config_.optimizer.learning_rate() * config_.schedule.factor(step, total_steps());
}

bool Trainer::finished() const {
  return state_.step >= total_steps() || (config_.run.has_target && state_.target_reached);
}

void Trainer::run() {
  log_banner();
  if (complete_) {
    log("{} is already at step {}: nothing is left to do.", folder_.resumed_from(), state_.step);
    return;
  }
  while (!finished()) {
    const Timer timer;
    train_step();
    space_.fence("lockstep::step");
    if (stuck_) give_up();
    after_step(timer.seconds());
  }
  // What is logged from here on is beyond the schedule: a run that goes on from this checkpoint drops it,
  // so that its curves are those of a run that never stopped.
  if (checkpointed_step_ != state_.step) write_checkpoint();
  if (train_metrics_ && state_.step == total_steps() && state_.step % config_.run.log_every != 0) log_step();
  if (!validation_metrics_ || state_.evaluated_step != state_.step) evaluate_and_log();
  write_summary();
}

/// No loss scale is small enough for the next step.
void Trainer::give_up() {
  const std::string verdict = overflow_->verdict(space_, comm_);
  comm_.together([&] {
    if (checkpointed_step_ != state_.step) write_checkpoint();
    throw Error(
        ExitStatus::internal,
        fmt::format(
            "step {}: {} at the smallest loss scale, {:g} (precision.loss_scale.floor); go on from the checkpoint of "
            "the step before, with a smaller learning rate or with precision.compute bf16",
            state_.step + 1, verdict, scaler_->scale()));
  });
}

void Trainer::after_step(double seconds) {
  progress_.step_done(seconds, gradient_sum_->take_exposed_seconds(), examples_in_step_);
  if (audit_ && state_.step % config_.parallel.audit_every == 0) compare_replicas();
  if (state_.step % config_.run.log_every == 0 || state_.step == total_steps()) train_metrics_ = step_metrics();
  if (state_.step % config_.run.log_every == 0) log_step();
  if (ended_epoch() && config_.run.evaluate_every > 0 && state_.position.epoch % config_.run.evaluate_every == 0)
    evaluate_and_log();
  if (checkpoint_due()) write_checkpoint();
}

Metrics Trainer::step_metrics() { return sums_->reduce(space_, comm_, *loss_, examples_in_step_); }

/// Of train_metrics_, which are those of this step.
void Trainer::log_step() {
  const double weights = square_of(model_->parameters().trained_values());
  const double norm = std::sqrt(square_of(model_->parameters().trained_gradients())) * gradient_factor_;
  // The loss alone does not tell: a library's ReLU may turn what is not a number into zero.
  if ((!skipped_ && (!std::isfinite(train_metrics_->loss) || !std::isfinite(norm))) || !std::isfinite(weights))
    warn(
        "step {}: the loss, its gradient or the parameters are not finite; go back to a checkpoint, with a smaller "
        "learning rate",
        state_.step);
  progress_.log({.number = state_.step,
                 .epoch = epoch(),
                 .left = total_steps() - state_.step,
                 .metrics = *train_metrics_,
                 .gradient_norm = norm,
                 .learning_rate = learning_rate(std::max<std::int64_t>(0, state_.step - state_.skipped_steps - 1)),
                 .skipped = skipped_,
                 .loss_scale = scaler_ ? std::optional(scaler_->scale()) : std::nullopt,
                 .noise_scale = noise_scale_.value()});
}

void Trainer::evaluate_and_log() {
  if (!data_.validation) return;
  const bool again = state_.evaluated_step ==
                     state_.step;  // this process has not seen the result, but its row is there
  state_.evaluated_step = state_.step;
  validation_metrics_ = evaluate(space_, comm_, *model_, *loss_, *data_.validation, *uploader_, *sums_, piece_);
  const Metrics& metrics = *validation_metrics_;
  progress_.log_validation(state_.step, epoch(), metrics, again);
  if (config_.run.has_target)
    state_.target_reached = config_.run.target_metric == RunOptions::Metric::validation_loss
                                ? metrics.loss <= config_.run.target_value
                                : metrics.accuracy.value_or(0) >= config_.run.target_value;
}

/// The same on all ranks, whose clocks are not.
bool Trainer::checkpoint_due() const {
  const auto& options = config_.checkpoint;
  if (options.every_steps > 0 && state_.step % options.every_steps == 0) return true;
  if (options.every_minutes == 0) return false;
  return comm_.max(comm_.is_root() && since_checkpoint_.seconds() >= 60 * options.every_minutes) != 0;
}

/// Collective, like all that may end in an error of all ranks.
void Trainer::compare_replicas() {
  if (!audit_ || std::exchange(audited_step_, state_.step) == state_.step) return;
  audit_->compare(space_, state_.step);
}

/// Every rank holds the same state, so rank 0 writes it and the others go on.
void Trainer::write_checkpoint() {
  const PhaseClock::Scope phase(clock_, StepPhase::checkpoint);
  compare_replicas();  // what differs must not take the place of what was good
  checkpointed_step_ = state_.step;
  since_checkpoint_.restart();
  if (!comm_.is_root()) return;
  MetricsFile& metrics = *progress_.file();
  metrics.flush_to_disk();
  state_.noise = noise_scale_.state();
  state_.metrics_rows = metrics.rows();
  lockstep::write_checkpoint(folder_.checkpoints() / checkpoint_name(state_.step),
                             make_checkpoint(space_, state_, deck_, model_->parameters(), *optimizer_));
  prune_checkpoints(folder_.checkpoints(), config_.checkpoint.keep);
}

void Trainer::write_summary() {
  Summary summary;
  summary.status = config_.run.has_target && state_.target_reached ? "target_reached" : "done";
  summary.steps = state_.step;
  summary.epochs = state_.position.epoch;
  summary.ranks = comm_.size();
  summary.threads = ExecSpace().concurrency();
  summary.train = train_metrics_;
  summary.validation = validation_metrics_;
  const StepTimes& times = progress_.times();
  summary.times = &times;
  summary.clock = &clock_;
  summary.reduce_seconds = progress_.reduce_seconds();
  for (const auto& [phase, milliseconds] : phase_milliseconds(clock_, summary.reduce_seconds, times.count()))
    summary.spreads.push_back(spread_over_ranks(comm_, phase, milliseconds));
  if (statistics_)  // inside forward and backward
    summary.spreads.push_back(spread_over_ranks(
        comm_, "batch_norm_exposed",
        1e3 * statistics_->take_exposed_seconds() / static_cast<double>(std::max<std::int64_t>(1, times.count()))));
  summary.examples = progress_.examples();
  summary.examples_per_step = std::min(config_.batch.global, data_.train->size());
  summary.flops_per_example = model_->training_flops(1);
  summary.parameters = model_->graph().parameter_count();
  summary.peak_rss_bytes = comm_.max(peak_rss_bytes());
  summary.resumed_from = folder_.resumed_from();
  if (!comm_.is_root()) return;
  folder_.write_text("summary.json", summary_json(summary));
  log("{}", summary_text(summary, folder_.metrics().parent_path().string()));
}

void Trainer::log_banner() const {
  const std::int64_t steps = total_steps();
  log("{}: {} parameters, {} training examples, batch {} = {} rank{} × {}, {}, {} with {} thread{} a rank, {} steps",
      config_.run.name, model_->graph().parameter_count(), data_.train->size(), config_.batch.global, comm_.size(),
      comm_.size() == 1 ? "" : "s", share_, precision_names[static_cast<std::size_t>(config_.precision.compute)],
      ExecSpace::name(), ExecSpace().concurrency(), ExecSpace().concurrency() == 1 ? "" : "s", steps);
  if (!folder_.resumed_from().empty() && !finished())
    log("goes on from {} at step {}", folder_.resumed_from(), state_.step);
}

}  // namespace lockstep
