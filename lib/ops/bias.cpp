// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/bias.hpp"

#include <algorithm>
#include <cassert>

namespace lockstep {
namespace {

using Range = Kokkos::RangePolicy<ExecSpace, Kokkos::IndexType<std::int64_t>>;

// Columns that one index of a kernel works on: on CPUs a few vectors, whose sums stay in registers;
// on GPUs one, so that neighbouring threads read neighbouring numbers.
constexpr int tile = kernels_run_on_host ? 32 : 1;
// Rows that are summed before the sum joins the total: keeps rounding errors small (two levels).
constexpr std::int64_t block_rows = 64;

struct Rows {
  std::int64_t rows, c;
};

Rows rows_of(const Tensor& y) {
  const std::int64_t c = y.shape[-1];
  return {c == 0 ? 0 : y.count() / c, c};
}

/// How many parts the rows are summed in.
std::int64_t parts_of(const ExecSpace& space, std::int64_t rows) {
  if (space.concurrency() == 1) return 1;
  const std::int64_t wanted = kernels_run_on_host ? space.concurrency() : 512;
  return std::clamp<std::int64_t>((rows + block_rows - 1) / block_rows, 1, wanted);
}

template <Activation activation, class T>
KOKKOS_INLINE_FUNCTION T activated(T value) {
  if constexpr (activation == Activation::relu) return value < T(0) ? T(0) : value;  // NaN stays NaN
  else return value;
}

template <Activation activation, class T>
void forward(const ExecSpace& space, const T* bias, T* y, std::int64_t rows, std::int64_t c) {
  const std::int64_t tiles = (c + tile - 1) / tile;
  const std::int64_t rows_each = kernels_run_on_host ? 16 : 1;
  const std::int64_t groups = (rows + rows_each - 1) / rows_each;
  Kokkos::parallel_for(
      "lockstep::bias::forward", Range(space, 0, groups * tiles),
      KOKKOS_LAMBDA(const std::int64_t index) {
        const std::int64_t group = index / tiles;
        const std::int64_t first = (index - group * tiles) * tile;
        const int width = static_cast<int>(c - first < tile ? c - first : tile);
        const std::int64_t end = (group + 1) * rows_each < rows ? (group + 1) * rows_each : rows;
        for (std::int64_t row = group * rows_each; row < end; ++row) {
          T* line = y + row * c + first;
          if (width == tile) {
            for (int j = 0; j < tile; ++j)
              line[j] = activated<activation>(bias != nullptr ? line[j] + bias[first + j] : line[j]);
          } else {
            for (int j = 0; j < width; ++j)
              line[j] = activated<activation>(bias != nullptr ? line[j] + bias[first + j] : line[j]);
          }
        }
      });
}

/// Rows [begin, end) of `width` columns; adds up what it leaves in dy.
template <Activation activation, bool sums, class T>
KOKKOS_INLINE_FUNCTION void backward_rows(const T* y, T* dy, std::int64_t c, std::int64_t begin, std::int64_t end,
                                          int width, T* sum) {
  for (std::int64_t row = begin; row < end; ++row) {
    const T* result = y + row * c;
    T* gradient = dy + row * c;
    for (int j = 0; j < width; ++j) {
      T value = gradient[j];
      if constexpr (activation == Activation::relu) {
        value = result[j] > T(0) ? value : T(0);
        gradient[j] = value;
      }
      if constexpr (sums) sum[j] += value;
    }
  }
}

/// partial[part, c] = the column sums of that part of the rows, or (+)= when it is the only part.
template <Activation activation, bool sums, class T>
void backward(const ExecSpace& space, const T* y, T* dy, T* partial, bool add, std::int64_t rows, std::int64_t c,
              std::int64_t parts) {
  const std::int64_t tiles = (c + tile - 1) / tile;
  Kokkos::parallel_for(
      "lockstep::bias::backward", Range(space, 0, parts * tiles),
      KOKKOS_LAMBDA(const std::int64_t index) {
        const std::int64_t part = index / tiles;
        const std::int64_t first = (index - part * tiles) * tile;
        const int width = static_cast<int>(c - first < tile ? c - first : tile);
        const std::int64_t end = rows * (part + 1) / parts;
        T total[tile] = {};
        for (std::int64_t begin = rows * part / parts; begin < end; begin += block_rows) {
          const std::int64_t stop = begin + block_rows < end ? begin + block_rows : end;
          T sum[tile] = {};
          if (width == tile) {
            backward_rows<activation, sums>(y + first, dy + first, c, begin, stop, tile, sum);
          } else {
            backward_rows<activation, sums>(y + first, dy + first, c, begin, stop, width, sum);
          }
          for (int j = 0; j < tile; ++j) total[j] += sum[j];
        }
        if (sums) {  // not `if constexpr`: nvcc forbids first captures in there
          T* out = partial + part * c + first;
          for (int j = 0; j < width; ++j) out[j] = add ? out[j] + total[j] : total[j];
        }
      });
}

template <class T>
void sum_parts(const ExecSpace& space, const T* partial, T* dbias, bool add, std::int64_t c, std::int64_t parts) {
  Kokkos::parallel_for(
      "lockstep::bias::sum_parts", Range(space, 0, c), KOKKOS_LAMBDA(const std::int64_t j) {
        T sum = T(0);
        for (std::int64_t part = 0; part < parts; ++part) sum += partial[part * c + j];
        dbias[j] = add ? dbias[j] + sum : sum;
      });
}

template <class T>
void run_backward(const ExecSpace& space, Activation activation, const Tensor& y, const Tensor& dy,
                  const Tensor& dbias, Store store, const Tensor& workspace) {
  const auto [rows, c] = rows_of(dy);
  const bool relu = activation == Activation::relu;
  const T* result = relu ? y.as<const T>() : dy.as<const T>();
  T* gradient = dy.as<T>();
  if (!dbias) {
    if (relu) backward<Activation::relu, false, T>(space, result, gradient, nullptr, false, rows, c, parts_of(space, rows));
    return;
  }
  const std::int64_t parts = parts_of(space, rows);
  const bool add = store == Store::add;
  const bool alone = parts == 1;
  assert(alone || workspace.bytes() >= bias_workspace_bytes(space, dy.dtype, rows, c));
  T* partial = alone ? dbias.as<T>() : static_cast<T*>(workspace.data);
  if (relu) backward<Activation::relu, true, T>(space, result, gradient, partial, alone && add, rows, c, parts);
  else backward<Activation::none, true, T>(space, result, gradient, partial, alone && add, rows, c, parts);
  if (!alone) sum_parts<T>(space, partial, dbias.as<T>(), add, c, parts);
}

template <class T>
void run_forward(const ExecSpace& space, const Tensor& bias, Activation activation, const Tensor& y) {
  if (!bias && activation == Activation::none) return;
  const auto [rows, c] = rows_of(y);
  const T* b = bias ? bias.as<const T>() : nullptr;
  if (activation == Activation::relu) forward<Activation::relu, T>(space, b, y.as<T>(), rows, c);
  else forward<Activation::none, T>(space, b, y.as<T>(), rows, c);
}

}  // namespace

void bias_activation_forward(const ExecSpace& space, const Tensor& bias, Activation activation, const Tensor& y) {
  dispatch_float(y.dtype, [&](auto real) { run_forward<decltype(real)>(space, bias, activation, y); });
}

void bias_activation_backward(const ExecSpace& space, Activation activation, const Tensor& y, const Tensor& dy,
                              const Tensor& dbias, Store store, const Tensor& workspace) {
  dispatch_float(dy.dtype, [&](auto real) {
    run_backward<decltype(real)>(space, activation, y, dy, dbias, store, workspace);
  });
}

std::size_t bias_workspace_bytes(const ExecSpace& space, DType dtype, std::int64_t rows, std::int64_t c) {
  const std::int64_t parts = parts_of(space, rows);
  return parts == 1 ? 0 : static_cast<std::size_t>(parts * c) * size_of(dtype);
}

}  // namespace lockstep
