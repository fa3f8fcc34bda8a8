// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/training/batch_feed.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/heartbeat.hpp"
#include "base/log.hpp"
#include "data/batch/batch_partition.hpp"

namespace lockstep {
namespace {

/// Steps between two comparisons of ranks' times.
constexpr std::int64_t comparison_period = 16;

}  // namespace

std::vector<double> PassTimes::medians(const Communicator& ranks) const {
  std::array<double, kept> sorted = seconds_;
  const auto end = sorted.begin() + std::min(steps_, kept), middle = sorted.begin() + (end - sorted.begin()) / 2;
  std::nth_element(sorted.begin(), middle, end);
  const std::vector<std::int64_t> all = ranks.all_gather(steps_ == 0 ? 0 : std::llround(1e12 * *middle));
  if (std::ranges::min(all) <= 0) return {};
  return {all.begin(), all.end()};
}

ShareBalance::ShareBalance(const Communicator& comm, Trainer& trainer, std::int64_t batch)
    : comm_(comm),
      trainer_(trainer),
      partition_(trainer.partition()),
      total_(partition_.separate ? partition_.ranks * partition_.shards : batch) {
  if (!partition_.rank_shares.empty()) return;
  for (int rank = 0; rank < comm.size(); ++rank)
    partition_.rank_shares.push_back(share_of(total_, rank, comm.size()).count);
}

std::optional<std::vector<std::int64_t>> ShareBalance::step_done(const Trainer::ExposedSeconds& exposed) {
  const double before = std::exchange(pass_seconds_, trainer_.clock().pass_seconds());
  // Passes wait for statistics only: gradients are summed after them, or at the same time.
  const double seconds = pass_seconds_ - before - exposed.statistics.value_or(0);
  const std::int64_t examples = trainer_.own_examples();
  if (examples > 0) times_.add(seconds / static_cast<double>(examples));
  return trainer_.steps() % comparison_period == 0 ? compare() : std::nullopt;
}

std::optional<std::vector<std::int64_t>> ShareBalance::compare() const {
  const std::vector<double> times = times_.medians(comm_);
  if (total_ < comm_.size() || times.empty()) return std::nullopt;
  const std::int64_t most = partition_.share_limit * share_of(total_, 0, comm_.size()).count;
  std::vector<std::int64_t> next = shares_by_speed(times, total_, 1, std::min(total_, most));
  if (!is_worth_changing(times, partition_.rank_shares, next)) return std::nullopt;
  return next;
}

BatchFeed::BatchFeed(const PreparedRun& prepared, DataPosition& state)
    : prepared_(prepared), trainer_(prepared.trainer()), state_(state) {
  if (prepared.config.parallel.measures_shares() && prepared.comm.size() > 1)
    shares_.emplace(prepared.comm, trainer_, prepared.largest_batch());
  prepared.comm.run_collectively(
      [&] { with_positions(prepared.config.source, [&] { prepare(trainer_.partition()); }); });
}

/// Returns the sizes of this rank's micro-batches, also in the ragged last batch of an epoch and of an evaluation, so
/// that all are prepared before the first step.
std::vector<std::int64_t> BatchFeed::sizes(const BatchPartition& partition) const {
  const Communicator& comm = prepared_.comm;
  const RunTrainer& run_trainer = *prepared_.run_trainer;
  const std::int64_t size = prepared_.examples();
  std::vector<std::int64_t> sizes;
  for (const RunLength::Stage& stage : prepared_.config.batch.stages()) {
    const std::int64_t global = std::min(stage.batch, size);
    for (const std::int64_t examples : {global, prepared_.config.data.drop_last ? 0 : size % global})
      for (const MicroBatch& micro_batch :
           micro_batches_of(partition, run_trainer.part_of(examples).count, trainer_.ranks().rank()))
        sizes.push_back(micro_batch.count);
  }
  for (const Dataset* split : {prepared_.data.validation.get(), prepared_.data.test.get()}) {
    if (!split) continue;
    const std::int64_t all = split->size(), round = comm.all_reduce_min(trainer_.max_micro_batch()) * comm.size();
    for (const std::int64_t examples : {std::min(all, round), all % round})
      sizes.push_back(share_of(examples, comm.rank(), comm.size()).count);
  }
  return sizes;
}

void BatchFeed::prepare(const BatchPartition& partition) {
  for (const std::int64_t n : sizes(partition)) {
    if (n > 0) trainer_.model().prepare(n);
    heartbeat().beat();
  }
}

void BatchFeed::begin() {
  const RunConfig& config = prepared_.config;
  // Seeds of decks are below 2⁵³, so each rollback gives a new seed.
  const auto order_seed = static_cast<std::uint64_t>(config.run.seed) +
                          (static_cast<std::uint64_t>(state_.rollbacks) << 53);
  std::optional<Sampler::Options::Turn> interleaved;
  if (config.data.sampler == DataConfig::SamplerKind::distributed_sampler)
    interleaved = {prepared_.comm.rank(), prepared_.comm.size()};
  const std::int64_t ignored = config.loss.make()->ignored_class();
  const Sampling sampling = with_positions(config.source, [&] {
    return sampling_of(config.data, *prepared_.data.train, prepared_.comm.size(), order_seed, ignored);
  });
  const BatchDealing dealing = prepared_.run_trainer->dealing();
  const Sampler sampler({.dataset_size = prepared_.examples(),
                         .global_batch = prepared_.largest_batch(),
                         .batch_at = [length = prepared_.length()](
                                         const SamplerPosition& at) { return length.batch_at(at.epoch, at.next); },
                         .drop_last = config.data.drop_last,
                         .sampling = sampling,
                         .repeats = draws_again(config.data.sampler),
                         .interleaved = interleaved,
                         .rank = trainer_.ranks().rank(),
                         .partition = partition(),
                         .part_of = dealing.part_of,
                         .parts_of_batch = dealing.parts_of_batch,
                         .batches = trainer_.steps(),
                         .parts_of = dealing.parts_of},
                        state_.position);
  const std::int64_t largest = prepared_.run_trainer->part_of(prepared_.largest_batch()).count;
  loader_ = std::make_unique<DataLoader>(*prepared_.data.train, sampler, trainer_.partition().room(largest),
                                         config.data.augment, static_cast<std::uint64_t>(config.run.seed),
                                         dealing.on_demand ? DataLoader::on_demand : DataLoader::ahead);
}

const HostBatch& BatchFeed::next() {
  const PhaseClock::Scope phase(trainer_.clock(), RunPhase::data);
  const HostBatch& batch = *loader_->next();
  next_ = batch.plan.after;
  return batch;
}

const HostBatch& BatchFeed::part(std::int64_t number) {
  const PhaseClock::Scope phase(trainer_.clock(), RunPhase::data);
  return loader_->part(number);
}

void BatchFeed::balance(const Trainer::ExposedSeconds& exposed) {
  if (!shares_) return;
  if (const auto shares = shares_->step_done(exposed)) set_shares(*shares);
}

void BatchFeed::set_shares(const std::vector<std::int64_t>& shares) {
  shares_->set(shares);
  const BatchPartition& partition = shares_->partition();
  prepared_.comm.run_collectively([&] {
    ExecSpace().fence("lockstep::set_shares");  // kernels under way still use the memory that layers prepare anew
    prepare(partition);
  });
  loader_->set_shares(partition.rank_shares);
  log("shares       by speed: {} to {} {} per rank in the next steps", std::ranges::min(partition.rank_shares),
      std::ranges::max(partition.rank_shares), partition.separate ? "shards" : "examples");
}

}  // namespace lockstep
