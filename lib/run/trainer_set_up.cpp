// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a Trainer does before its first step; the rest is in trainer.cpp.
#include <algorithm>
#include <filesystem>

#include "base/duration.hpp"
#include "base/heartbeat.hpp"
#include "base/log.hpp"
#include "comm/all_reduce_table.hpp"
#include "parallel/deterministic_reducer.hpp"
#include "run/deck_changes.hpp"
#include "run/provenance.hpp"
#include "run/rank_agreement.hpp"
#include "run/starting_weights.hpp"
#include "run/trainer.hpp"

namespace lockstep {

Trainer::Trainer(const RunConfig& config, const Communicator& comm)
    : comm_(comm),
      config_(config),
      deck_(agreed_deck(comm, write_config(config_))),
      watchdog_(comm, config_.run.hang_timeout),
      folder_(config_),
      topology_(comm, config_.parallel.emulated_ranks_per_node()),
      progress_(comm.size()),
      stop_request_(comm.is_root() ? end_of_job(config_.run.wall_limit()) : std::nullopt,
                    comm.is_root() ? std::optional(folder_.stop_file()) : std::nullopt) {
  const SharedReading reading(comm_, config_.source);
  Experiment experiment = open_experiment(config_, reading);
  data_ = std::move(experiment.data);
  loss_ = std::move(experiment.loss);
  provenance_ = provenance(comm_, data_, reading);
  start(std::move(experiment.graph));
}

/// Of this rank, with the ragged last batch of an epoch and of an evaluation: what they need is made before the first
/// step.
std::vector<std::int64_t> Trainer::batch_sizes() const {
  const std::int64_t size = data_.train->size(), global = std::min(config_.batch.global, size);
  std::vector<std::int64_t> sizes;
  for (const std::int64_t examples : {global, config_.data.drop_last ? 0 : size % global})
    for (const MicroBatch& micro_batch : micro_batches_of(partition_, examples, comm_.rank()))
      sizes.push_back(micro_batch.count);
  for (const Dataset* split : {data_.validation.get(), data_.test.get()}) {
    if (!split) continue;
    const std::int64_t all = split->size(), round = micro_batch_ * comm_.size();
    for (const std::int64_t examples : {std::min(all, round), all % round})
      sizes.push_back(share_of(examples, comm_.rank(), comm_.size()).count);
  }
  return sizes;
}

void Trainer::start(Graph graph) {
  const std::int64_t global = std::min(config_.batch.global, data_.train->size());
  comm_.run_collectively(
      [&] { with_positions(config_.source, [&] { partition_ = batch_partition(config_, graph, comm_.size()); }); });
  share_ = partition_.largest_share(global);
  micro_batch_ = partition_.largest_micro_batch(global);
  read_all_reduce_table();
  const std::size_t bytes = gradient_bytes(graph, config_.dtype());
  if (!partition_.separate) gradient_memory_ = gradient_memory(config_.parallel, topology_, bytes);
  comm_.run_collectively([&] {
    const Buffer shared = host_shares_memory && gradient_memory_
                              ? Buffer::borrow(gradient_memory_->part(topology_.node.rank()), bytes)
                              : Buffer();
    model_ = std::make_unique<Model>(make_model(config_, std::move(graph), micro_batch_, Purpose::training, shared));
    for (const std::int64_t n : batch_sizes()) {
      if (n > 0) model_->prepare(n);
      heartbeat().beat();
    }
    const ParameterBuffer& parameters = model_->parameters();
    optimizer_ = config_.optimizer.make(parameters);
    coefficients_.emplace(
        comm_, [this](std::int64_t step) { return optimizer_->coefficients(learning_rate(config_, step), step + 1); });
    nonfinite_.emplace(comm_, *data_.train, *model_);
    uploader_ = std::make_unique<BatchUploader>(data_.train->format(), config_.data.normalize, config_.dtype(),
                                                micro_batch_);
    gradient_scale_.emplace(config_.optimizer.clip_norm(), parameters);
    sums_ = std::make_unique<MetricSums>(micro_batch_ * positions_in(model_->graph().output_shape()));
    if (config_.precision.scales_loss()) {
      scaler_.emplace(config_.precision.loss_scale);
      overflow_.emplace(parameters, model_->graph(), partition_.separate ? partition_.shards : 1);
    }
    norm_scratch_ = OwnedTensor("lockstep::norm_scratch", DType::f64,
                                {sum_of_squares_scratch(parameters.trained_size())});
  });

  if (comm_.size() > 1 && config_.parallel.audit_every > 0) audit_.emplace(comm_, model_->parameters(), *optimizer_);
  share_statistics();
  const Tensor gradients = model_->parameters().gradients();
  if (config_.parallel.deterministic.present)
    reducer_ = std::make_unique<DeterministicReducer>(comm_, config_.parallel.deterministic.shards, gradients);
  else
    reducer_ = std::make_unique<BucketedReducer>(config_.parallel, topology_, gradient_memory_, gradients,
                                                 model_->parameters().trained_size());

  // Rank 0 alone reads and writes the folder.
  state_ = first_state(config_, data_.train->size());
  comm_.run_collectively([&] {
    if (comm_.is_root()) open_folder();
  });
  watchdog_.set_shared_folder(folder_.waiting());
  complete_ = comm_.all_reduce_max(comm_.is_root() && complete_) != 0;
  share_state();
  comm_.run_collectively([&] { make_loader(); });
  watchdog_.set_idle(true);  // until `run`
}

/// What rank 0 has found goes to all.
void Trainer::share_state() {
  std::string text = state_text(state_);
  comm_.broadcast(text);
  state_ = parse_state(text);
  heartbeat().step = state_.step + 1;
  if (scaler_) scaler_->restore(state_.loss_scaler);
  noise_scale_.restore(state_.noise);
  if (config_.loss_watch.present) loss_watch_.emplace(config_.loss_watch, state_.loss_watch);
  selection_.emplace(config_.selection(), state_.selection);
  comm_.broadcast(space_, model_->parameters().values());
  model_->parameters().round(space_);
  for (const auto& optimizer_state : optimizer_->states()) comm_.broadcast(space_, optimizer_state.values);
}

void Trainer::read_all_reduce_table() {
  ParallelConfig& parallel = config_.parallel;
  const std::string& file = parallel.all_reduce_table;
  if (file.empty()) return;
  std::string text;
  comm_.run_collectively([&] {
    if (comm_.is_root()) text = read_deck_file(file);
  });
  comm_.broadcast(text);
  comm_.run_collectively([&] {
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
    if (node.layer->needs_statistics()) channels += node.shape[-1];
  const std::int64_t group_size = config_.parallel.group_size.value_or(comm_.size());
  if (channels == 0 || !config_.parallel.sync_batch_norm || std::min<std::int64_t>(group_size, comm_.size()) == 1)
    return;
  const Communicator group = comm_.split(static_cast<int>(comm_.rank() / group_size));
  statistics_ = std::make_unique<SyncBatchNormExchange>(topology_.of(group), config_.parallel.emulate,
                                                        model_->parameters().dtype(), channels);
  model_->exchange_statistics(statistics_.get());
}

/// Of rank 0: where to begin, and the files that the run will write.
void Trainer::open_folder() {
  folder_.claim();
  const std::optional<Checkpoint> checkpoint = folder_.find_checkpoint();
  if (checkpoint) {
    resume(*checkpoint, folder_.resumed_from());
  } else {
    model_->parameters().initialize(space_, static_cast<std::uint64_t>(config_.run.seed));
    load_starting_weights();
  }
  selection_.emplace(config_.selection(), state_.selection);
  complete_ = finished() && folder_.has_ended();
  if (checkpoint) say_what_has_changed(*checkpoint);
  if (complete_) return;
  folder_.prepare(state_.step, deck_);
  progress_.open(folder_.metrics(), folder_.goes_on() ? state_.metrics_rows : 0);
  const bool is_there = folder_.goes_on() &&
                        std::filesystem::exists(folder_.checkpoints() / checkpoint_name(state_.step));
  writer_.emplace(folder_.checkpoints(), config_.checkpoint.keep, is_there ? state_.step : -1);
  if (config_.checkpoint.regular()) writer_->memory(state_bytes());
}

/// Of a deck that is not the checkpoint's: what follows from that. Throws for what a run that has come to its end
/// cannot take up.
void Trainer::say_what_has_changed(const Checkpoint& checkpoint) const {
  const auto before = checkpoint.texts.find("deck");
  if (before == checkpoint.texts.end()) return;
  const auto refuse = [&](const DeckChange& change) {
    throw located(
        config_.source,
        KeyError(change.key,
                 fmt::format("was {} in the run of {}, which has come to its end, and is {} in this deck (nothing is "
                             "left to do there with it); choose another run.output_dir or run.name, go on with more "
                             "run.epochs or run.steps, or begin anew with run.resume=never run.overwrite=true",
                             change.was, config_.output_dir(), change.is)));
  };
  for (const DeckChange& change : changes_between(before->second, deck_)) {
    if (complete_ && change.effect == DeckChange::Effect::training) refuse(change);
    if (complete_) continue;
    if (change.key == "data.validation_seed")
      throw located(config_.source,
                    KeyError(change.key,
                             fmt::format("was {} in {} and is {} in this deck (the run would validate on examples that "
                                         "it has trained on); keep it, or start anew with run.resume=never "
                                         "run.overwrite=true",
                                         change.was, folder_.resumed_from(), change.is)));
    if (change.effect == DeckChange::Effect::none)
      warn("{} was {} and is {}: of no effect on a run that goes on (it matters at step 0 alone)", change.key,
           change.was, change.is);
    else log("{} was {} and is {} from here on", change.key, change.was, change.is);
  }
  if (complete_) return;
  try {
    const RunConfig then = read_run_config(parse_deck(before->second, folder_.resumed_from()));
    const std::int64_t step = state_.step - state_.skipped_steps;
    const double was = learning_rate(then, step), is = learning_rate(config_, step);
    if (was != is)
      log("the learning rate of step {} is {:.4g}, and would have been {:.4g} with the deck of before", state_.step + 1,
          is, was);
  } catch (const Error&) {  // another version's deck
  }
}

void Trainer::resume(const Checkpoint& checkpoint, const std::string& file) {
  ParameterBuffer& parameters = model_->parameters();
  with_positions(config_.source,
                 [&] { check_resume(checkpoint, file, config_, data_.train->size(), parameters.parameters()); });
  if (const auto before = checkpoint.texts.find("provenance");
      before != checkpoint.texts.end() && !same_data(before->second, provenance_))
    warn("{}: was made with other data than those that are there now; the run goes on with these", file);
  restore_parameters(space_, checkpoint.arrays, file, parameters);
  restore_optimizer(space_, checkpoint.arrays, file, parameters, *optimizer_);
  const RunState fresh = state_;
  state_ = state_of(checkpoint, file);
  if (state_.order != fresh.order && state_.shuffle && state_.position.next > 0)
    warn(
        "{}: was written in the middle of an epoch by a version that shuffles in another way; what is left of this epoch "
        "has some examples for the second time, and others not at all",
        file);
  state_.order = fresh.order;
  std::erase_if(state_.selection.best, [&](const Selection::Evaluation& evaluation) {  // of another folder, or removed
    return evaluation.step != state_.step &&
           !std::filesystem::exists(folder_.checkpoints() / checkpoint_name(evaluation.step));
  });
  if (!state_.scales_loss) state_.loss_scaler = fresh.loss_scaler;
  state_.scales_loss = fresh.scales_loss;
}

void Trainer::load_starting_weights() {
  const WeightsConfig& weights = config_.model.weights;
  if (!weights.present) return;
  const ChosenWeights chosen = with_positions(config_.source, [&] {
    return choose_weights(weights, read_parameters(weights.file), model_->graph(), model_->parameters().parameters());
  });
  set_parameters(space_, chosen.taken, model_->parameters());
  log("{}", chosen.text);
}

void Trainer::make_loader() {
  // Seeds of decks are below 2⁵³.
  const auto order_seed = static_cast<std::uint64_t>(config_.run.seed) +
                          (static_cast<std::uint64_t>(state_.rollbacks) << 53);
  const Sampler sampler({.dataset_size = data_.train->size(),
                         .global_batch = config_.batch.global,
                         .seed = order_seed,
                         .shuffle = config_.data.shuffle,
                         .drop_last = config_.data.drop_last,
                         .rank = comm_.rank(),
                         .partition = partition_},
                        state_.position);
  loader_ = std::make_unique<DataLoader>(*data_.train, sampler, share_, config_.data.augment,
                                         static_cast<std::uint64_t>(config_.run.seed));
}

}  // namespace lockstep
