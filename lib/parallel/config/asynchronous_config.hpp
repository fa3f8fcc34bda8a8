// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/fields.hpp"

namespace lockstep {

/// The deck's `parallel.asynchronous` section: workers compute gradients by parameters that others may have changed
/// since.
struct AsynchronousConfig : Config {
  /// How a gradient is corrected if others have changed the parameters since.
  enum class Staleness { none, divide, compensate };

  /// Workers that are simulated.
  struct Simulation {
    bool present = false;
    std::int64_t ranks = 1;
    std::vector<double> delays{1};  ///< time for a gradient, by worker, repeated in turn; in any unit
    double spread = 0;              ///< share of a delay by which it may be longer or shorter
  };

  bool present = false;
  std::optional<std::int64_t> groups;  ///< groups of ranks that run freely, each a worker; none: each rank is one
  std::int64_t collect = 1;            ///< gradients of an update
  std::optional<std::int64_t> bound;   ///< by how many gradients a worker may be ahead of others; none: any number
  Staleness staleness = Staleness::none;
  std::optional<double> lambda;  ///< none: see lambda_or_default
  bool adaptive = false;
  Simulation simulation;
  bool free = false;   ///< the ranks are the workers, in the order in which they come
  std::string replay;  ///< path; empty: none
  std::string record;  ///< path; empty: none
  /// What the file of a replay says, once it is read: the number of ranks that have computed each gradient
  /// (PushOrder::members), and the number of workers.
  struct Record {
    std::int64_t members = 1, workers = 1;
  };
  Record recorded;

  void describe(Fields& fields) override;

  /// Number of ranks that compute a gradient together, each of them one of so many equal pieces; in a replay, that have
  /// computed it. Throws KeyError (parallel.asynchronous.groups) if so many ranks cannot be divided into the deck's
  /// groups.
  std::int64_t members(int ranks) const;
  /// Number of workers of a schedule that is simulated or replayed.
  std::int64_t simulated_workers() const { return simulation.present ? simulation.ranks : recorded.workers; }
  bool compensates() const { return present && staleness == Staleness::compensate; }
  /// The weight of the correction: the deck's, or that of Zheng et al. 2017.
  double lambda_or_default() const { return lambda.value_or(adaptive ? 2 : 0.04); }
};

}  // namespace lockstep
