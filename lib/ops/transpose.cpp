// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/transpose.hpp"

#include "ops/row_parts.hpp"

namespace lockstep {
namespace {

template <class T, class U>
void transpose_elements(const ExecSpace& space, std::int64_t count, std::int64_t rows, std::int64_t columns, const T* x,
                        U* y, bool add) {
  Kokkos::parallel_for(
      "lockstep::transpose", RangePolicy(space, 0, count), KOKKOS_LAMBDA(const std::int64_t index) {
        const std::int64_t line = row_of(index, rows), row = index - line * rows;
        const std::int64_t matrix = row_of(line, columns), column = line - matrix * columns;
        const U value(x[(matrix * rows + row) * columns + column]);
        y[index] = add ? U(y[index] + value) : value;
      });
}

}  // namespace

void transpose(const ExecSpace& space, const Tensor& x, const Tensor& y, Store store) {
  dispatch_float(x.dtype, [&]<class T>(T) {
    const auto run = [&](auto* to) {
      transpose_elements(space, x.count(), x.shape[1], x.shape[2], x.as<const T>(), to, store == Store::add);
    };
    if (y.dtype == x.dtype) run(y.as<T>());
    else run(y.as<Compute<T>>());
  });
}

}  // namespace lockstep
