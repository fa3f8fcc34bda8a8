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
                           WorkersCourse course, ParameterBuffer& parameters)
    : config_(config.asynchronous),
      rules_(free_rules(config, ranks.size(), course.last)),
      steps_(rules_.steps),
      ranks_(ranks),
      group_(ranks, group, parameters),
      course_(std::move(course)),
      parameters_(parameters),
      store_(config, rules_, ranks.split(group.all.rank()), parameters, group_.fraction(), part_examples()),
      mailbox_(ranks),
      order_(rules_),
      square_("lockstep::free_parallel::square", DType::f64, {1}) {
  config_.collect = rules_.collect;
  if (config.backup.present) config_.record = config.backup.record;
  if (config.has_stepping_workers())
    own_.emplace(Own{WorkerSteps(steps_, rules_.parts, parameters), OwnSteps(group_.ranks()),
                     GradientSquare(parameters.trained_size())});
}

/// A record holds the whole run: what there is of it, the run goes on with.
void FreeParallel::go_on_behind(std::int64_t steps, std::int64_t optimizer_steps) {
  optimizer_steps_ = optimizer_steps;
  version_ = steps_.updates_before(steps);
  if (!ranks_.is_root() || config_.record.empty() || steps == 0) return;
  const std::string text = read_text_file(config_.record);
  const PushOrder done = PushOrder::parse(text, config_.record, config_, version_, {steps_.every, rules_.by_speed});
  validate(done.workers() == rules_.workers && done.members() == group_.size() && done.has_parts() &&
               done.parts_of_batch() == rules_.parts,
           ExitStatus::bad_data,
           "{}: is the record of {} workers of {} rank{}, and not of these {} ranks in {} groups as they come, and the "
           "run goes on from step {}; go on with as many, or record to another file from the beginning",
           config_.record, done.workers(), done.members(), done.members() == 1 ? "" : "s", ranks_.size(),
           rules_.workers, steps);
  order_.go_on_behind(done, version_);
}

void FreeParallel::update_by(Optimizer& optimizer, Coefficients coefficients) {
  optimizer_ = &optimizer;
  coefficients_ = std::move(coefficients);
}

void FreeParallel::share(const ExecSpace& space, Optimizer& optimizer) {
  ranks_.broadcast(space, parameters_.values());
  parameters_.round(space);
  store_.adopt(space, version_);
  if (!own_) return;
  share_states(space, group_.ranks(), optimizer);
  own_->count.begin(space, group_.ranks(), optimizer_steps_);
}

std::vector<HeldNumbers> FreeParallel::held_numbers(const Optimizer& optimizer) const {
  std::vector<HeldNumbers> all = owned_numbers(parameters_, optimizer, ranks_.is_root(), true);
  if (!own_) return all;
  all.erase(all.begin() + 1, all.end());
  for (int worker = 0; worker < rules_.workers; ++worker)
    add_numbers_of_worker(optimizer.states(), worker == number() && group_.ranks().is_root() ? &own_->count : nullptr,
                          {worker, rules_.workers}, all);
  store_.add_held_numbers(all);
  return all;
}

/// Of rank 0: to all ranks, in one order.
void FreeParallel::tell(StoreEvent event) {
  if (event.is_update != 0) {
    event.scalars = coefficients_(store_version_, std::nullopt);
    ++store_version_;
    event.scalars.gradient_scale = 1 / static_cast<double>(update_examples());
  }
  for (int rank = 0; rank < ranks_.size(); ++rank) mailbox_.send(letter_of(event), rank);
}

void FreeParallel::take(const StoreEvent& event) {
  if (event.kind == StoreEvent::Kind::push) examples_ += event.steps * part_examples();
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
  examples_ = 0;
  if (!ranks_.is_root()) return;
  store_version_ = version_;
  order_.begin(version_, steps_.next_meeting(version_ + 1, course_.meets),
               [this](const StoreEvent& event) { tell(event); });
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
  if (own_ && own_->steps.under_way()) return request(own_->steps.part());
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
  if (!meets_) {
    if (own_) own_->steps.begin(space, turn->part, turn->steps);
    return request(own_ ? own_->steps.part() : turn->part);
  }
  mailbox_.wait_until_sent();
  is_under_way_ = false;
  factor_ = own_ ? static_cast<double>(examples_) / static_cast<double>(rules_.collect)
                 : static_cast<double>(store_.version() - version_);
  return {.batches = steps_.behind(store_.version()), .examples = examples_};
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
  return {.examples = batch.global_examples, .one_version = false, .updates = steps_since(), .losses = losses};
}

void FreeParallel::shard_done(const ExecSpace& space) {
  if (!meets_) group_.piece_done(space);
}

void FreeParallel::finish_gradients(const ExecSpace& space, const std::function<void()>& meanwhile) {
  meanwhile();
  if (meets_) return;
  group_.sum(space, [&] {
    meanwhile();
    advance(space);
  });
  if (!own_) give(space);
}

/// The first of a group tells of all: once it has the sum of a step the others are about to give theirs.
void FreeParallel::give(const ExecSpace& space) {
  store_.give(space);
  if (group_.ranks().is_root()) mailbox_.send(letter_of({.kind = StoreEvent::Kind::given, .worker = number()}), 0);
  advance(space);
}

void FreeParallel::update(const ExecSpace& space, Optimizer& optimizer, const StepScalars* step, double) {
  if (own_ && !meets_) own_->steps.update(space, optimizer, coefficients_, *step, own_->count);
}

bool FreeParallel::end_step(const ExecSpace& space, Optimizer&, double, const std::function<void()>&) {
  if (!meets_) {
    if (own_ && own_->steps.end_step()) {
      own_->steps.take_difference(space);
      give(space);
    }
    return false;
  }
  version_ = store_.version();
  write_record();
  return false;
}

/// Before anything goes on from here that a checkpoint would know of.
void FreeParallel::write_record() {
  if (config_.record.empty() || !ranks_.is_root()) return;
  std::string text;
  for (const FreeOrder::Entry& entry : order_.take_entries()) text += PushOrder::line(entry.push, entry.part);
  if (!std::exchange(has_file_, true))
    return replace_text_file(
        config_.record,
        PushOrder::head(rules_.workers, group_.size(), {steps_.every, rules_.by_speed}, rules_.collect, rules_.parts) +
            text);
  std::ofstream file(config_.record, std::ios::app);
  file << text << std::flush;
  validate(file.good(), ExitStatus::io_error, "{}: cannot be written to; see to room on its disk", config_.record);
}

/// As the norm of the mean gradient, or difference, of the last update is asked for: behind a meeting gradients count
/// as sums over all examples since the one before.
Tensor FreeParallel::gradient_square(const ExecSpace& space) {
  if (own_ && !meets_) return own_->square.compute(space, parameters_.gradients({0, parameters_.trained_size()}));
  std::array<double, 1> square{store_.square(space) * factor_ * factor_};
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
