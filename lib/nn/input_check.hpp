// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "nn/graph.hpp"

namespace lockstep {

/// Makes the outputs of an example NaN if its inputs are not all finite, or name rows that an embedding table lacks, so
/// that losses, evaluations and predictions show it. Layers alone do not guarantee this: libraries' ReLU turns NaN into
/// 0.
class InputCheck {
 public:
  /// For batches of up to `max_batch` examples. `graph` is not used after the constructor.
  InputCheck(const Graph& graph, std::int64_t max_batch);

  /// Looks at the inputs of a batch: [n, …]. Tokens (i32) have been checked when they were read.
  void look(const ExecSpace& space, const Tensor& input);
  /// Fills the rows of the batch's bad examples with NaN in `outputs` [rows, …], which are the rows from `first` on of
  /// the network's output.
  void mark(const ExecSpace& space, std::int64_t first, const Tensor& outputs) const;

 private:
  std::int64_t rows_of_example_;  ///< rows of one example's output
  OwnedTensor tables_;            ///< i64, Graph::tables_of_data
  OwnedTensor flags_;             ///< i32 [max_batch], not 0 for bad examples of the last batch
  bool looks_ = false;            ///< false for tokens
};

}  // namespace lockstep
