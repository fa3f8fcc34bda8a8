// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/config/local_config.hpp"

#include <fmt/format.h>

namespace lockstep {

void LocalConfig::describe(Fields& fields) {
  static constexpr std::string_view outers[] = {"average", "nesterov", "adasum"};
  fields.integer("every", every, {1, 1e9},
                 "steps between synchronizations of all groups; for asynchronous workers, steps that each takes by "
                 "itself between reading the parameters and handing in its changes",
                 Presence::required);
  fields.integer("node_every", node_every, {1, 1e9},
                 "steps between averages of the groups of a node, in between the synchronizations of all groups "
                 "(hierarchical local SGD); a divisor of every");
  fields.integer("from_step", from_step, not_negative,
                 "number of steps at the start that all ranks take together, as without local (post-local SGD)");
  fields.choice(
      "outer", outer, outers,
      "how groups synchronize their parameters: average; nesterov: a step of an outer optimizer with Nesterov momentum "
      "along the average change since the last synchronization (DiLoCo); adasum: a step along the Adasum of the "
      "groups' changes, tensor by tensor");
  fields.number("learning_rate", learning_rate, positive,
                "outer learning rate: length of the outer step as a share of the change (when not given: 1 for adasum "
                "and averages of asynchronous workers, 0.7 for nesterov)");
  fields.number("momentum", momentum, fraction_below_one,
                "share of the outer velocity that each synchronization keeps (nesterov; when not given: 0.9)");
  fields.integer("fragments", fragments, {1, 1e6},
                 "number of parts that the parameters are cut into, between tensors; one part is synchronized every "
                 "`every` / fragments steps (Streaming DiLoCo)");
  fields.integer("delay", delay, not_negative,
                 "number of steps that groups take while the changes of a synchronization are summed, before the sum "
                 "is applied (0: they wait for it); less than every / fragments");
  fields.integer_or("group", group, "node", at_least_one,
                    "number of consecutive ranks that step together and share batch_norm's statistics; node: ranks "
                    "that share memory");
  fields.check(has_momentum() || !momentum, "momentum", "has no effect without outer: nesterov; leave it out");
  if (!asynchronous) check_groups(fields);
}

void LocalConfig::check_groups(Fields& fields) const {
  fields.check(outer != Outer::average || !learning_rate, "learning_rate",
               "has no effect with outer: average; leave it out, or use another outer rule");
  const bool divides = fragments > 0 && every % fragments == 0;
  fields.check(divides, "fragments",
               fmt::format("{} fragments do not divide the {} steps of every; give a divisor", fragments, every));
  if (divides)
    fields.check(
        delay == 0 || delay < fragment_period(), "delay",
        fmt::format("{} steps are not less than every / fragments ({}), when the next fragment is synchronized; give "
                    "fewer",
                    delay, fragment_period()));
  fields.check(!node_every || every % *node_every == 0, "node_every",
               fmt::format("{} steps do not divide the {} of every; give a divisor", node_every.value_or(1), every));
}

}  // namespace lockstep
