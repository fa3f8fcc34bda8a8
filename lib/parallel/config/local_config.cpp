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
  if (asynchronous) check_asynchronous(fields);
  else check_groups(fields);
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
  if (node_every) check_nodes(fields);
  fields.check(
      !streams() || outer != Outer::adasum, "outer",
      "adasum compares the groups' changes to whole tensors, but fragments and delay sum changes during steps; "
      "leave them out, or use another outer rule");
}

void LocalConfig::check_nodes(Fields& fields) const {
  fields.check(every % *node_every == 0, "node_every",
               fmt::format("{} steps do not divide the {} of every; give a divisor", *node_every, every));
  fields.check(group.has_value(), "node_every", "has no effect when a node is one group (group: node); leave one out");
  fields.check(
      !streams(), "node_every",
      "groups whose parameters are synchronized in parts, during steps, cannot average over a node; leave fragments "
      "and delay out, or node_every");
  fields.check(outer != Outer::adasum, "outer",
               "adasum compares groups, but node_every makes those of a node equal; use group: node instead of "
               "node_every, or another outer rule");
}

void LocalConfig::check_asynchronous(Fields& fields) const {
  const auto refuse = [&](bool is_set, std::string_view key, std::string_view why) {
    fields.check(!is_set, key, fmt::format("{} (asynchronous workers do not wait for each other); leave it out", why));
  };
  fields.check(outer != Outer::adasum, "outer",
               "asynchronous workers hand in their changes one by one, which adasum cannot compare; use average or "
               "nesterov");
  refuse(from_step > 0, "from_step", "all ranks would first take steps together");
  refuse(node_every.has_value(), "node_every", "groups of a node would average between synchronizations");
  refuse(streams(), fragments > 1 ? "fragments" : "delay", "parameters would be synchronized in parts");
  fields.check(group == 1, "group",
               "asynchronous.groups sets the ranks of an asynchronous worker; leave it out, or give that instead");
}

}  // namespace lockstep
