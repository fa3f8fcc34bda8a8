// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>
#include <set>
#include <utility>

#include "nn/graph.hpp"
#include "nn/pass_hooks.hpp"
#include "nn/plan/execution_plan.hpp"
#include "parameters/parameter_buffer.hpp"

namespace lockstep {

/// Makes the outputs of an example NaN if its inputs are not all finite, or name rows that an embedding table lacks, so
/// that losses, evaluations and predictions show it. Layers alone do not guarantee this: libraries' ReLU turns NaN into
/// 0.
class InputCheck {
 public:
  /// For batches of up to `max_batch` examples. `graph` is not used after the constructor.
  InputCheck(const Graph& graph, std::int64_t max_batch);

  /// Looks at the inputs of a batch: [n, …]. Tokens (i32) have been checked when they were read.
  void inspect(const ExecSpace& space, const Tensor& input);
  /// Fills the rows of the batch's bad examples with NaN in `outputs` [rows, …], which are the rows from `first` on of
  /// the network's output.
  void mark(const ExecSpace& space, std::int64_t first, const Tensor& outputs) const;

 private:
  std::int64_t rows_of_example_;  ///< rows of one example's output
  OwnedTensor tables_;            ///< i64, Graph::tables_of_data
  OwnedTensor flags_;             ///< i32 [max_batch], not 0 for bad examples of the last batch
  bool inspects_ = false;         ///< false for tokens
};

/// Number of large matrix products in a node's backward pass, each with as many operations as the forward product.
int backward_products(const GraphNode& node, const ExecutionPlan& plan);

/// Floating-point operations of the large matrix products in forward and backward passes of n examples. The layers must
/// have been planned.
double training_flops(const Graph& graph, const ExecutionPlan& plan, std::int64_t n);

/// A network ready to run: its graph, its parameters, one arena for activations and one workspace.
class Model {
 public:
  struct Options {
    DType dtype = DType::f32;
    ProvidersConfig providers;
    std::int64_t max_batch = 1;
    Purpose purpose = Purpose::training;
    Checkpointing checkpointing = Checkpointing::none;
    /// Not 0: the output may be produced and consumed in tiles of about this many bytes (ExecutionPlan::tile_rows).
    /// `forward` must then be called with a consumer.
    std::size_t tile_bytes = 0;
    UnshardPlan windows;     ///< where divided parameters lie, planned for the step's plan
    ParameterMemory memory;  ///< memory for the parameters
  };

  /// The output of a batch, or of some of its rows.
  struct Output {
    Tensor values;           ///< [n, output_shape…], or [rows, K] for a tile
    Tensor gradient;         ///< in training, where the loss stores the gradient of `values`; usually the same memory
    std::int64_t first = 0;  ///< number of the first row in the whole output
    bool whole = true, last = true;
  };
  using UseOutput = std::function<void(const Output&)>;

  Model(Graph graph, const Options& options);
  /// `plan` is the result of plan_model(graph, options).
  Model(Graph graph, const Options& options, ExecutionPlan plan);

  /// Makes these hooks take part in all later passes.
  void attach(const PassHooks& hooks) {
    hooks_ = hooks;
    statistics_.attach(hooks.statistics);
  }

  /// input [n, input_shape…] → output [n, output_shape…], n ≤ max_batch. Both must stay unchanged until the next
  /// forward pass. Only for models without tiles.
  Tensor forward(const PassContext& context, const Tensor& input);
  /// A forward pass of any model, with or without tiles: `use` receives the output as it is produced. In training,
  /// `use` leaves the gradient of each tile, whose backward pass follows at once. `use` is not called if there are no
  /// examples.
  void forward(const PassContext& context, const Tensor& input, const UseOutput& use);

  /// Where the loss stores the gradient of the last forward pass's output; usually the memory of the output.
  Tensor output_gradient() const;

  /// Computes the parameters' gradients. `ready` is called for consecutive ranges of the gradient buffer, each as soon
  /// as it is final.
  using Ready = std::function<void(ElementRange)>;
  void backward(const PassContext& context, const Tensor& input, const Ready& ready);

  const Graph& graph() const { return graph_; }
  const ExecutionPlan& plan() const { return plan_; }
  /// Prepares every layer for batches of n ≤ max_batch examples. Otherwise the first batch of that size does so.
  void prepare(std::int64_t n);

  /// The workspace, which all layers use in turn. It is reallocated when the model is prepared for a batch that needs
  /// more.
  const std::byte* workspace() const { return workspace_.data(); }

  ParameterBuffer& parameters() { return parameters_; }
  const ParameterBuffer& parameters() const { return parameters_; }

  double training_flops(std::int64_t n) const { return lockstep::training_flops(graph_, plan_, n); }

 private:
  Model(std::pair<Graph, ExecutionPlan> planned, const Options& options);

  /// A range of consecutive examples of the batch.
  struct Chunk {
    std::int64_t first, count;
  };

  /// Calls visit(task, chunk) for all tasks of the first chunk, then for those of the next, and so on.
  template <class Visit>
  void for_chunks(const Segment& segment, Visit visit) const;
  void enter(const PassContext& context, int time) {
    if (hooks_.traffic) hooks_.traffic->enter(context.space, time);
  }
  /// Called before a node runs in a forward pass: waits for its parameters and for all that follow them in the buffer.
  void begin_layer(const PassContext& context, std::size_t node);
  void await_parameters_from(const PassContext& context, std::int64_t first);
  void run_segments(const PassContext& context, const Tensor& input);
  void run_tiles(const PassContext& context, const Tensor& input, const UseOutput& use);
  void run(const PassContext& context, const Task& task, const Chunk& chunk, const Tensor& input);
  void run_backward(const PassContext& context, const Task& task, const Chunk& chunk, const Tensor& input);
  LayerTensors tensors_of(std::size_t node, std::span<const Tensor> x, const Tensor& y, const Chunk& chunk,
                          bool backward) const;
  Tensor output_of(int node, const Chunk& chunk, const Tensor& input, bool backward) const;
  Tensor at(const Allocation& place, const Shape& example, const Chunk& chunk) const;

  Graph graph_;
  Options options_;
  ExecutionPlan plan_;
  ParameterBuffer parameters_;
  Buffer arena_;
  Buffer workspace_;
  std::set<std::int64_t> prepared_;
  std::int64_t batch_ = 0;  ///< examples of the last forward pass
  InputCheck input_check_;
  PassHooks hooks_;
  StatisticsInFlight statistics_;
};

/// Plans every layer and then the step.
ExecutionPlan plan_model(Graph& graph, const Model::Options& options);

/// Prepares every layer of a planned graph for batches of n examples; returns the workspace that they need, in bytes.
std::size_t prepare_layers(Graph& graph, const ExecutionPlan& plan, std::int64_t n);

}  // namespace lockstep
