// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "nn/parameters/parameter_buffer.hpp"
#include "nn/pass_hooks.hpp"
#include "nn/plan/step_plan.hpp"
#include "nn/statistics_in_flight.hpp"

namespace lockstep {

/// Products in the backward pass of as many operations as a node's large product, forward.
int backward_products(const GraphNode& node, const StepPlan& plan);

/// Operations of the large products of n examples, forward and backward; layers must be planned.
double training_flops(const Graph& graph, const StepPlan& plan, std::int64_t n);

/// A network ready to run: graph, parameters, one arena for activations, one workspace.
class Model {
 public:
  struct Options {
    DType dtype = DType::f32;
    ProvidersConfig providers;
    std::int64_t max_batch = 1;
    Purpose purpose = Purpose::training;
    Checkpointing checkpointing = Checkpointing::none;
    /// Not 0: the output may be made, and used up, in tiles of about so many bytes (StepPlan::tile_rows). Then
    /// `forward` is given who uses them.
    std::size_t tile_bytes = 0;
    ParameterWindows windows;  ///< of what of the parameters is divided, as planned for the step's plan
    ParameterMemory memory;    ///< of the parameters
  };

  /// The output of a batch, or some rows of it.
  struct Output {
    Tensor values;           ///< [n, output_shape…], or [rows, K] of a tile
    Tensor gradient;         ///< in training, where the loss puts theirs; mostly the same memory
    std::int64_t first = 0;  ///< row of the whole output
    bool whole = true, last = true;
  };
  using UseOutput = std::function<void(const Output&)>;

  Model(Graph graph, const Options& options);
  /// `plan`: what plan_model(graph, options) gives.
  Model(Graph graph, const Options& options, StepPlan plan);

  /// From here on, these take part in passes.
  void attach(const PassHooks& hooks) {
    hooks_ = hooks;
    statistics_.attach(hooks.statistics);
  }

  /// input [n, input_shape…] → output [n, output_shape…], n ≤ max_batch; both stay until the next forward. Of models
  /// without tiles.
  Tensor forward(const StepContext& context, const Tensor& input);
  /// A forward pass of any model, with tiles or without: `use` gets the output as it is made. In training it leaves the
  /// gradient of each tile, whose backward pass follows at once. Without examples, nobody is asked.
  void forward(const StepContext& context, const Tensor& input, const UseOutput& use);

  /// Where the loss puts the gradient of the last forward's output; mostly where the output stands.
  Tensor output_gradient() const;

  /// Fills the parameters' gradients. `ready` is called with ranges that follow each other in the buffer, each as
  /// soon as it is final.
  using Ready = std::function<void(ParameterRange)>;
  void backward(const StepContext& context, const Tensor& input, const Ready& ready);

  const Graph& graph() const { return graph_; }
  const StepPlan& plan() const { return plan_; }
  /// Makes every layer ready for batches of n ≤ max_batch examples; without it, the first such batch does.
  void prepare(std::int64_t n);

  /// Memory of all layers, one after the other; another one once the model is ready for a batch that needs more.
  const std::byte* workspace() const { return workspace_.data(); }

  ParameterBuffer& parameters() { return parameters_; }
  const ParameterBuffer& parameters() const { return parameters_; }

  double training_flops(std::int64_t n) const { return lockstep::training_flops(graph_, plan_, n); }

 private:
  Model(std::pair<Graph, StepPlan> planned, const Options& options);

  /// Some examples of the batch.
  struct Chunk {
    std::int64_t first, count;
  };

  /// Calls visit(task, chunk) for the tasks of one chunk, then for those of the next.
  template <class Visit>
  void for_chunks(const Segment& segment, Visit visit) const;
  void enter(const StepContext& context, int time) {
    if (hooks_.traffic) hooks_.traffic->enter(context.space, time);
  }
  /// A node is next in a forward pass: waits for its parameters, and for all that follow them.
  void begin_layer(const StepContext& context, std::size_t node);
  void await_parameters_from(const StepContext& context, std::int64_t first);
  void run_segments(const StepContext& context, const Tensor& input);
  void run_tiles(const StepContext& context, const Tensor& input, const UseOutput& use);
  void run(const StepContext& context, const Task& task, const Chunk& chunk, const Tensor& input);
  void run_backward(const StepContext& context, const Task& task, const Chunk& chunk, const Tensor& input);
  LayerTensors tensors_of(std::size_t node, std::span<const Tensor> x, const Tensor& y, const Chunk& chunk,
                          bool backward) const;
  Tensor output_of(int node, const Chunk& chunk, const Tensor& input, bool backward) const;
  Tensor at(const Allocation& place, const Shape& example, const Chunk& chunk) const;

  Graph graph_;
  Options options_;
  StepPlan plan_;
  ParameterBuffer parameters_;
  Buffer arena_;
  Buffer workspace_;
  std::set<std::int64_t> prepared_;
  std::int64_t batch_ = 0;  ///< of the last forward
  PassHooks hooks_;
  StatisticsInFlight statistics_;
};

/// Plans every layer, and then the step.
StepPlan plan_model(Graph& graph, const Model::Options& options);

/// Makes every layer of a planned graph ready for batches of n examples; returns the workspace that they need.
std::size_t prepare_layers(Graph& graph, const StepPlan& plan, std::int64_t n);

}  // namespace lockstep
