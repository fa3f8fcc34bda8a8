// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/config/asynchronous_config.hpp"

#include "config/deck.hpp"

namespace lockstep {

void AsynchronousConfig::describe(Fields& fields) {
  static constexpr std::string_view stalenesses[] = {"none", "divide", "compensate"};
  fields.integer("groups", groups, {1, 1 << 20},
                 "groups of neighbouring ranks that run freely: each is one worker, whose ranks compute a gradient "
                 "together (each rank by itself, when not given)");
  fields.integer("collect", collect, {1, 1 << 20},
                 "gradients of which an update is made (n-softsync): of this many equal parts of a batch, each by the "
                 "parameters that its worker has read");
  fields.integer(
      "bound", bound, {0, 1e9},
      "of how many gradients more than the slowest worker one may begin the next (stale synchronous parallel; "
      "any, when not given)");
  fields.choice(
      "staleness", staleness, stalenesses,
      "what becomes of a gradient when there have been τ updates since its worker has read parameters: nothing; it is "
      "divided by τ; or what these updates have changed is compensated for, by the gradient's square (compensate: "
      "DC-ASGD)");
  fields.number("lambda", lambda, not_negative,
                "weight of that compensation (0.04, and of the adaptive one 2, when not given)");
  fields.boolean("adaptive", adaptive,
                 "whether that weight is divided by the root of the mean square of the worker's gradients");
  fields.section(
      "schedule",
      [this](Fields& section) {
        section.optional_section(
            "simulate", simulation.present,
            [this](Fields& f) {
              f.integer("ranks", simulation.ranks, {1, 1024}, "workers that are simulated", Presence::required);
              f.numbers("delays", simulation.delays, {0.001, 1000},
                        "how long workers take for a gradient, in any unit: the first worker the first, and so on, "
                        "again and again");
              f.number("spread", simulation.spread, fraction_below_one,
                       "share of its delay by which a gradient may take longer or shorter, as run.seed has it");
              f.check(!simulation.delays.empty(), "delays", "has no numbers; give one at least, or leave it out");
            },
            "workers with delays, simulated one after the other: the same numbers in each run");
        std::optional<bool> runs_freely = free ? std::optional(true) : std::nullopt;  // false is not written
        section.boolean("free", runs_freely,
                        "true: the ranks are the workers, each of which goes on without waiting for the others: their "
                        "gradients are applied as they come");
        free = runs_freely.value_or(false);
        section.path("replay", replay, "file of a record: its gradients in its order");
        section.path("record", record,
                     "file to write which worker's gradient was applied when, and what parameters it was computed by");
        static constexpr std::string_view orders[] = {"simulate", "free", "replay"};
        section.need(Needs::exactly_one, orders, "nothing would say which gradient is applied when");
        section.check(simulation.present || free || !replay.empty(), "free",
                      "is false, and nothing else says which gradient is applied when; take true, simulate or replay");
        section.check(replay.empty() || record.empty(), "record", "would be what replay reads; leave it out");
      },
      "Which gradient is applied when", Presence::required);
  fields.check(
      !simulation.present || !groups, "groups",
      "are of ranks that run freely, and schedule.simulate says itself how many workers it simulates; leave it out");
  fields.check(!free || !adaptive, "adaptive",
               "weighs by squares of a worker's gradients, which nobody keeps where ranks run freely; leave it out, or "
               "simulate a schedule");
  fields.check(staleness == Staleness::compensate || !lambda, "lambda",
               "is of no use where staleness is not compensated for; leave it out, or set staleness: compensate");
  fields.check(staleness == Staleness::compensate || !adaptive, "adaptive",
               "is of no use where staleness is not compensated for; leave it out, or set staleness: compensate");
}

std::int64_t AsynchronousConfig::members(int ranks) const {
  if (!free || !groups) return recorded_members;
  validate_key(ranks % *groups == 0, "parallel.asynchronous.groups",
               "{} ranks cannot be divided into {} groups of as many ranks each; take a divisor of the ranks", ranks,
               *groups);
  return ranks / *groups;
}

}  // namespace lockstep
