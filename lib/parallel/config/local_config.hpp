// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "config/fields.hpp"

namespace lockstep {

/// The deck's `parallel.local` section: groups of ranks step by themselves, and synchronize every now and then.
struct LocalConfig : Config {
  /// What becomes of the parameters where groups synchronize.
  enum class Outer { average, slowmo, nesterov, delayed_nesterov, elastic, adasum };
  /// And of their optimizers' states.
  enum class State { keep, average, reset };

  bool present = false;
  bool asynchronous =
      false;               ///< replicas are asynchronous workers, which wait for nobody (ParallelConfig::asynchronous)
  std::int64_t every = 0;  ///< steps between two synchronizations
  std::optional<std::int64_t> node_every;  ///< steps between those of the groups of a node; none: they have none
  std::int64_t from_step = 0;              ///< so many steps are done by all ranks together before
  Outer outer = Outer::average;
  std::optional<double> learning_rate, momentum;  ///< none: the rule's own
  std::optional<std::int64_t> momentum_every;     ///< updates; of delayed_nesterov; none: as many as workers
  State state = State::keep;
  std::int64_t fragments = 1;             ///< parts of the parameters that are synchronized one after the other
  std::int64_t delay = 0;                 ///< steps from the beginning of a part's sum to where it is applied
  double mix = 0;                         ///< what groups keep of their own parameters there
  bool steps_by_speed = false;            ///< whether slow groups do fewer steps between two synchronizations
  std::optional<std::int64_t> group = 1;  ///< ranks of each; none: those of a node

  void describe(Fields& fields) override;
  std::string_view short_form() const override { return "every"; }

  /// Whether fragments are synchronized by themselves, or later than they are sent.
  bool streams() const { return fragments > 1 || delay > 0 || mix > 0; }
  /// Steps from one fragment's synchronization to the next one's.
  std::int64_t fragment_period() const { return every / fragments; }
  /// Whether groups that share a node synchronize between two synchronizations of all.
  bool nests() const { return node_every && *node_every < every; }
  /// Whether groups have different parameters where they synchronize, as well.
  bool keeps_replicas() const { return outer == Outer::elastic || streams(); }
  /// Whether the rule has a momentum.
  bool has_momentum() const { return outer == Outer::slowmo || is_nesterov(); }
  bool is_nesterov() const { return outer == Outer::nesterov || outer == Outer::delayed_nesterov; }
  double momentum_or_default() const { return momentum.value_or(is_nesterov() ? 0.9 : 0.7); }
  /// Of how many updates the momentum takes up one; more than 1: it gathers differences meanwhile.
  std::int64_t updates_of_momentum(std::int64_t workers) const {
    return outer == Outer::delayed_nesterov ? momentum_every.value_or(workers) : 1;
  }
  /// `groups`: how many there are.
  double learning_rate_or_default(std::int64_t groups) const;

 private:
  void check_nodes(Fields& fields) const;
  void check_asynchronous(Fields& fields) const;
};

}  // namespace lockstep
