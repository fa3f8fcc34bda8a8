// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/config/asynchronous_config.hpp"

#include "config/deck.hpp"

namespace lockstep {

void AsynchronousConfig::describe(Fields& fields) {
  static constexpr std::string_view stalenesses[] = {"none", "divide", "compensate"};
  fields.integer("groups", groups, {1, 1 << 20},
                 "number of groups of neighbouring ranks that run freely; each is one worker, whose ranks compute a "
                 "gradient together (when not given: each rank is a worker)");
  fields.integer("collect", collect, {1, 1 << 20},
                 "number of gradients in an update (n-softsync): a batch is cut into this many equal parts, and the "
                 "gradient of each is computed from the parameters that its worker has read");
  fields.integer("bound", bound, {0, 1e9},
                 "largest number of gradients by which a worker may be ahead of the slowest when it begins the next "
                 "one (stale synchronous parallel; when not given: any)");
  fields.choice("staleness", staleness, stalenesses,
                "correction of a gradient for the τ updates since its worker read the parameters: none; divide (the "
                "gradient by τ); compensate (for what these updates have changed, by the gradient's square: DC-ASGD)");
  fields.number("lambda", lambda, not_negative,
                "weight λ of staleness: compensate (when not given: 0.04, or 2 with adaptive)");
  fields.boolean("adaptive", adaptive,
                 "whether λ is divided by the root of a running average of the worker's squared gradients");
  fields.section(
      "schedule",
      [this](Fields& section) {
        section.optional_section(
            "simulate", simulation.present,
            [this](Fields& f) {
              f.integer("ranks", simulation.ranks, {1, 1024}, "number of simulated workers", Presence::required);
              f.numbers("delays", simulation.delays, {0.001, 1000},
                        "time that each worker takes for a gradient, in any unit; the list repeats if there are more "
                        "workers");
              f.number("spread", simulation.spread, fraction_below_one,
                       "share of its delay by which the time of a gradient varies at random (by run.seed): 0.3 for 0.7 "
                       "to 1.3 of the delay");
              f.check(!simulation.delays.empty(), "delays",
                      "the list is empty; give at least one number, or leave it out");
            },
            "Simulates workers with delays, one after the other, with the same results in each run");
        std::optional<bool> runs_freely = free ? std::optional(true) : std::nullopt;  // false is not written
        section.boolean("free", runs_freely,
                        "true: the ranks are the workers and run freely, and gradients are applied as they arrive");
        free = runs_freely.value_or(false);
        section.path("replay", replay, "file written by record, whose gradients are applied again in its order");
        section.path("record", record,
                     "file to which the order of gradients is written: the worker of each, and the version of the "
                     "parameters that it was computed from");
        static constexpr std::string_view orders[] = {"simulate", "free", "replay"};
        section.need(Needs::exactly_one, orders, "nothing would set the order in which gradients are applied");
        section.check(simulation.present || free || !replay.empty(), "free",
                      "is false, and nothing else sets the order in which gradients are applied; give true, simulate "
                      "or replay");
        section.check(replay.empty() || record.empty(), "record", "would only repeat what replay reads; leave it out");
      },
      "Order in which gradients are applied (give one of simulate, free and replay)", Presence::required);
  fields.check(!simulation.present || !groups, "groups",
               "are for ranks that run freely, but schedule.simulate sets its own number of workers; leave it out");
  fields.check(!free || !adaptive, "adaptive",
               "needs the squares of each worker's gradients, which are not kept when ranks run freely; leave it "
               "out, or simulate a schedule");
  fields.check(staleness == Staleness::compensate || !lambda, "lambda",
               "has no effect without staleness: compensate; leave it out, or give that");
  fields.check(staleness == Staleness::compensate || !adaptive, "adaptive",
               "has no effect without staleness: compensate; leave it out, or give that");
}

std::int64_t AsynchronousConfig::members(int ranks) const {
  if (!free || !groups) return recorded.members;
  validate_key(ranks % *groups == 0, "parallel.asynchronous.groups",
               "{} ranks cannot be divided into {} groups of equal size; give a divisor of the number of ranks", ranks,
               *groups);
  return ranks / *groups;
}

}  // namespace lockstep
