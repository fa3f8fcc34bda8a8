// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/concat.hpp"

#include "ops/row_parts.hpp"

namespace lockstep {
namespace {

// Columns that one index of the kernel copies.
constexpr std::int64_t chunk = thread_per_element ? 1 : 1024;

/// Copies rows of c elements, which begin at multiples of from_step and to_step.
template <class T>
void copy_rows(const ExecSpace& space, const T* from, std::int64_t from_step, T* to, std::int64_t to_step,
               std::int64_t rows, std::int64_t c) {
  const std::int64_t chunks = (c + chunk - 1) / chunk;
  Kokkos::parallel_for(
      "lockstep::concat::copy_rows", RangePolicy(space, 0, rows * chunks), KOKKOS_LAMBDA(const std::int64_t index) {
        const std::int64_t row = row_of(index, chunks), begin = (index - row * chunks) * chunk;
        const std::int64_t end = begin + chunk < c ? begin + chunk : c;
        for (std::int64_t j = begin; j < end; ++j) to[row * to_step + j] = from[row * from_step + j];
      });
}

}  // namespace

void concat_place(const ExecSpace& space, const Tensor& narrow, std::int64_t first, const Tensor& wide) {
  const Rows size = rows_of(narrow);
  dispatch_float(wide.dtype, [&]<class T>(T) {
    copy_rows<T>(space, narrow.as<const T>(), size.c, wide.as<T>() + first, wide.shape[-1], size.rows, size.c);
  });
}

void concat_take(const ExecSpace& space, const Tensor& wide, std::int64_t first, const Tensor& narrow) {
  const Rows size = rows_of(narrow);
  dispatch_float(wide.dtype, [&]<class T>(T) {
    copy_rows<T>(space, wide.as<const T>() + first, wide.shape[-1], narrow.as<T>(), size.c, size.rows, size.c);
  });
}

}  // namespace lockstep
