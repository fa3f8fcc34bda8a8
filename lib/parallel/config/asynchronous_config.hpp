// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/fields.hpp"

namespace lockstep {

/// What asynchronous workers give away: what a round of steps of theirs has changed; of gradients, one step each.
struct Rounds {
  std::int64_t every = 1;  ///< steps
  bool by_speed = false;   ///< slow workers do fewer
};

/// The deck's `parallel.asynchronous` section: workers compute gradients by parameters that others have changed since.
struct AsynchronousConfig : Config {
  /// What becomes of a gradient because of that.
  enum class Staleness { none, divide, compensate };

  /// Workers that one process simulates.
  struct Simulation {
    bool present = false;
    std::int64_t ranks = 1;
    std::vector<double> delays{1};  ///< of a gradient, by worker, again and again; in any unit
    double spread = 0;              ///< share of a delay by which it may be longer or shorter
  };

  bool present = false;
  std::optional<std::int64_t> groups;  ///< of ranks that run freely, each a worker; none: each rank is one
  std::int64_t collect = 1;            ///< gradients of an update
  std::optional<std::int64_t> bound;   ///< of how many gradients more than others a worker may begin; none: any
  Staleness staleness = Staleness::none;
  std::optional<double> lambda;  ///< none: lambda_or_default
  bool adaptive = false;
  Simulation simulation;
  bool free = false;   ///< the ranks are the workers, and the order is that in which they come
  std::string replay;  ///< file; empty: none
  std::string record;  ///< likewise
  /// Ranks that have computed each gradient of a replay, as its file has it (PushOrder::members), once it is read.
  std::int64_t recorded_members = 1;

  void describe(Fields& fields) override;

  /// Ranks that compute a gradient together, each of them one of so many equal pieces; of a replay, that have computed
  /// it. Throws KeyError (parallel.asynchronous.groups) where so many ranks cannot be divided into the deck's groups.
  std::int64_t members(int ranks) const;
  bool compensates() const { return present && staleness == Staleness::compensate; }
  /// The weight of the correction: the deck's, or that of Zheng et al. 2017.
  double lambda_or_default() const { return lambda.value_or(adaptive ? 2 : 0.04); }
};

}  // namespace lockstep
