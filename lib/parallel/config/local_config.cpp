// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/config/local_config.hpp"

#include <fmt/format.h>

namespace lockstep {

void LocalConfig::describe(Fields& fields) {
  static constexpr std::string_view outers[] = {"average",          "slowmo",  "nesterov",
                                                "delayed_nesterov", "elastic", "adasum"};
  static constexpr std::string_view states[] = {"keep", "average", "reset"};
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
      "how groups synchronize their parameters: average; slowmo, nesterov (as in DiLoCo) and delayed_nesterov (for "
      "asynchronous workers only): a step of an outer optimizer, with slow or Nesterov momentum, along the change "
      "since the last synchronization; elastic: groups and a centre, which is evaluated and saved, pull at each other "
      "(EASGD); adasum: a step along the Adasum of the groups' changes, tensor by tensor");
  fields.number("learning_rate", learning_rate, positive,
                "outer learning rate: length of the outer step as a share of the change (when not given: 1 for slowmo, "
                "adasum and averages of asynchronous workers, 0.7 for nesterov and delayed_nesterov), or for elastic "
                "the strength of the pull (0.9 divided by the number of groups)");
  fields.number("momentum", momentum, fraction_below_one,
                "share of the outer velocity that each synchronization keeps (when not given: 0.7 for slowmo, 0.9 for "
                "nesterov and delayed_nesterov)");
  fields.integer("momentum_every", momentum_every, {1, 1e6},
                 "interval, in updates, at which delayed_nesterov applies its momentum, to the changes of all updates "
                 "since the last time (when not given: the number of workers)");
  fields.choice("state", state, states,
                "what happens to the optimizers' states at a synchronization: keep (each group keeps its own), average "
                "(over groups) or reset (they start anew)");
  fields.integer("fragments", fragments, {1, 1e6},
                 "number of parts that the parameters are cut into, between tensors; one part is synchronized every "
                 "`every` / fragments steps (Streaming DiLoCo)");
  fields.integer("delay", delay, not_negative,
                 "number of steps that groups take while the changes of a synchronization are summed, before the sum "
                 "is applied (0: they wait for it); less than every / fragments");
  fields.number("mix", mix, fraction_below_one,
                "share of its own parameters that a group keeps at a synchronization: it continues with global + mix · "
                "(local − global)");
  fields.boolean("steps_by_speed", steps_by_speed,
                 "whether slow groups leave out the last steps before a synchronization, judged by the time of their "
                 "passes before the previous one, so that the others need not wait; slow asynchronous workers leave "
                 "out the last steps before they hand in their changes (dynamic local updates)");
  fields.integer_or("group", group, "node", at_least_one,
                    "number of consecutive ranks that step together and share batch_norm's statistics; node: ranks "
                    "that share memory");
  check_momentum(fields);
  if (asynchronous) check_asynchronous(fields);
  else check_groups(fields);
}

void LocalConfig::check_momentum(Fields& fields) const {
  fields.check(has_momentum() || !momentum, "momentum",
               "has no effect with this outer rule, which has none; leave it out");
  fields.check(outer == Outer::delayed_nesterov || !momentum_every, "momentum_every",
               "is only for delayed_nesterov; leave it out, or use outer: delayed_nesterov");
}

void LocalConfig::check_groups(Fields& fields) const {
  fields.check(
      outer != Outer::delayed_nesterov, "outer",
      "delayed_nesterov is for changes that arrive one by one (parallel.asynchronous), but a synchronization brings "
      "all at once; use nesterov");
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
      !steps_by_speed || (!streams() && !nests()), "steps_by_speed",
      "slow groups leave out the last steps before a synchronization of all groups, but fragments, delay, mix and "
      "node_every add others in between; leave those out, or steps_by_speed");
  fields.check(!streams() || outer != Outer::elastic, "outer",
               "elastic averaging pulls replicas and their centre together by all parameters at once; leave "
               "fragments, delay and mix out, or use another outer rule");
  fields.check(
      !streams() || outer != Outer::adasum, "outer",
      "adasum compares the groups' changes to whole tensors, but fragments, delay and mix sum changes during steps; "
      "leave them out, or use another outer rule");
  fields.check(!streams() || state == State::keep, "state",
               "with fragments, delay or mix, groups keep their own states; use keep");
  fields.check(outer != Outer::elastic || from_step == 0, "from_step",
               "the centre of elastic averaging and its replicas separate at the first step; use from_step: 0");
  fields.check(outer != Outer::elastic || state == State::keep, "state",
               "groups of elastic averaging keep their own states; use keep");
}

void LocalConfig::check_nodes(Fields& fields) const {
  fields.check(every % *node_every == 0, "node_every",
               fmt::format("{} steps do not divide the {} of every; give a divisor", *node_every, every));
  fields.check(group.has_value(), "node_every", "has no effect when a node is one group (group: node); leave one out");
  fields.check(
      !streams(), "node_every",
      "groups whose parameters are synchronized in parts, during steps, cannot average over a node; leave fragments, "
      "delay and mix out, or node_every");
  fields.check(outer != Outer::elastic, "outer",
               "elastic averaging only pulls replicas and their centre together, but node_every averages those of a "
               "node; use another outer rule, or leave node_every out");
  fields.check(outer != Outer::adasum, "outer",
               "adasum compares groups, but node_every makes those of a node equal; use group: node instead of "
               "node_every, or another outer rule");
}

void LocalConfig::check_asynchronous(Fields& fields) const {
  const auto refuse = [&](bool is_set, std::string_view key, std::string_view why) {
    fields.check(!is_set, key, fmt::format("{} (asynchronous workers do not wait for each other); leave it out", why));
  };
  fields.check(outer == Outer::average || is_nesterov(), "outer",
               "asynchronous workers hand in their changes one by one, for which only average, nesterov and "
               "delayed_nesterov are defined; use one of these");
  refuse(from_step > 0, "from_step", "all ranks would first take steps together");
  refuse(node_every.has_value(), "node_every", "groups of a node would average between synchronizations");
  refuse(streams(),
         fragments > 1 ? "fragments"
         : delay > 0   ? "delay"
                       : "mix",
         "parameters would be synchronized in parts");
  refuse(state != State::keep, "state", "states would be averaged or reset when groups synchronize");
  fields.check(group == 1, "group",
               "asynchronous.groups sets the ranks of an asynchronous worker; leave it out, or give that instead");
}

double LocalConfig::learning_rate_or_default(std::int64_t groups) const {
  switch (outer) {
    case Outer::average:
    case Outer::adasum:
    case Outer::slowmo: return learning_rate.value_or(1.0);
    case Outer::nesterov:
    case Outer::delayed_nesterov: return learning_rate.value_or(0.7);
    case Outer::elastic: return learning_rate.value_or(0.9 / static_cast<double>(groups));
  }
  return 1;
}

}  // namespace lockstep
