// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/config/local_config.hpp"

#include <fmt/format.h>

namespace lockstep {

void LocalConfig::describe(Fields& fields) {
  static constexpr std::string_view outers[] = {"average",          "slowmo",  "nesterov",
                                                "delayed_nesterov", "elastic", "adasum"};
  static constexpr std::string_view states[] = {"keep", "average", "reset"};
  fields.integer(
      "every", every, {1, 1e9},
      "steps from one synchronization of the groups to the next; of asynchronous workers, which wait for nobody, that each "
      "does by itself from where it reads parameters to where it gives away what has become of them",
      Presence::required);
  fields.integer(
      "node_every", node_every, {1, 1e9},
      "steps from one average of the groups that share a node to the next, between the synchronizations of all "
      "(hierarchical local SGD); a divisor of every");
  fields.integer(
      "from_step", from_step, not_negative,
      "steps that all ranks do together, as without local, before groups go their own ways (post-local SGD)");
  fields.choice(
      "outer", outer, outers,
      "what becomes of the parameters where groups synchronize: their average; or a step of another optimizer along the way from "
      "the last synchronization to it, by slow momentum (slowmo) or Nesterov's (nesterov, as in DiLoCo; of asynchronous workers also "
      "delayed_nesterov); or groups and a centre, "
      "which is what is evaluated and kept, pull at each other (elastic: EASGD); or a step along the Adasum of the groups' "
      "ways, tensor by tensor (adasum)");
  fields.number(
      "learning_rate", learning_rate, positive,
      "size of that step, as a share of the way (slowmo, adasum, and asynchronous averages 1, nesterov and delayed_nesterov 0.7, when not given), or of the pull (elastic; "
      "0.9 divided by the groups)");
  fields.number(
      "momentum", momentum, fraction_below_one,
      "share of the outer velocity that the next synchronization has left (slowmo 0.7, nesterov and delayed_nesterov 0.9, when not given)");
  fields.integer("momentum_every", momentum_every, {1, 1e6},
                 "updates from one that delayed_nesterov takes with its momentum to the next, by what all of them have "
                 "changed (as many as workers, when not given)");
  fields.choice(
      "state", state, states,
      "what becomes of the optimizers' states at a synchronization: each group keeps its own, or they are averaged, or "
      "begin anew");
  fields.integer(
      "fragments", fragments, {1, 1e6},
      "parts that the parameters are cut into, between tensors, of which one is synchronized every every / fragments "
      "steps (Streaming DiLoCo)");
  fields.integer(
      "delay", delay, not_negative,
      "steps from where a synchronization's differences begin to travel, beside them, to where their sum is applied; "
      "less than every / fragments");
  fields.number(
      "mix", mix, fraction_below_one,
      "what groups keep of their own parameters at a synchronization: they go on with global + mix · (local − global)");
  fields.boolean(
      "steps_by_speed", steps_by_speed,
      "whether slow groups leave out the last steps before a synchronization, by the time that passes took before the "
      "last one, so that the others need not wait for them; and slow asynchronous workers the last steps before they give "
      "away what they have changed (dynamic local updates)");
  fields.integer_or("group", group, "node", at_least_one,
                    "ranks that step together, neighbours in the order of ranks, and have batch_norm's statistics "
                    "together; node: those that share memory");
  fields.check(has_momentum() || !momentum, "momentum",
               "is of no use to this outer rule, which has none; leave it out");
  fields.check(outer == Outer::delayed_nesterov || !momentum_every, "momentum_every",
               "is of delayed_nesterov alone; leave it out, or take outer: delayed_nesterov");
  if (asynchronous) return check_asynchronous(fields);
  fields.check(
      outer != Outer::delayed_nesterov, "outer",
      "delayed_nesterov is for differences that come one by one (parallel.asynchronous), and synchronizations bring all "
      "at once; take nesterov");
  fields.check(outer != Outer::average || !learning_rate, "learning_rate",
               "is of no use to averages; leave it out, or take another outer rule");
  const bool divides = fragments > 0 && every % fragments == 0;
  fields.check(divides, "fragments",
               fmt::format("{} fragments do not divide the {} steps of every; take a divisor", fragments, every));
  if (divides)
    fields.check(
        delay == 0 || delay < fragment_period(), "delay",
        fmt::format("{} steps are not less than every / fragments, {}, where the next fragment is synchronized", delay,
                    fragment_period()));
  if (node_every) check_nodes(fields);
  fields.check(
      !steps_by_speed || (!streams() && !nests()), "steps_by_speed",
      "slow groups leave out the steps before a synchronization of all, and fragments, delay, mix and node_every have "
      "other synchronizations among them; leave those out, or steps_by_speed");
  fields.check(!streams() || outer != Outer::elastic, "outer",
               "replicas of elastic averaging only pull at a centre, by all parameters at once; leave fragments, delay "
               "and mix out, or take another outer rule");
  fields.check(
      !streams() || outer != Outer::adasum, "outer",
      "adasum compares what all groups have done to whole tensors, and fragments, delay and mix add it up beside "
      "steps; leave them out, or take another outer rule");
  fields.check(!streams() || state == State::keep, "state",
               "fragments, delay and mix leave groups their own states; take keep");
  fields.check(outer != Outer::elastic || from_step == 0, "from_step",
               "the centre of elastic averaging and its replicas part at the first step; take from_step: 0");
  fields.check(outer != Outer::elastic || state == State::keep, "state",
               "groups that only pull at each other go on with their own states; take keep");
}

void LocalConfig::check_nodes(Fields& fields) const {
  fields.check(every % *node_every == 0, "node_every",
               fmt::format("{} steps do not divide the {} of every; take a divisor", *node_every, every));
  fields.check(group.has_value(), "node_every", "is of no use where a node is one group (group: node); leave one out");
  fields.check(
      !streams(), "node_every",
      "groups whose parameters are synchronized in parts, beside steps, have no averages of a node; leave fragments, delay "
      "and mix out, or node_every");
  fields.check(outer != Outer::elastic, "outer",
               "replicas of elastic averaging only pull at a centre, and node_every averages those of a node; take "
               "another outer rule, or leave node_every out");
  fields.check(outer != Outer::adasum, "outer",
               "adasum compares groups, and node_every leaves those of a node alike; take group: node in the place of "
               "node_every, or another outer rule");
}

/// Checks the keys for workers that give what they have changed, each in its own time.
void LocalConfig::check_asynchronous(Fields& fields) const {
  const auto refuse = [&](bool is_set, std::string_view key, std::string_view why) {
    fields.check(!is_set, key, fmt::format("{} (asynchronous workers wait for nobody); leave it out", why));
  };
  fields.check(outer == Outer::average || is_nesterov(), "outer",
               "asynchronous workers give what they have changed one by one, for which average, nesterov and "
               "delayed_nesterov are defined; take one of these");
  refuse(from_step > 0, "from_step", "all ranks would do steps together before");
  refuse(node_every.has_value(), "node_every", "groups of a node would average between synchronizations");
  refuse(streams(),
         fragments > 1 ? "fragments"
         : delay > 0   ? "delay"
                       : "mix",
         "parameters would be synchronized in parts");
  refuse(state != State::keep, "state", "states would be averaged or forgotten where groups synchronize");
  fields.check(group == 1, "group",
               "ranks of an asynchronous worker are those of asynchronous.groups; leave it out, or give that");
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
