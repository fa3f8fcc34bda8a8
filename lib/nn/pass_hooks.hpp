// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/tensor.hpp"
#include "nn/plan/execution_plan.hpp"
#include "parameters/parameter_buffer.hpp"

namespace lockstep {

/// Joins the batch statistics of layers with those of other ranks. All ranks must call it for the same layers in the
/// same order, including ranks without examples (rows = 0).
class StatisticsExchange {
 public:
  using Layers = std::span<BatchStatistics* const>;

  virtual ~StatisticsExchange() = default;
  /// Starts to replace rows and moments by those of all ranks. Must be finished before the next exchange starts.
  virtual void start_moments(const ExecSpace& space, Layers layers) = 0;
  /// Starts to replace the layers' sums by those of all ranks. Must be finished before the next exchange starts.
  virtual void start_sums(const ExecSpace& space, Layers layers) = 0;
  virtual void finish(const ExecSpace& space) = 0;
};

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

/// Carries the batch statistics of layers from where a rank has observed all of its examples to where layers need the
/// statistics of the whole batch. In between they are exchanged with other ranks, if these have some of the examples.
class StatisticsInFlight {
 public:
  /// `exchange`: null if each rank's statistics are its own.
  void attach(StatisticsExchange* exchange) { exchange_ = exchange; }

  /// Called when all of this rank's `examples` have been through the segment: starts the exchange of the statistics
  /// that its layers have observed in tasks of kind `observed`.
  void send(const PassContext& context, Graph& graph, const Segment& segment, Task::Kind observed,
            std::int64_t examples);
  /// Waits for the exchange in progress if the segment needs its results.
  void await(const PassContext& context, const Graph& graph, const Segment& segment);
  /// Waits for the exchange in progress, if any.
  void finish(const PassContext& context);

 private:
  StatisticsExchange* exchange_ = nullptr;
  std::vector<Layer*> layers_;                ///< the layers whose statistics are being exchanged
  std::vector<BatchStatistics*> statistics_;  ///< the statistics of these layers
  bool are_moments_ = false;                  ///< true for moments (forward pass), false for sums (backward pass)
  std::int64_t examples_ = 0;                 ///< number of this rank's examples that they cover
};

}  // namespace lockstep
