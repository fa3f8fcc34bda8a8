// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The order in which a rank of a sharded model computes, begins exchanges and waits for them, for simulations. The
// network has equal layers, whose parameters are in units, each of which is also a bucket of gradients.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "comm/collective/schedule.hpp"

namespace lockstep {

struct Stage {
  /// Exchanges of a lane follow each other, beside those of the other lane and beside computations.
  enum class Lane { sums, gathers };
  enum class Kind { all_reduce, reduce_scatter, all_gather };
  /// An exchange of all ranks by messages, with recursive halving and doubling.
  struct Exchange {
    Kind kind;
    std::int64_t count;  ///< number of fp32 elements

    CommSchedule schedule(int rank, int ranks) const {
      switch (kind) {
        case Kind::all_reduce: return halving_doubling_all_reduce(rank, ranks, count);
        case Kind::reduce_scatter: return halving_reduce_scatter(rank, ranks, count);
        case Kind::all_gather: break;
      }
      return doubling_all_gather(rank, ranks, count);
    }
  };
  struct Rank {
    virtual ~Rank() = default;
    virtual void compute(double ms) = 0;
    virtual void begin(Lane lane, const Exchange& exchange) = 0;
    /// Waits for the first exchange of the lane that has not been waited for.
    virtual void wait(Lane lane) = 0;
  };
  struct Network {
    double megabytes, unit_mb, forward_ms, backward_ms;
  };
  static constexpr int layers = 50;

  std::string_view what;  ///< gather, scatter, none, optimizer, gradients, parameters
  Network network;

  Stage(std::string_view what_, const Network& network_) : what(what_), network(network_) {}

  int units() const { return static_cast<int>(network.megabytes / network.unit_mb + 0.5); }
  Exchange exchange(Kind kind) const {
    return {kind, static_cast<std::int64_t>(1e6 * network.unit_mb / sizeof(float))};
  }
  /// The unit of a layer; both are counted in the order of the forward pass.
  int unit_of(int layer) const { return layer * units() / layers; }
  bool begins_unit(int layer) const { return layer == 0 || unit_of(layer) != unit_of(layer - 1); }

  void run(Rank& rank) const {
    if (what == "gather" || what == "scatter") {
      const Kind kind = what == "gather" ? Kind::all_gather : Kind::reduce_scatter;
      for (int unit = 0; unit < units(); ++unit) rank.begin(Lane::sums, exchange(kind));
      for (int unit = 0; unit < units(); ++unit) rank.wait(Lane::sums);
    } else {
      forward(rank);
      backward(rank);
    }
  }

 private:
  bool divides() const { return what != "none"; }
  bool divides_values() const { return what == "parameters"; }
  void gather(Rank& rank) const { rank.begin(Lane::gathers, exchange(Kind::all_gather)); }

  /// The forward pass, with the gathers of the last update's values: all begin before the pass, or each one unit ahead.
  void forward(Rank& rank) const {
    if (divides())
      for (int unit = 0; unit < (divides_values() ? 1 : units()); ++unit) gather(rank);
    for (int layer = 0; layer < layers; ++layer) {
      if (divides() && begins_unit(layer)) {
        if (divides_values() && unit_of(layer) + 1 < units()) gather(rank);
        rank.wait(Lane::gathers);
      }
      rank.compute(network.forward_ms / layers);
    }
  }

  /// The backward pass, at the beginning of which the last two units of the forward pass are still in their windows.
  void backward(Rank& rank) const {
    for (int layer = layers - 1; layer >= 0; --layer) {
      if (divides_values() && (layer == layers - 1 || begins_unit(layer + 1))) {
        const int unit = unit_of(layer);
        if (unit < units() - 1 && unit > 0) gather(rank);
        if (unit < units() - 2) rank.wait(Lane::gathers);
      }
      rank.compute(network.backward_ms / layers);
      if (begins_unit(layer)) rank.begin(Lane::sums, exchange(divides() ? Kind::reduce_scatter : Kind::all_reduce));
    }
    for (int unit = 0; unit < units(); ++unit) rank.wait(Lane::sums);
  }
};

}  // namespace lockstep
