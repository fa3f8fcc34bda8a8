// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/asynchronous/free_exchange.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <type_traits>

#include "base/duration.hpp"
#include "base/text.hpp"
#include "base/text_file.hpp"
#include "comm/collective/make_all_reduce.hpp"

namespace lockstep {
namespace {

static_assert(std::is_trivially_copyable_v<StoreEvent>);

std::string letter_of(const StoreEvent& event) { return {reinterpret_cast<const char*>(&event), sizeof event}; }

StoreEvent event_of(const std::string& letter) {
  StoreEvent event;
  std::memcpy(&event, letter.data(), sizeof event);
  return event;
}

}  // namespace

WorkerPlace::WorkerPlace(const Communicator& all, const Topology& own, int workers)
    : ranks(own),
      number(static_cast<int>(own.all.from_root(all.rank())) / own.all.size()),
      count(all.size() / own.all.size()),
      servers(count - workers) {}

ElementRange WorkerPlace::fraction(const ParameterBuffer& parameters) const {
  return slice_of_rank(parameters.trained_size(), ranks.all.rank(), members());
}

FreeExchange::FreeExchange(const ParallelConfig& config, const FreeRules& rules, const Communicator& ranks,
                           const WorkerPlace& place, std::int64_t part_examples, ParameterBuffer& parameters,
                           Optimizer& optimizer, Scalars scalars)
    : config_(config.asynchronous),
      rules_(rules),
      ranks_(ranks),
      place_(place),
      part_examples_(part_examples),
      parameters_(parameters),
      store_(config, rules, ranks.split(place.ranks.all.rank()), parameters, place.fraction(parameters), part_examples),
      mailbox_(ranks),
      order_(rules),
      optimizer_(optimizer),
      scalars_(std::move(scalars)) {
  config_.collect = rules.collect;
  config_.record = config.record();
  if (place.members() > 1)
    gather_ = make_all_gather({}, place.ranks, std::nullopt, {parameters.dtype(), parameters.values().data});
  if (config.has_stepping_workers()) noted_steps_.emplace();
}

void FreeExchange::begin(const ExecSpace& space, std::int64_t version, std::int64_t optimizer_steps) {
  ranks_.run_on_root([&] { open_record(version); });
  store_.adopt(space, version);
  if (noted_steps_) optimizer_steps_ = noted_steps_->restored(space, place_.ranks.all).value_or(optimizer_steps);
}

void FreeExchange::open_record(std::int64_t updates) {
  if (config_.record.empty()) return;
  if (updates > 0) resume_record(updates);
  // Opened now, so that a file that cannot be made ends the run before it has done anything.
  refuse_other_file(config_.record);
  record_.emplace(config_.record, PushOrder::head(rules_.workers, place_.members(), rules_.steps.every, rules_.collect,
                                                  rules_.parts_of_batch) +
                                      new_lines());
}

void FreeExchange::resume_record(std::int64_t updates) {
  const PushOrder done = [&] {
    try {
      return PushOrder::parse(read_text_file(config_.record), config_.record, config_, updates, rules_.steps.every);
    } catch (const Error& error) {
      throw Error(
          error.status(),
          fmt::format("{} (the run goes on from step {}, and needs the record of the steps before it: bring that "
                      "file back, or go on without a record)",
                      error.what(), rules_.steps.after(updates)));
    }
  }();
  validate(
      !done.has_parts() || done.parts_of_batch() == rules_.parts_of_batch, ExitStatus::bad_data,
      "{}: batches are divided into {} parts in the record, but into {} here; continue with the parallel.backup or "
      "parallel.asynchronous that the run began with, or begin a new run with another record",
      config_.record, done.parts_of_batch(), rules_.parts_of_batch);
  validate(done.workers() == rules_.workers && done.members() == place_.members() && done.has_parts(),
           ExitStatus::bad_data,
           "{}: is the record of {} workers of {}, not of {} ranks that run freely in {} groups (the run "
           "continues from step {}); continue with the same ranks and groups, or begin a new run with another record",
           config_.record, done.workers(), counted(done.members(), "rank"), ranks_.size(), rules_.workers,
           rules_.steps.after(updates));
  order_.resume_after(done, updates);
}

/// Sends an event from rank 0 to all ranks, which get all events in one order.
void FreeExchange::tell(StoreEvent event) {
  if (event.is_update != 0) {
    event.scalars = scalars_(told_version_);
    ++told_version_;
    event.scalars.gradient_scale = 1 / static_cast<double>(rules_.collect * part_examples_);
  }
  for (int rank = 0; rank < ranks_.size(); ++rank) mailbox_.send(letter_of(event), rank);
}

void FreeExchange::take(const StoreEvent& event) {
  if (event.kind == StoreEvent::Kind::push) steps_ += rules_.steps.of(event.part / rules_.parts_of_batch);
  if (event.kind != StoreEvent::Kind::arrived) return store_.add(event);
  order_.take(event.worker, [this](const StoreEvent& next) { tell(next); });
}

bool FreeExchange::makes_progress(const ExecSpace& space) {
  if (!is_under_way_) return false;
  bool advances = false;
  while (const std::optional<Mailbox::Letter> letter = mailbox_.take()) {
    take(event_of(letter->text));
    advances = true;
  }
  return store_.advance(space, optimizer_) || advances;
}

void FreeExchange::run_until(std::int64_t sync) {
  is_under_way_ = true;
  steps_ = 0;
  if (!ranks_.is_root()) return;
  told_version_ = store_.version();
  order_.begin(told_version_, sync, [this](const StoreEvent& event) { tell(event); });
}

WorkerTurn FreeExchange::next_turn(const ExecSpace& space) {
  const Timer timer;
  std::optional<StoreEvent> turn;
  serve_until(space, [&] { return (turn = store_.take_turn()).has_value(); });
  if (gather_) {  // until all have all values, the buffer must stay as it is
    gather_->start(0, parameters_.trained_size());
    store_.hold_updates(true);
    serve_until(space, [&] { return gather_->advance(); });
    store_.hold_updates(false);
  }
  exposed_seconds_ += timer.seconds();
  parameters_.round(space);
  if (turn->kind != StoreEvent::Kind::sync) return {.part = turn->part};
  mailbox_.wait_until_sent();
  is_under_way_ = false;
  return {.version = store_.version(), .examples = steps_ * part_examples_};
}

/// Only the first rank of a worker reports to rank 0: when it has the sum of a step, the other ranks will push theirs
/// without waiting for other workers.
void FreeExchange::push(const ExecSpace& space) {
  store_.give(space);
  if (place_.ranks.all.is_root())
    mailbox_.send(letter_of({.kind = StoreEvent::Kind::arrived, .worker = place_.worker()}), 0);
  advance(space);
}

double FreeExchange::end_sync(const ExecSpace& space) {
  if (record_) record_->append(new_lines());  // before anything goes on that a checkpoint would know of
  if (noted_steps_) noted_steps_->note(space, optimizer_steps_);
  std::array<double, 1> square{store_.square(space)};
  ranks_.all_reduce_sum(square);
  return square[0];
}

/// Returns lines of the record for what was decided since the last call.
std::string FreeExchange::new_lines() {
  std::string text;
  for (const FreeOrder::Entry& entry : order_.take_entries()) text += PushOrder::line(entry.push, entry.part);
  return text;
}

std::vector<ShardedState> FreeExchange::sharded_states() const {
  if (!noted_steps_) return owned_states(parameters_, optimizer_, ranks_.is_root(), true);
  std::vector<ShardedState> all{replicated_parameters(parameters_, ranks_.is_root())};
  for (int worker = 0; worker < rules_.workers; ++worker)
    noted_steps_->add_with_states(all, optimizer_.states(), worker == place_.worker() && place_.ranks.all.is_root(),
                                  {worker, rules_.workers});
  store_.add_sharded_states(all);
  return all;
}

}  // namespace lockstep
