// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/asynchronous/ordered_store.hpp"

#include <cstring>
#include <type_traits>

#include "base/text.hpp"
#include "base/text_file.hpp"
#include "comm/collective/make_all_reduce.hpp"
#include "parallel/asynchronous/push_order.hpp"

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

WorkerGroup::WorkerGroup(const Communicator& all, const Topology& group, const ParameterBuffer& parameters)
    : ranks_(group.all),
      count_(all.size() / group.all.size()),
      first_(static_cast<int>(group.all.from_root(all.rank()))),
      trained_(parameters.trained_size()) {
  if (size() == 1) return;
  sum_.emplace(ranks_, ParallelConfig::in_fixed_tree(size()), parameters.gradients());
  gather_ = make_all_gather({}, group, std::nullopt, {parameters.dtype(), parameters.values().data});
}

ElementRange WorkerGroup::fraction() const { return slice_of_rank(trained_, ranks_.rank(), size()); }

void WorkerGroup::piece_done(const ExecSpace& space) {
  if (sum_) sum_->gradient_sum_done(space);
}

void WorkerGroup::sum(const ExecSpace& space, const std::function<void()>& meanwhile) {
  if (sum_) sum_->finish(space, meanwhile);
}

void WorkerGroup::gather() {
  if (gather_) gather_->start(0, trained_);
}

OrderedStore::OrderedStore(const ParallelConfig& config, const FreeRules& rules, const Communicator& ranks,
                           const WorkerGroup& group, const std::string& record, std::int64_t part_examples,
                           ParameterBuffer& parameters)
    : config_(config.asynchronous),
      rules_(rules),
      ranks_(ranks),
      members_(group.size()),
      worker_(group.number() - (group.count() - rules.workers)),  // servers come before the first one
      part_examples_(part_examples),
      store_(config, rules, ranks.split(group.ranks().rank()), parameters, group.fraction(), part_examples),
      mailbox_(ranks),
      order_(rules) {
  config_.collect = rules.collect;
  config_.record = record;
}

void OrderedStore::go_on_after(std::int64_t updates) {
  if (!ranks_.is_root() || config_.record.empty()) return;
  if (updates > 0) take_up_record(updates);
  // Opened now, so that a file that cannot be made ends the run before it has done anything.
  refuse_other_file(config_.record);
  record_.emplace(config_.record,
                  PushOrder::head(rules_.workers, members_, rules_.steps.every, rules_.collect, rules_.parts_of_batch) +
                      new_lines());
}

void OrderedStore::take_up_record(std::int64_t updates) {
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
  validate(done.workers() == rules_.workers && done.members() == members_ && done.has_parts(), ExitStatus::bad_data,
           "{}: is the record of {} workers of {}, not of {} ranks that run freely in {} groups (the run "
           "continues from step {}); continue with the same ranks and groups, or begin a new run with another record",
           config_.record, done.workers(), counted(done.members(), "rank"), ranks_.size(), rules_.workers,
           rules_.steps.after(updates));
  order_.go_on_after(done, updates);
}

/// Sends an event from rank 0 to all ranks, which get all events in one order.
void OrderedStore::tell(StoreEvent event) {
  if (event.is_update != 0) {
    event.scalars = updater_->coefficients(told_version_, std::nullopt);
    ++told_version_;
    event.scalars.gradient_scale = 1 / static_cast<double>(rules_.collect * part_examples_);
  }
  for (int rank = 0; rank < ranks_.size(); ++rank) mailbox_.send(letter_of(event), rank);
}

void OrderedStore::take(const StoreEvent& event) {
  if (event.kind == StoreEvent::Kind::push) steps_ += rules_.steps.of(event.part / rules_.parts_of_batch);
  if (event.kind != StoreEvent::Kind::given) return store_.add(event);
  order_.take(event.worker, [this](const StoreEvent& next) { tell(next); });
}

bool OrderedStore::advance(const ExecSpace& space) {
  if (!is_under_way_) return false;
  bool advances = false;
  while (const std::optional<Mailbox::Letter> letter = mailbox_.take()) {
    take(event_of(letter->text));
    advances = true;
  }
  return store_.advance(space, updater_->optimizer) || advances;
}

void OrderedStore::set_out(std::int64_t version, std::int64_t sync) {
  is_under_way_ = true;
  steps_ = 0;
  if (!ranks_.is_root()) return;
  told_version_ = version;
  order_.begin(version, sync, [this](const StoreEvent& event) { tell(event); });
}

StoreEvent OrderedStore::next_turn(const ExecSpace& space) {
  std::optional<StoreEvent> turn;
  serve_until(space, [&] { return (turn = store_.take_turn()).has_value(); });
  return *turn;
}

void OrderedStore::end_course() {
  mailbox_.wait_until_sent();
  is_under_way_ = false;
}

/// The first rank of a group tells rank 0 for all its ranks: once it has the sum of a step, the others are about to
/// give theirs.
void OrderedStore::give(const ExecSpace& space, bool tells) {
  store_.give(space);
  if (tells) mailbox_.send(letter_of({.kind = StoreEvent::Kind::given, .worker = worker_}), 0);
  advance(space);
}

/// Returns lines of the record for what was decided since the last call.
std::string OrderedStore::new_lines() {
  std::string text;
  for (const FreeOrder::Entry& entry : order_.take_entries()) text += PushOrder::line(entry.push, entry.part);
  return text;
}

/// Called before anything goes on that a checkpoint would know of.
void OrderedStore::write_record() {
  if (record_) record_->append(new_lines());
}

}  // namespace lockstep
