// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>
#include <set>
#include <vector>

#include "core/memory_plan.hpp"
#include "nn/graph.hpp"
#include "nn/parameter_buffer.hpp"

namespace lockstep {

/// Where everything lives that a step keeps, worked out from the graph before the first step.
struct ActivationPlan {
  /// Of each node: its output, the gradient of its output, and what its layer saves; views share
  /// those of the node that they look at. no_place where there is none.
  static constexpr std::size_t no_place = static_cast<std::size_t>(-1);
  std::vector<int> owner;  ///< the node whose memory a node's output is, or GraphNode::data
  std::vector<std::size_t> output, gradient, saved;
  /// Where input k of node i puts its gradient when another layer has put one there before: it goes
  /// to this place, and is then added. no_place: straight to the owner's gradient.
  std::vector<std::vector<std::size_t>> detour;
  std::size_t bytes = 0;
};
enum class Purpose { inference, training };
ActivationPlan plan_activations(const Graph& graph, DType dtype, std::int64_t max_batch, Purpose purpose);

/// Operations of the large products of n examples, forward and backward; layers must be planned.
double training_flops(const Graph& graph, const ActivationPlan& plan, std::int64_t n);

/// A network ready to run: graph, parameters, one arena for activations, one workspace.
class Model {
 public:
  struct Options {
    DType dtype = DType::f32;
    ProvidersConfig providers;
    std::int64_t max_batch = 1;
    Purpose purpose = Purpose::training;
  };

  Model(Graph graph, const Options& options);

  /// input [n, input_shape…] → output [n, output_shape…], n ≤ max_batch; both stay until the next forward.
  Tensor forward(const StepContext& context, const Tensor& input);

  /// Where the loss puts the gradient of the last forward's output.
  Tensor output_gradient() const;

  /// Fills the parameters' gradients. `ready` is called with a layer's range as soon as it is final.
  using Ready = std::function<void(ParameterRange)>;
  void backward(const StepContext& context, const Tensor& input, const Ready& ready);

  const Graph& graph() const { return graph_; }
  /// Makes every layer ready for batches of n ≤ max_batch examples; without it, the first such batch does.
  void prepare(std::int64_t n);

  ParameterBuffer& parameters() { return parameters_; }
  const ParameterBuffer& parameters() const { return parameters_; }

  double training_flops(std::int64_t n) const { return lockstep::training_flops(graph_, plan_, n); }

 private:
  Tensor output_of(int node, const Tensor& input) const;
  Tensor place(std::size_t offset, const Shape& shape) const;

  Graph graph_;
  Options options_;
  ParameterBuffer parameters_;
  ActivationPlan plan_;
  Buffer arena_;
  Buffer workspace_;
  std::set<std::int64_t> prepared_;
  std::int64_t batch_ = 0;  ///< of the last forward
};

}  // namespace lockstep
