// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a run does before its first step; the rest is in training_run.cpp.
#include <algorithm>
#include <filesystem>

#include "base/duration.hpp"
#include "base/heartbeat.hpp"
#include "base/log.hpp"
#include "checkpoint/state_text.hpp"
#include "core/freed_memory.hpp"
#include "run/provenance.hpp"
#include "run/rank_agreement.hpp"
#include "run/resume.hpp"
#include "run/trainer_setup.hpp"
#include "run/training_run.hpp"

namespace lockstep {
namespace {

/// Sizes of this rank's batches, with the ragged last batch of an epoch and of an evaluation: what they need is made
/// before the first step.
std::vector<std::int64_t> batch_sizes(const RunConfig& config, const Datasets& data, const BatchPartition& partition,
                                      const Communicator& comm) {
  const std::int64_t size = data.train->size(), largest = std::min(config.batch.largest(), size);
  std::vector<std::int64_t> sizes;
  for (const RunLength::Stage& stage : config.batch.stages()) {
    const std::int64_t global = std::min(stage.batch, size);
    for (const std::int64_t examples : {global, config.data.drop_last ? 0 : size % global})
      for (const MicroBatch& micro_batch : micro_batches_of(partition, examples, comm.rank()))
        sizes.push_back(micro_batch.count);
  }
  for (const Dataset* split : {data.validation.get(), data.test.get()}) {
    if (!split) continue;
    const std::int64_t all = split->size(), round = partition.largest_micro_batch(largest) * comm.size();
    for (const std::int64_t examples : {std::min(all, round), all % round})
      sizes.push_back(share_of(examples, comm.rank(), comm.size()).count);
  }
  return sizes;
}

/// Throws KeyError where the sampler does not suit so many ranks.
void check_sampler(const RunConfig& config, int ranks) {
  if (config.data.sampler != DataConfig::SamplerKind::distributed_sampler) return;
  for (const RunLength::Stage& stage : config.batch.stages())
    validate_key(
        stage.batch % ranks == 0, stage.begin.count > 0 ? "batch.ramp" : "batch.global",
        "{} examples cannot be dealt out to {} ranks alike, as data.sampler: distributed_sampler does it; use a "
        "multiple of the ranks",
        stage.batch, ranks);
  validate_key(
      !config.parallel.deterministic.present && !config.parallel.asynchronous.present &&
          !config.parallel.backup.present,
      "data.sampler",
      "distributed_sampler deals out other batches to other ranks (parallel.{} wants the same); remove one of them",
      config.parallel.deterministic.present ? "deterministic"
      : config.parallel.backup.present      ? "backup"
                                            : "asynchronous");
  validate_key(!config.parallel.deals_anew(), "data.sampler",
               "distributed_sampler deals out equally many examples to each rank (parallel.shares: measured does not); "
               "remove one of them");
}

}  // namespace

TrainingRun::TrainingRun(const RunConfig& config, const Communicator& comm, RunOwner* owner, EarlierAttempts* earlier)
    : comm_(comm),
      earlier_(earlier),
      config_(config),
      deck_(agreed_deck(comm, write_config(config_))),
      watchdog_(comm, config_.run.hang_timeout),
      folder_(config_),
      progress_(comm.size(), config.metrics),
      stop_vote_({comm.is_root() ? end_of_job(config_.run.wall_limit()) : std::nullopt,
                  comm.is_root() ? std::optional(folder_.stop_file()) : std::nullopt},
                 owner) {
  const SharedReading reading(comm_, config_.source);
  Experiment experiment = open_experiment(config_, reading);
  comm_.run_collectively([&] { with_positions(config_.source, [&] { check_sampler(config_, comm_.size()); }); });
  data_ = std::move(experiment.data);
  provenance_ = provenance(comm_, data_, reading);
  trainer_ = make_trainer(config_, std::move(experiment.graph), std::move(experiment.loss), *data_.train, comm_);
  comm_.run_collectively([&] { prepare_for(trainer_->partition()); });
  balance_.emplace(config_.parallel, comm_, *trainer_, std::min(config_.batch.largest(), data_.train->size()));
  evaluations_.emplace(comm_, config_, data_, *trainer_, state_, progress_, owner);
  checkpoints_.emplace(comm_, config_, folder_, *trainer_,
                       RunCheckpoints::Contents{
                           .texts =
                               [this] {
                                 std::map<std::string, std::string> texts{{"deck", deck_}, {"provenance", provenance_}};
                                 if (const std::string vocabulary = data_.train->vocabulary(); !vocabulary.empty())
                                   texts["vocabulary"] = vocabulary;
                                 state_.metrics_rows = progress_.file()->rows();
                                 texts["state"] = state_text([this](StateFields& fields) { describe_state(fields); });
                                 return texts;
                               },
                           .best = [this] { return evaluations_->selection().best_steps(); },
                           // The checkpoint counts on the rows, and replaces others.
                           .before_commit =
                               [this] {
                                 folder_.lock().require();
                                 progress_.file()->flush_to_disk();
                               }});

  // Rank 0 alone reads and writes the folder.
  comm_.run_collectively([&] {
    if (!comm_.is_root()) return;
    folder_.claim();
    if (earlier_ && earlier_->has_begun) folder_.take_up();
  });
  checkpoints_->recover_from_neighbours(folder_);
  comm_.run_collectively([&] {
    if (!comm_.is_root()) return;
    open_folder();
    if (earlier_ && !here_.complete) earlier_->has_begun = true;
  });
  watchdog_.set_shared_folder(folder_.waiting());
  here_.complete = comm_.all_reduce_max(comm_.is_root() && here_.complete) != 0;
  const bool begins = comm_.all_reduce_max(comm_.is_root() && here_.begins) != 0;
  comm_.run_collectively([&] {
    Model& model = trainer_->model();
    if (begins && !comm_.is_root() && model.parameters().windows().division.values)
      initialize_parameters(config_, model);
  });
  share_state();
  if (!here_.complete) checkpoints_->make_room(folder_);
  comm_.run_collectively([&] { start_loader(); });
  give_back_freed_memory();
  watchdog_.set_idle(true);  // until `run`
}

void TrainingRun::describe_state(StateFields& fields) {
  trainer_->describe_state(fields);
  state_.describe_state(fields);
  evaluations_->selection().describe_state(fields);
  ExampleOrder order(config_, data_.train->size());  // check_resume has seen to that it is the checkpoint's
  order.describe_state(fields);
}

/// What rank 0 has found goes to all.
void TrainingRun::share_state() {
  const auto describe = [this](StateFields& fields) { describe_state(fields); };
  std::string text = state_text(describe);
  comm_.broadcast(text);
  restore_state(text, describe);
  heartbeat().step = trainer_->steps() + 1;
  checkpoints_->restore_numbers();
  trainer_->share_parameters();
}

/// Finds where to begin, and makes the files that the run will write; on rank 0.
void TrainingRun::open_folder() {
  const std::optional<Checkpoint> checkpoint = folder_.find_checkpoint();
  if (checkpoint) {
    restore(*checkpoint, folder_.resumed_from());
  } else {
    here_.begins = true;
    initialize_parameters(config_, trainer_->model());
    if (!config_.run.branch_from.empty()) branch(config_.run.branch_from);
  }
  here_.complete = finished() && folder_.has_ended();
  const std::int64_t step = trainer_->steps();
  if (checkpoint)
    say_what_has_changed(config_, deck_, *checkpoint,
                         {.file = folder_.resumed_from(),
                          .step = step,
                          .applied = trainer_->applied_steps(),
                          .examples = data_.train->size(),
                          .complete = here_.complete});
  if (here_.complete) return;
  folder_.prepare(step, deck_);
  progress_.open(folder_.metrics(), folder_.goes_on() ? state_.metrics_rows : 0);
  const bool is_there = folder_.goes_on() && std::filesystem::exists(folder_.checkpoints() / checkpoint_name(step));
  checkpoints_->open(is_there ? step : -1);
}

/// Goes on from the checkpoint; on rank 0.
void TrainingRun::restore(const Checkpoint& checkpoint, const std::string& file) {
  with_positions(config_.source, [&] {
    check_resume(checkpoint, file, config_, data_.train->size(), trainer_->model().parameters().parameters());
  });
  if (const auto before = checkpoint.texts.find("provenance");
      before != checkpoint.texts.end() && !same_data(before->second, provenance_))
    warn("{}: was made with other data than those that are there now; the run goes on with these", file);
  checkpoints_->restore_from(file);
  ExampleOrder order;
  restore_state(checkpoint, file, [&](StateFields& fields) {
    describe_state(fields);
    order.describe_state(fields);
  });
  if (order.version != example_order && order.shuffle && state_.position.next > 0)
    warn(
        "{}: was written in the middle of an epoch by a version that shuffles in another way; what is left of this epoch "
        "has some examples for the second time, and others not at all",
        file);
  evaluations_->selection().forget_best([&](std::int64_t step) {  // of another folder, or removed
    return step != trainer_->steps() && !std::filesystem::exists(folder_.checkpoints() / checkpoint_name(step));
  });
}

/// Begins with what another run has come to; on rank 0.
void TrainingRun::branch(const std::string& file) {
  const Checkpoint checkpoint = open_checkpoint(file, [] { heartbeat().beat(); });
  with_positions(config_.source, [&] {
    check_branch(checkpoint, file, config_.optimizer, trainer_->model().parameters().parameters());
  });
  checkpoints_->restore_from(file);
  const std::int64_t steps = optimizer_steps_of(checkpoint, file);
  trainer_->branch_behind(steps);
  log("{}: the run begins with its parameters and its optimizer's state, which {} steps have made", file, steps);
}

void TrainingRun::prepare_for(const BatchPartition& partition) {
  for (const std::int64_t n : batch_sizes(config_, data_, partition, comm_)) {
    if (n > 0) trainer_->prepare(n);
    heartbeat().beat();
  }
}

void TrainingRun::start_loader() {
  const std::int64_t largest = std::min(config_.batch.largest(), data_.train->size());
  // Seeds of decks are below 2⁵³.
  const auto order_seed = static_cast<std::uint64_t>(config_.run.seed) +
                          (static_cast<std::uint64_t>(state_.rollbacks) << 53);
  const bool interleaved = config_.data.sampler == DataConfig::SamplerKind::distributed_sampler;
  const Sampling sampling = with_positions(
      config_.source, [&] { return sampling_of(config_.data, *data_.train, comm_.size(), order_seed); });
  using Dealing = ParallelStrategy::Dealing;
  const Dealing dealing = trainer_->strategy().dealing();
  const BatchPartition& partition = trainer_->partition();
  const Sampler sampler({.dataset_size = data_.train->size(),
                         .global_batch = largest,
                         .batch_at = [length = run_length(config_, data_.train->size())](
                                         const SamplerPosition& at) { return length.batch_at(at.epoch, at.next); },
                         .drop_last = config_.data.drop_last,
                         .sampling = sampling,
                         .repeats = draws_again(config_.data.sampler),
                         .interleaved = interleaved,
                         .rank = comm_.rank(),
                         .partition = balance_->partition(),
                         .parts = trainer_->strategy().parts_of_batch(),
                         .batches = trainer_->steps(),
                         .parts_of = dealing == Dealing::in_known_order
                                         ? [this](std::int64_t step) { return trainer_->strategy().parts_of(step); }
                                         : std::function<std::span<const std::int64_t>(std::int64_t)>()},
                        state_.position);
  loader_ = std::make_unique<DataLoader>(*data_.train, sampler, partition.room(largest), config_.data.augment,
                                         static_cast<std::uint64_t>(config_.run.seed),
                                         dealing == Dealing::as_they_come ? DataLoader::on_demand : DataLoader::ahead);
}

}  // namespace lockstep
