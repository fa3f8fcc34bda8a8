// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/asynchronous/free_parallel.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <type_traits>
#include <utility>

#include "base/heartbeat.hpp"
#include "base/timer.hpp"
#include "comm/spin_backoff.hpp"
#include "io/replace_file.hpp"

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

FreeParallel::FreeParallel(const ParallelConfig& config, const Communicator& ranks, const Topology& group,
                           Course course, ParameterBuffer& parameters)
    : config_(config.asynchronous),
      rules_(free_rules(config, ranks.size())),
      ranks_(ranks),
      group_(ranks, group, parameters),
      course_(std::move(course)),
      parameters_(parameters),
      store_(config_, rules_, ranks.split(group.all.rank()), parameters, group_.fraction(), part_examples()),
      mailbox_(ranks),
      order_(rules_),
      square_("lockstep::free_parallel::square", DType::f64, {1}) {
  config_.collect = rules_.collect;
  if (config.backup.present) config_.record = config.backup.record;
}

/// A record holds the whole run: what there is of it, the run goes on with.
void FreeParallel::go_on_behind(std::int64_t steps) {
  version_ = steps;
  if (!ranks_.is_root() || config_.record.empty() || steps == 0) return;
  const std::string text = read_text_file(config_.record);
  const PushOrder done = PushOrder::parse(text, config_.record, config_, steps);
  validate(done.workers() == rules_.workers && done.members() == group_.size() && done.has_parts() &&
               done.parts_of_batch() == rules_.parts,
           ExitStatus::bad_data,
           "{}: is the record of {} workers of {} rank{}, and not of these {} ranks in {} groups as they come, and the "
           "run goes on from step {}; go on with as many, or record to another file from the beginning",
           config_.record, done.workers(), done.members(), done.members() == 1 ? "" : "s", ranks_.size(),
           rules_.workers, steps);
  order_.go_on_behind(done, steps);
}

void FreeParallel::update_by(Optimizer& optimizer, Coefficients coefficients) {
  optimizer_ = &optimizer;
  coefficients_ = std::move(coefficients);
}

void FreeParallel::share(const ExecSpace& space, Optimizer&) {
  ranks_.broadcast(space, parameters_.values());
  parameters_.round(space);
  store_.adopt(space, version_);
}

/// Of rank 0: to all ranks, in one order.
void FreeParallel::tell(StoreEvent event) {
  if (event.is_update != 0) {
    event.scalars = coefficients_(store_version_++);
    event.scalars.gradient_scale = 1 / static_cast<double>(update_examples());
  }
  for (int rank = 0; rank < ranks_.size(); ++rank) mailbox_.send(letter_of(event), rank);
}

void FreeParallel::take(const StoreEvent& event) {
  if (event.kind != StoreEvent::Kind::given) return store_.add(event);
  order_.take(event.worker, [this](const StoreEvent& next) { tell(next); });
}

bool FreeParallel::advance(const ExecSpace& space) {
  if (!is_under_way_) return false;
  bool advances = false;
  while (const std::optional<Mailbox::Letter> letter = mailbox_.take()) {
    take(event_of(letter->text));
    advances = true;
  }
  return store_.advance(space, *optimizer_) || advances;
}

void FreeParallel::begin() {
  is_under_way_ = true;
  is_first_ = true;
  if (!ranks_.is_root()) return;
  std::int64_t meeting = version_ + 1;
  while (meeting < course_.last && !course_.meets(meeting)) ++meeting;
  store_version_ = version_;
  order_.begin(version_, meeting, [this](const StoreEvent& event) { tell(event); });
}

template <class Done>
void FreeParallel::serve_until(const ExecSpace& space, const Done& done) {
  SpinBackoff backoff;
  while (!done()) {
    if (advance(space)) {
      backoff.reset();
      heartbeat().beat();  // a server may have something to do all the time
    } else {
      backoff.pause();
    }
  }
}

PartRequest FreeParallel::next_part(const ExecSpace& space) {
  if (!is_under_way_) begin();
  const Timer timer;
  std::optional<StoreEvent> turn;
  serve_until(space, [&] { return (turn = store_.take_turn()).has_value(); });
  store_.hold_updates(true);
  group_.gather();
  serve_until(space, [&] { return group_.gathered(); });
  store_.hold_updates(false);
  exposed_seconds_ += timer.seconds();
  parameters_.round(space);
  meets_ = turn->kind == StoreEvent::Kind::meet;
  if (!meets_) return {.part = turn->part * group_.size() + group_.ranks().rank()};
  mailbox_.wait_until_sent();
  is_under_way_ = false;
  return {.batches = store_.version(), .examples = (store_.version() - version_) * update_examples()};
}

StepRanks FreeParallel::begin_step(const ExecSpace&, std::int64_t, const BatchPlan& batch,
                                   const std::function<void()>&) {
  using Losses = StepRanks::Losses;
  const Losses losses = std::exchange(is_first_, false) ? Losses::anew
                        : store_.has_dropped()          ? Losses::in_place_of_last
                                                        : Losses::added;
  if (!meets_)
    return {.examples = batch.global_examples * group_.size(),
            .group = &group_.ranks(),
            .numbers = group_.numbers(),
            .meets = false,
            .updates = 0,
            .losses = losses};
  return {.examples = batch.global_examples,
          .one_version = false,
          .updates = store_.version() - version_,
          .losses = losses};
}

void FreeParallel::shard_done(const ExecSpace& space) {
  if (!meets_) group_.piece_done(space);
}

/// The first of a group tells of all: once it has their sum the others are about to give theirs.
void FreeParallel::finish_gradients(const ExecSpace& space, const std::function<void()>& meanwhile) {
  meanwhile();
  if (meets_) return;
  group_.sum(space, [&] {
    meanwhile();
    advance(space);
  });
  store_.give(space);
  if (group_.ranks().is_root()) mailbox_.send(letter_of({.kind = StoreEvent::Kind::given, .worker = number()}), 0);
  advance(space);
}

bool FreeParallel::end_step(const ExecSpace&, Optimizer&, double, const std::function<void()>&) {
  if (!meets_) return false;
  updates_ = store_.version() - std::exchange(version_, store_.version());
  write_record();
  return false;
}

/// Before anything goes on from here that a checkpoint would know of.
void FreeParallel::write_record() {
  if (config_.record.empty() || !ranks_.is_root()) return;
  std::string text;
  for (const FreeOrder::Entry& entry : order_.take_entries())
    fmt::format_to(std::back_inserter(text), "{} {} {}\n", entry.push.worker, entry.push.version, entry.part);
  if (!std::exchange(has_file_, true))
    return replace_text_file(config_.record,
                             PushOrder::head(rules_.workers, group_.size(), rules_.collect, rules_.parts) + text);
  std::ofstream file(config_.record, std::ios::app);
  file << text << std::flush;
  validate(file.good(), ExitStatus::io_error, "{}: cannot be written to; see to room on its disk", config_.record);
}

/// As the norm of the mean gradient of the last update is asked for: behind a meeting gradients count as sums over all
/// examples since the one before.
Tensor FreeParallel::gradient_square(const ExecSpace& space) {
  std::array<double, 1> square{store_.square(space) * static_cast<double>(updates_ * updates_)};
  ranks_.all_reduce_sum(square);
  copy_from_host(space, square.data(), square_.get());
  return square_.get();
}

/// Of scaled losses, which are refused.
Tensor FreeParallel::nonfinite_gradients(const ExecSpace& space) {
  fill_zero(space, square_.get());
  return square_.get();
}

}  // namespace lockstep
