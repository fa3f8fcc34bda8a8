// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>

#include "nn/parameter_arrival.hpp"
#include "nn/parameters/unshard_plan.hpp"
#include "nn/statistics_exchange.hpp"

namespace lockstep {

/// The participants in a network's passes, which are all that `nn` knows of other ranks. They must outlive the network.
struct PassHooks {
  /// In forward passes, layers wait here until their parameters have arrived; null: the parameters are always present.
  ParameterArrival* arrival = nullptr;
  /// Told before the layers of each time run (UnshardPlan). All ranks must call forward and backward equally
  /// often. Null: neither values nor gradients are divided.
  WindowTraffic* traffic = nullptr;
  /// Joins the batch statistics of layers with those of other ranks. All ranks must then call forward and backward
  /// equally often, with 0 examples if they have none left. Null: each rank uses its own statistics.
  StatisticsExchange* statistics = nullptr;
  /// Called before each layer of a forward pass; may be empty.
  std::function<void(const ExecSpace&)> on_layer = {};

  bool any() const { return arrival || traffic || statistics || on_layer; }
};

}  // namespace lockstep
