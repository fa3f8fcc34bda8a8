// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/asynchronous/push_order.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <filesystem>
#include <limits>
#include <queue>
#include <sstream>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "base/text_file.hpp"
#include "config/deck.hpp"
#include "core/random.hpp"
#include "io/output_file.hpp"

namespace lockstep {
namespace {

std::string first_line(bool has_parts) {
  return fmt::format("{} 1: worker, version that it has read{}; in the order of application", PushOrder::mark,
                     has_parts ? ", part of the batches" : "");
}

/// Simulates the workers' course.
class Simulation {
 public:
  using Push = PushOrder::Push;

  Simulation(const AsynchronousConfig& config, std::uint64_t seed)
      : config_(config), seed_(seed), workers_(static_cast<std::size_t>(config.simulation.ranks)) {
    for (std::size_t i = 0; i < workers_.size(); ++i) begin(i, 0);
  }

  Push next() {
    const auto [time, i] = under_way_.top();
    under_way_.pop();
    Worker& worker = workers_[i];
    const Push push{static_cast<std::int32_t>(i), worker.version};
    ++worker.given;
    worker.waits = true;
    if (++given_ % config_.collect == 0) ++version_;
    std::int64_t least = worker.given;
    for (const Worker& each : workers_) least = std::min(least, each.given);
    for (std::size_t k = 0; k < workers_.size(); ++k)
      if (workers_[k].waits && (!config_.bound || workers_[k].given - least <= *config_.bound)) begin(k, time);
    return push;
  }

 private:
  struct Worker {
    std::int64_t given = 0, version = 0;
    bool waits = false;
  };

  double delay_of(std::size_t i) const { return config_.simulation.delays[i % config_.simulation.delays.size()]; }

  void begin(std::size_t i, std::int64_t time) {
    constexpr double ticks = 1e6;  // of a delay of 1; whole numbers compare alike everywhere
    Worker& worker = workers_[i];
    worker.waits = false;
    worker.version = version_;
    const AsynchronousConfig::Simulation& simulated = config_.simulation;
    const double uniform =
        RandomStream(seed_, RandomPurpose::delays, i).uniform(static_cast<std::uint64_t>(worker.given));
    const double delay = delay_of(i) * (1 + simulated.spread * (2 * uniform - 1));
    under_way_.emplace(time + std::max<std::int64_t>(1, std::llround(ticks * delay)), i);
  }

