// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"
#include "parameters/parameter_layout.hpp"

// The average of squared gradients of [..., R, C], kept as averages over the columns of each row, [..., R], and over
// the rows of each column, [..., C]: their product divided by the mean over the rows is the best rank-1 approximation
// (Shazeer & Stern 2018). Parameters of one dimension are a single row, which keeps the averages of all its columns and
// none for the row.
namespace lockstep {

/// One matrix of a parameter.
struct FactoredMatrix {
  std::int64_t first = 0;  ///< index of its first element in the flat buffer
  std::int64_t rows = 0, columns = 0;
  std::int64_t row_state = 0, column_state = 0;  ///< indices of its first averages in the states
  std::int64_t first_slab = 0, slabs = 0;
  bool factored = true;  ///< false for parameters of one dimension
};

/// Consecutive rows of a matrix, which one team processes.
struct MatrixSlab {
  std::int64_t matrix = 0;
  std::int64_t first_row = 0, rows = 0;
  std::int64_t sums = 0;  ///< index of its column sums
};

struct MomentArrays {
  const FactoredMatrix* matrices = nullptr;
  std::int64_t matrix_count = 0;
  const MatrixSlab* slabs = nullptr;
  std::int64_t slab_count = 0;
  double* column_sums = nullptr;  ///< for each slab and column
  double* row_means = nullptr;    ///< for each matrix: the mean of its row averages
};

/// The tables of matrices and slabs that kernels read, and the memory for intermediate results.
class FactoredMoments {
 public:
  /// `rows`, `columns`: the layouts of the two states; `parameters`: the trained parameters that the rank owns.
  FactoredMoments(const std::vector<Parameter>& parameters, const std::vector<Parameter>& rows,
                  const std::vector<Parameter>& columns);
  MomentArrays arrays() const;

 private:
  std::int64_t matrix_count_ = 0, slab_count_ = 0;
  Buffer tables_;
  OwnedTensor column_sums_, row_means_;
};

}  // namespace lockstep
