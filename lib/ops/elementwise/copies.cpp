// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/elementwise/copies.hpp"

#include "core/packs.hpp"
#include "ops/row_parts.hpp"

namespace lockstep {
namespace {

template <class From, class To>
void convert(const ExecSpace& space, std::int64_t count, const From* x, To* y) {
  for_elements(
      space, "lockstep::convert", count,
      KOKKOS_LAMBDA(std::int64_t, const From& in, To& out) {
        out = static_cast<To>(static_cast<Compute<To>>(static_cast<Compute<From>>(in)));
      },
      Reads(x), Writes(y));
}

template <class From, class To>
void add_converted(const ExecSpace& space, std::int64_t count, const From* x, To* y) {
  using C = Compute<To>;
  for_elements(
      space, "lockstep::add_converted", count,
      KOKKOS_LAMBDA(std::int64_t, const From& in, To& sum) {
        sum = static_cast<To>(static_cast<C>(sum) + static_cast<C>(static_cast<Compute<From>>(in)));
      },
      Reads(x), Updates(y));
}

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

void convert(const ExecSpace& space, const Tensor& x, const Tensor& y) {
  dispatch_float(x.dtype, [&]<class From>(From) {
    dispatch_float(y.dtype, [&]<class To>(To) { convert<From, To>(space, x.count(), x.as<const From>(), y.as<To>()); });
  });
}

void add_converted(const ExecSpace& space, const Tensor& x, const Tensor& y) {
  dispatch_float(x.dtype, [&]<class From>(From) {
    dispatch_float(y.dtype,
                   [&]<class To>(To) { add_converted<From, To>(space, x.count(), x.as<const From>(), y.as<To>()); });
  });
}

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
