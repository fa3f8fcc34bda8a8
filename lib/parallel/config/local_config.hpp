// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "config/fields.hpp"

namespace lockstep {

/// The deck's `parallel.local` section: groups of ranks step by themselves, and synchronize every now and then.
struct LocalConfig : Config {
  /// How groups synchronize their parameters.
  enum class Outer { average, nesterov, adasum };

  bool present = false;
  bool asynchronous = false;               ///< replicas are asynchronous workers (ParallelConfig::asynchronous)
  std::int64_t every = 0;                  ///< steps between two synchronizations
  std::optional<std::int64_t> node_every;  ///< steps between two of the groups of a node; none: they have none
  std::int64_t from_step = 0;              ///< number of steps that all ranks do together before
  Outer outer = Outer::average;
  std::optional<double> learning_rate, momentum;  ///< none: the default of the rule
  std::int64_t fragments = 1;             ///< parts of the parameters, which are synchronized one after the other
  std::int64_t delay = 0;                 ///< steps from the beginning of a part's sum to its application
  std::optional<std::int64_t> group = 1;  ///< ranks of a group; none: those of a node

  void describe(Fields& fields) override;
  std::string_view short_form() const override { return "every"; }

  /// Whether parameters are synchronized in fragments, or later than they are sent. Groups have different parameters
  /// then even after they synchronize.
  bool streams() const { return fragments > 1 || delay > 0; }
  /// Steps from the synchronization of one fragment to that of the next.
  std::int64_t fragment_period() const { return every / fragments; }
  /// Whether groups that share a node synchronize between two synchronizations of all.
  bool nests() const { return node_every && *node_every < every; }
  /// Whether the outer rule has a momentum.
  bool has_momentum() const { return outer == Outer::nesterov; }
  double momentum_or_default() const { return momentum.value_or(0.9); }
  /// Outer learning rate: the deck's, or the rule's default.
  double learning_rate_or_default() const { return learning_rate.value_or(outer == Outer::nesterov ? 0.7 : 1.0); }

 private:
  void check_groups(Fields& fields) const;  // groups that synchronize all together
};

}  // namespace lockstep
