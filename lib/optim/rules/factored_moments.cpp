// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "optim/rules/factored_moments.hpp"

#include <algorithm>
#include <cstring>

namespace lockstep {
namespace {

/// Few enough for all threads to have work, and enough for the column sums to take little memory.
constexpr std::int64_t slab_rows = 64;

}  // namespace

FactoredMoments::FactoredMoments(const std::vector<Parameter>& parameters, const std::vector<Parameter>& rows,
                                 const std::vector<Parameter>& columns) {
  std::vector<FactoredMatrix> matrices;
  std::vector<MatrixSlab> slabs;
  std::int64_t sums = 0;
  const auto named = [](const std::vector<Parameter>& states, const std::string& name) {
    return std::ranges::find(states, name, &Parameter::name);
  };
  for (const Parameter& parameter : parameters) {
    const auto row_state = named(rows, parameter.name), column_state = named(columns, parameter.name);
    const bool factored = row_state != rows.end();
    const std::int64_t width = parameter.shape[-1], height = factored ? parameter.shape[-2] : 1;
    for (std::int64_t m = 0; m < parameter.shape.count() / (width * height); ++m) {
      const auto first_slab = std::ssize(slabs);
      for (std::int64_t row = 0; row < height; row += slab_rows, sums += width)
        slabs.push_back({.matrix = std::ssize(matrices),
                         .first_row = row,
                         .rows = std::min(slab_rows, height - row),
                         .sums = sums});
      matrices.push_back({.first = parameter.range.first + m * width * height,
                          .rows = height,
                          .columns = width,
                          .row_state = factored ? row_state->range.first + m * height : 0,
                          .column_state = column_state->range.first + m * width,
                          .first_slab = first_slab,
                          .slabs = std::ssize(slabs) - first_slab,
                          .factored = factored});
    }
  }
  matrix_count_ = std::ssize(matrices);
  slab_count_ = std::ssize(slabs);
  const std::size_t matrix_bytes = matrices.size() * sizeof(FactoredMatrix),
                    bytes = matrix_bytes + slabs.size() * sizeof(MatrixSlab);
  tables_ = Buffer("lockstep::factored_moments::tables", bytes);
  std::vector<std::byte> tables(bytes);
  if (bytes > 0) {
    std::memcpy(tables.data(), matrices.data(), matrix_bytes);
    std::memcpy(tables.data() + matrix_bytes, slabs.data(), bytes - matrix_bytes);
    copy_from_host(ExecSpace(), tables.data(), tables_.tensor(0, DType::u8, {static_cast<std::int64_t>(bytes)}));
  }
  column_sums_ = OwnedTensor("lockstep::factored_moments::column_sums", DType::f64, {std::max<std::int64_t>(1, sums)});
  row_means_ = OwnedTensor("lockstep::factored_moments::row_means", DType::f64,
                           {std::max<std::int64_t>(1, matrix_count_)});
}

MomentArrays FactoredMoments::arrays() const {
  return {.matrices = reinterpret_cast<const FactoredMatrix*>(tables_.data()),
          .matrix_count = matrix_count_,
          .slabs = reinterpret_cast<const MatrixSlab*>(tables_.data() + static_cast<std::size_t>(matrix_count_) *
                                                                            sizeof(FactoredMatrix)),
          .slab_count = slab_count_,
          .column_sums = column_sums_.get().as<double>(),
          .row_means = row_means_.get().as<double>()};
}

}  // namespace lockstep
