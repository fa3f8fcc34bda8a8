// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>

#include "nn/parameter_arrival.hpp"
#include "nn/parameters/parameter_windows.hpp"
#include "nn/statistics_exchange.hpp"

namespace lockstep {

/// Who takes part in the passes of a network: all that `nn` knows of other ranks. They outlive the network.
struct PassHooks {
  /// Layers wait in forward passes until their parameters are there; null: they always are.
  ParameterArrival* arrival = nullptr;
  /// Is told before layers of each time run, and all ranks call forward and backward equally often; null: nothing is
  /// divided.
  WindowTraffic* traffic = nullptr;
  /// Layers that need the whole batch ask other ranks, too. All of them then call forward and backward equally often,
  /// with 0 examples where they have none left; null: each for itself.
  StatisticsExchange* statistics = nullptr;
  /// Is called before each layer of a forward pass; empty: nobody is.
  std::function<void(const ExecSpace&)> on_layer = {};

  bool any() const { return arrival || traffic || statistics || on_layer; }
};

}  // namespace lockstep
