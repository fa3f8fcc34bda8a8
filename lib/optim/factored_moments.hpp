// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"
#include "nn/parameters/parameter_layout.hpp"

// The average square of gradients of [..., R, C], kept as averages over the columns of each row, [..., R], and over the
// rows of each column, [..., C]: their product over the rows' mean is nearest to it (Shazeer & Stern 2018). Parameters
// of one dimension are a single row, which has all of its columns' averages, and none of its own.
namespace lockstep {

/// One matrix of a parameter.
struct FactoredMatrix {
  std::int64_t first = 0;  ///< in the flat buffer
  std::int64_t rows = 0, columns = 0;
  std::int64_t row_state = 0, column_state = 0;  ///< places of the first ones in their states
  std::int64_t first_slab = 0, slabs = 0;
  bool factored = true;  ///< false: parameters of one dimension
};

/// Neighbouring rows of a matrix, which a team takes together.
struct MatrixSlab {
  std::int64_t matrix = 0;
  std::int64_t first_row = 0, rows = 0;
  std::int64_t sums = 0;  ///< place of its sums of columns
};

struct MomentArrays {
  const FactoredMatrix* matrices = nullptr;
  std::int64_t matrix_count = 0;
  const MatrixSlab* slabs = nullptr;
  std::int64_t slab_count = 0;
  double* column_sums = nullptr;  ///< of each slab
  double* row_means = nullptr;    ///< of each matrix, the mean of its rows' averages
};

/// What kernels know of the matrices, and the memory in between.
class FactoredMoments {
 public:
  /// `rows`, `columns`: where the states of parameters lie; `parameters`: likewise those that are trained and owned.
  FactoredMoments(const std::vector<Parameter>& parameters, const std::vector<Parameter>& rows,
                  const std::vector<Parameter>& columns);
  MomentArrays arrays() const;

 private:
  std::int64_t matrix_count_ = 0, slab_count_ = 0;
  Buffer tables_;
  OwnedTensor column_sums_, row_means_;
};

}  // namespace lockstep