  const AsynchronousConfig& config_;
  std::uint64_t seed_;
  std::vector<Worker> workers_;
  using Event = std::pair<std::int64_t, std::size_t>;  ///< when a worker has its gradient; which worker
  std::priority_queue<Event, std::vector<Event>, std::greater<>> under_way_;
  std::int64_t given_ = 0, version_ = 0;
};

}  // namespace

std::int64_t UpdateSteps::updates_before(std::int64_t steps) const {
  validate_key(steps % every == 0 || steps >= last, "parallel.local.every",
               "the checkpoint is of step {}, but workers hand in their changes every {} steps, at multiples of {}; "
               "give a divisor of {}, or continue from another checkpoint",
               steps, every, every, steps);
  return (steps + every - 1) / every;
}

std::int64_t UpdateSteps::next_sync(std::int64_t update, const std::function<bool(std::int64_t)>& syncs) const {
  for (; update < updates(); ++update)
    for (std::int64_t step = after(update - 1) + 1; step <= after(update); ++step)
      if (syncs(step)) return update;
  return update;
}

PushOrder::PushOrder(int workers, std::int64_t collect, std::optional<std::int64_t> bound, std::vector<Push> pushes,
                     std::vector<Push> after, std::vector<std::int64_t> parts, std::int64_t steps_of_round)
    : workers_(workers),
      collect_(collect),
      parts_of_batch_(collect),
      pushes_(std::move(pushes)),
      after_(std::move(after)),
      parts_(std::move(parts)),
      steps_of_round_(steps_of_round) {
  std::vector<std::int64_t> given(static_cast<std::size_t>(workers)), read(given);
  for (std::size_t i = 0; i < pushes_.size() + after_.size(); ++i) {
    const auto& [worker, version] = i < pushes_.size() ? pushes_[i] : after_[i - pushes_.size()];
    const std::int64_t update = static_cast<std::int64_t>(i) / collect + 1;
    const auto refuse = [&](const std::string& what) {
      throw Error(ExitStatus::bad_data, fmt::format("push {} of the record of asynchronous training is {} {}: {}; "
                                                    "give a record that lockstep has written with the same settings",
                                                    i + 1, worker, version, what));
    };
    if (worker < 0 || worker >= workers) refuse(fmt::format("there are {} workers", workers));
    const auto w = static_cast<std::size_t>(worker);
    if (version < 0 || version >= update)
      refuse(fmt::format("its version must be at least 0, and less than its update, {}", update));
    if (version < read[w])
      refuse(fmt::format("the worker's previous gradient was part of update {}, and it has read a newer version since",
                         read[w] + 1));
    read[w] = update - 1;
    const std::int64_t ahead = given[w] - *std::ranges::min_element(given);
    if (bound && ahead > *bound)
      refuse(fmt::format("the worker is {} gradients ahead, more than parallel.asynchronous.bound allows", ahead));
    ++given[w];
  }
  plan_copies();
}

void PushOrder::plan_copies() {
  std::vector<std::int64_t> last(static_cast<std::size_t>(workers_), 0);  // update of the worker's last push; 0: none
  const auto plan = [&](const Push& push, std::int64_t update) {
    const std::int64_t before = std::exchange(last[static_cast<std::size_t>(push.worker)], update);
    if (push.version == update - 1) return;  // the newest version then, of which no copy is needed
    copies_.push_back({push.version, before == push.version + 1, push.worker});
  };
  for (std::size_t i = 0; i < pushes_.size(); ++i) plan(pushes_[i], static_cast<std::int64_t>(i) / collect_ + 1);
  for (std::size_t i = 0; i < after_.size(); ++i)
    plan(after_[i], static_cast<std::int64_t>(pushes_.size() + i) / collect_ + 1);
  std::ranges::sort(copies_);
}

std::span<const PushOrder::Push> PushOrder::of_update(std::int64_t update) const {
  assert(update * collect_ <= std::ssize(pushes_));
  return std::span(pushes_).subspan(static_cast<std::size_t>((update - 1) * collect_),
                                    static_cast<std::size_t>(collect_));
}

std::span<const std::int64_t> PushOrder::parts_of(std::int64_t update) const {
  if (update * collect_ > std::ssize(parts_)) return {};
  return std::span(parts_).subspan(static_cast<std::size_t>((update - 1) * collect_),
                                   static_cast<std::size_t>(collect_));
}

std::span<const std::int64_t> PushOrder::pieces_of(std::int64_t update) const {
  const std::int64_t each = collect_ * members_;
  if (update * each > std::ssize(pieces_)) return {};
  return std::span(pieces_).subspan(static_cast<std::size_t>((update - 1) * each), static_cast<std::size_t>(each));
}

std::vector<std::int64_t> PushOrder::staleness_counts(std::int64_t updates) const {
  std::vector<std::int64_t> counts;
  for (std::int64_t update = 1; update <= updates; ++update)
    for (std::int64_t place = 0; place < collect_; ++place) {
      const auto tau = static_cast<std::size_t>(staleness(update, place));
      if (tau >= counts.size()) counts.resize(tau + 1);
      ++counts[tau];
    }
  return counts;
}

std::span<const PushOrder::Copy> PushOrder::copies(std::int64_t version, bool before_update) const {
  const auto is_of = [](const Copy& copy) { return std::pair(copy.version, copy.before_update); };
  const auto found = std::ranges::equal_range(copies_, std::pair(version, before_update), {}, is_of);
  return {found.begin(), found.end()};
}

std::string PushOrder::head(int workers, std::int64_t members, std::int64_t steps_of_round, std::int64_t collect,
                            std::optional<std::int64_t> parts_of_batch) {
  return fmt::format("{}\nworkers {}\n{}{}collect {}\n{}", first_line(parts_of_batch.has_value()), workers,
                     members > 1 ? fmt::format("members {}\n", members) : "",
                     steps_of_round > 1 ? fmt::format("every {}\n", steps_of_round) : "", collect,
                     parts_of_batch.value_or(collect) != collect ? fmt::format("parts {}\n", *parts_of_batch) : "");
}

std::string PushOrder::line(const Push& push, std::optional<std::int64_t> part) {
  return fmt::format("{} {}{}\n", push.worker, push.version, part ? fmt::format(" {}", *part) : "");
}

std::string PushOrder::text() const {
  std::string text = head(workers_, members_, steps_of_round_, collect_,
                          has_parts() ? std::optional(parts_of_batch_) : std::nullopt);
  std::size_t i = 0;
  for (const std::vector<Push>* pushes : {&pushes_, &after_})
    for (const Push& push : *pushes) text += line(push, has_parts() ? std::optional(parts_[i++]) : std::nullopt);
  return text;
}

PushOrder PushOrder::parse(const std::string& text, const std::string& file, const AsynchronousConfig& config,
                           std::int64_t updates, std::int64_t steps_of_round, Length length) {
  std::istringstream in(text);
  std::string line, word;
  std::int64_t workers = 0, members = 1, steps = 1, collect = 0;
  const auto number = [&](const char* name) {
    std::int64_t value = 0;
    constexpr std::int64_t most = 1 << 20;
    validate(in >> word >> value && word == name && value > 0 && value <= most, ExitStatus::bad_data,
             "{}: the number of '{}' is missing or invalid; give a file that parallel.asynchronous.schedule.record "
             "has written",
             file, name);
    return value;
  };
  std::getline(in, line);
  const bool has_parts = line == first_line(true);
  validate(has_parts || line == first_line(false), ExitStatus::bad_data,
           "{}: is not a record of asynchronous training (its first line differs); give a file that "
           "parallel.asynchronous.schedule.record has written",
           file);
  workers = number("workers");
  if ((in >> std::ws).peek() == 'm') members = number("members");
  if ((in >> std::ws).peek() == 'e') steps = number("every");
  collect = number("collect");
  validate(config.free || !config.groups || workers == *config.groups, ExitStatus::bad_data,
           "{}: has {} workers, but parallel.asynchronous.groups is {}; give the same number, or leave it out", file,
           workers, config.groups.value_or(0));
  validate(steps == steps_of_round, ExitStatus::bad_data,
           "{}: workers take {} between pushes in the record, but {} here (parallel.local.every); give the same "
           "number",
           file, counted(steps, "step"), steps_of_round);
  validate(collect == config.collect, ExitStatus::bad_data,
           "{}: the number of gradients in an update is {} in the record, but {} here ({}); give the same number", file,
           collect, config.collect,
           config.present ? "parallel.asynchronous.collect" : "the ranks that parallel.backup waits for");
  const std::int64_t parts_of_batch = (in >> std::ws).peek() == 'p' ? number("parts") : collect;
  validate(parts_of_batch >= collect, ExitStatus::bad_data,
           "{}: an update has {} gradients, more than the parts of a batch ({}); give a record that lockstep has "
           "written",
           file, collect, parts_of_batch);
  std::vector<Push> pushes, after;
  std::vector<std::int64_t> parts;
  const std::int64_t parts_end = std::numeric_limits<std::int64_t>::max() / members;  // so that pieces can be numbered
  for (Push push; in >> push.worker >> push.version;) {
    std::int64_t part = 0;
    if (has_parts && !(in >> part && part >= 0 && part < parts_end)) break;
    if (has_parts) parts.push_back(part);
    (std::ssize(pushes) < updates * collect ? pushes : after).push_back(push);
  }
  if (const std::int64_t whole = std::ssize(pushes) / collect;
      length == Length::may_be_shorter && in.eof() && whole > 0 && whole < updates) {
    updates = whole;
    after.assign(pushes.begin() + whole * collect, pushes.end());
    pushes.resize(static_cast<std::size_t>(whole * collect));
  }
  // What follows the updates that are needed may have been lost with a node.
  validate(in.eof() || std::ssize(pushes) == updates * collect, ExitStatus::bad_data,
           "{}: the line of gradient {} is invalid; give a file that parallel.asynchronous.schedule.record has written",
           file, std::ssize(pushes) + std::ssize(after) + 1);
  validate(std::ssize(pushes) == updates * collect, ExitStatus::bad_data,
           "{}: has {} gradients, but the run needs {} updates of {}; give a longer record, or run fewer steps", file,
           std::ssize(pushes) + std::ssize(after), updates, collect);
  try {
    PushOrder order(static_cast<int>(workers), collect, config.bound, std::move(pushes), std::move(after),
                    std::move(parts), steps_of_round);
    order.members_ = members;
    order.parts_of_batch_ = parts_of_batch;
    for (const std::int64_t part : order.parts_)
      for (std::int64_t i = 0; i < members; ++i) order.pieces_.push_back(part * members + i);
    return order;
  } catch (const Error& error) {
    throw Error(error.status(), fmt::format("{}: {}", file, error.what()));
  }
}

PushOrder simulate_pushes(const AsynchronousConfig& config, std::uint64_t seed, std::int64_t updates,
                          std::int64_t steps_of_round) {
  constexpr std::int64_t most = 100'000'000;
  validate(updates <= most / config.collect, ExitStatus::bad_deck,
           "parallel.asynchronous: {} steps of {} gradients are more than the {} that can be simulated; do fewer steps",
           updates, config.collect, most);
  Simulation simulation(config, seed);
  std::vector<PushOrder::Push> pushes, after;
  pushes.reserve(static_cast<std::size_t>(updates * config.collect));
  for (std::int64_t i = 0; i < updates * config.collect; ++i) pushes.push_back(simulation.next());
  // If the run goes on with more steps, it needs what workers have read by now.
  std::vector<bool> has_given(static_cast<std::size_t>(config.simulation.ranks));
  for (auto left = static_cast<std::int64_t>(has_given.size()); left > 0;) {
    after.push_back(simulation.next());
    const auto worker = static_cast<std::size_t>(after.back().worker);
    if (!has_given[worker]) --left;
    has_given[worker] = true;
  }
  return {static_cast<int>(config.simulation.ranks),
          config.collect,
          config.bound,
          std::move(pushes),
          std::move(after),
          {},
          steps_of_round};
}

void refuse_other_file(const std::string& record) {
  std::error_code ignored;  // other errors are found when the file is written
  if (!std::filesystem::exists(record, ignored)) return;
  validate(file_begins_with(record, PushOrder::mark), ExitStatus::cannot_create,
           "{}: exists already, and is not a record of the order of gradients, so it is not replaced; give another "
           "name, or move that file away",
           record);
}

void write_record(const std::string& record, const PushOrder& order) {
  if (record.empty()) return;
  refuse_other_file(record);
  replace_text_file(record, order.text());
}

}  // namespace lockstep
