// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <vector>

#include "data/upload.hpp"
#include "nn/model.hpp"
#include "run/deck/run_config.hpp"

namespace lockstep {

/// A network that is not trained any more, on examples in host memory (or on the device). Its parameters are to be
/// loaded (TrainedModel).
class Inference {
 public:
  /// On at most `max_batch` examples at once, of this format (of whose targets nothing is read).
  Inference(const RunConfig& config, Graph graph, const ExampleFormat& format, std::int64_t max_batch);

  Model& model() { return model_; }
  const Model& model() const { return model_; }
  /// Writes the outputs of the examples from `first` on, at most max_batch, to `outputs`, f32 or f64 [count, output…].
  /// Where an example's inputs are not all finite, they are NaN.
  void compute(const ExecSpace& space, const HostBatch& batch, std::int64_t first, std::int64_t count,
               const Tensor& outputs);

 private:
  bool flag_nonfinite(const ExecSpace& space, const HostBatch& batch, std::int64_t first, std::int64_t count);

  ExampleFormat format_;
  Model model_;
  BatchUploader uploader_;
  bool has_computed_ = false;
  OwnedTensor flags_;                        ///< i32 [max_batch]: not 0 where an example's inputs are not all finite
  std::vector<std::int32_t> flags_on_host_;  ///< from where they are copied
};

/// Numbers of outputs' type, as users get them: f32, or f64.
inline DType output_type(DType compute) { return compute == DType::f64 ? DType::f64 : DType::f32; }

/// How many examples are computed at once, unless there are fewer: whatever the number of ranks, since results may
/// depend on how many are computed together.
std::int64_t inference_batch(const RunConfig& config, const Graph& graph);

}  // namespace lockstep
