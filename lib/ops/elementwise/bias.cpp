// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/elementwise/elementwise.hpp"

#include <cassert>

#include "ops/activation_math.hpp"
#include "ops/column_sums.hpp"

namespace lockstep {
namespace {

/// The CPU version: a thread processes whole rows.
template <Activation activation, bool keeps, class T, class C>
void forward(const ExecSpace& space, const C* bias, T* y, T* derivative, std::int64_t rows, std::int64_t c) {
  const std::int64_t elements = rows * c, each = 16 * c;
  Kokkos::parallel_for(
      "lockstep::bias::forward", RangePolicy(space, 0, (elements + each - 1) / each),
      KOKKOS_LAMBDA(const std::int64_t index) {
        T* slopes = derivative;  // nvcc forbids first captures in `if constexpr`
        const auto element = [&](std::int64_t i, std::int64_t j) {
          const C value = bias != nullptr ? C(y[i]) + bias[j] : C(y[i]);
          y[i] = T(activated<activation, C>(value));
          if constexpr (keeps) slopes[i] = T(activation_derivative<activation, C>(value));
        };
        const std::int64_t end = (index + 1) * each < elements ? (index + 1) * each : elements;
        for (std::int64_t first = index * each; first < end; first += c)
          for (std::int64_t j = 0; j < c; ++j) element(first + j, j);
      });
}

/// The GPU version.
template <Activation activation, class T, class C>
void forward_elements(const ExecSpace& space, const C* bias, T* y, std::int64_t count, std::int64_t c) {
  for_elements(
      space, "lockstep::bias::forward", count,
      KOKKOS_LAMBDA(std::int64_t, const C& added, T& result) {
        result = T(activated<activation, C>(C(result) + added));
      },
      ReadsColumns(bias, c), Updates(y));
}

template <Activation activation, class T, class C>
void forward_elements(const ExecSpace& space, const C* bias, T* y, T* derivative, std::int64_t count, std::int64_t c) {
  for_elements(
      space, "lockstep::bias::forward", count,
      KOKKOS_LAMBDA(std::int64_t, const C& added, T& result, T& slope) {
        const C value = C(result) + added;
        result = T(activated<activation, C>(value));
        slope = T(activation_derivative<activation, C>(value));
      },
      ReadsColumns(bias, c), Updates(y), Writes(derivative));
}

/// Processes rows [begin, end) of `width` columns; adds the new dy to `sum` if `sums`.
template <Activation activation, bool sums, class T, class C>
KOKKOS_INLINE_FUNCTION void backward_rows(const T* kept, T* dy, std::int64_t c, std::int64_t begin, std::int64_t end,
                                          int width, C* sum) {
  for (std::int64_t row = begin; row < end; ++row) {
    const T* known = kept + row * c;
    T* gradient = dy + row * c;
    for (int j = 0; j < width; ++j) {
      C value = gradient[j];
      if constexpr (activation != Activation::none) {
        value = activation_gradient<activation, C>(known[j], value);
        gradient[j] = T(value);
      }
      if constexpr (sums) sum[j] += value;
    }
  }
}

/// partial[part, c] = the column sums of a part of the rows; added to it (`add`) only if there is a single part.
template <Activation activation, bool sums, class T, class C>
void backward(const ExecSpace& space, const T* kept, T* dy, C* partial, bool add, std::int64_t rows, std::int64_t c,
              std::int64_t parts) {
  const std::int64_t tiles = tiles_of(c);
  Kokkos::parallel_for(
      "lockstep::bias::backward", RangePolicy(space, 0, parts * tiles), KOKKOS_LAMBDA(const std::int64_t index) {
        const std::int64_t part = index / tiles;
        const std::int64_t first = (index - part * tiles) * column_tile;
        const int width = static_cast<int>(c - first < column_tile ? c - first : column_tile);
        const std::int64_t end = rows * (part + 1) / parts;
        C total[column_tile] = {};
        for (std::int64_t begin = rows * part / parts; begin < end; begin += block_rows) {
          const std::int64_t stop = begin + block_rows < end ? begin + block_rows : end;
          C sum[column_tile] = {};
          if (width == column_tile) {
            backward_rows<activation, sums>(kept + first, dy + first, c, begin, stop, column_tile, sum);
          } else {
            backward_rows<activation, sums>(kept + first, dy + first, c, begin, stop, width, sum);
          }
          for (int j = 0; j < column_tile; ++j) total[j] += sum[j];
        }
        if (sums) {  // not `if constexpr`, as above
          C* out = partial + part * c + first;
          for (int j = 0; j < width; ++j) out[j] = add ? out[j] + total[j] : total[j];
        }
      });
}

/// Gradients of the activation and their sums, on GPUs.
template <Activation activation, class T, class C>
struct BiasSums {
  using type = C;
  static constexpr int count = 1, lanes = 16 / sizeof(T);
  const T* kept;
  T* dy;
  C* out;
  bool add_to;
  Partials<C> partial;

  template <int width>
  KOKKOS_INLINE_FUNCTION void add(const ColumnRows& at, C (&sums)[1][width]) const {
    if constexpr (activation == Activation::none)
      at.for_each<width>([&](int l, const T& gradient) { sums[0][l] += C(gradient); }, Reads<T>(dy));
    else
      at.for_each<width>(
          [&](int l, const T& known, T& gradient) {
            const C value = activation_gradient<activation, C>(C(known), C(gradient));
            gradient = T(value);
            sums[0][l] += value;
          },
          Reads(kept), Updates(dy));
  }
  KOKKOS_INLINE_FUNCTION void store(std::int64_t part, std::int64_t j, std::int64_t, std::int64_t,
                                    const C (&sums)[1]) const {
    if (partial.parts > 1) partial(0, part, j) = sums[0];
    else out[j] = add_to ? out[j] + sums[0] : sums[0];
  }
};

template <class C>
void sum_parts(const ExecSpace& space, const Partials<C>& partial, C* dbias, bool add, std::int64_t c,
               std::int64_t parts) {
  for_sums_of_parts(
      space, "lockstep::bias::sum_parts", c, KOKKOS_LAMBDA(const PartSums& of_parts, const std::int64_t j) {
        const C sum = of_parts.sum(parts, C(0), [&](const std::int64_t part) { return partial(0, part, j); });
        of_parts.once([&] { dbias[j] = add ? dbias[j] + sum : sum; });
      });
}

template <Activation activation, class T>
void run_backward(const ExecSpace& space, const Tensor& kept, const Tensor& dy, const Tensor& dbias, Store store,
                  const Tensor& workspace) {
  using C = Compute<T>;
  const auto [rows, c] = rows_of(dy);
  const T* known = activation == Activation::none ? dy.as<const T>() : kept.as<const T>();
  T* gradient = dy.as<T>();
  if (!dbias) {
    if (activation == Activation::none) return;
    if constexpr (thread_per_element) activation_backward(space, activation, kept, dy, dy);
    else backward<activation, false, T, C>(space, known, gradient, nullptr, false, rows, c, parts_of(rows, c));
    return;
  }
  const std::int64_t parts = parts_of(rows, c);
  const bool add = store == Store::add;
  const bool alone = parts == 1;
  assert(alone || workspace.bytes() >= bias_workspace_bytes(dy.dtype, rows, c));
  const Partials<C> partial{static_cast<C*>(workspace.data), 1, c, parts};
  if constexpr (thread_per_element) {
    using Sums = BiasSums<activation, T, C>;
    for_column_sums(space, "lockstep::bias::backward", rows, c, parts, rows_hold_packs<Sums::lanes>(c, known, gradient),
                    Sums{known, gradient, dbias.as<C>(), add, partial});
  } else {
    backward<activation, true, T, C>(space, known, gradient, alone ? dbias.as<C>() : partial.data, alone && add, rows,
                                     c, parts);
  }
  if (!alone) sum_parts<C>(space, partial, dbias.as<C>(), add, c, parts);
}

template <Activation activation, class T>
void run_forward(const ExecSpace& space, const Tensor& bias, const Tensor& y, const Tensor& derivative) {
  using C = Compute<T>;
  const auto [rows, c] = rows_of(y);
  const C* added = bias ? bias.as<const C>() : nullptr;
  T* const slopes = derivative ? derivative.as<T>() : nullptr;
  if constexpr (!thread_per_element) {
    if constexpr (keeps_derivative(activation))
      if (slopes) return forward<activation, true, T, C>(space, added, y.as<T>(), slopes, rows, c);
    forward<activation, false, T, C>(space, added, y.as<T>(), nullptr, rows, c);
  } else {
    if constexpr (keeps_derivative(activation))
      if (slopes) return forward_elements<activation, T, C>(space, added, y.as<T>(), slopes, y.count(), c);
    forward_elements<activation, T, C>(space, added, y.as<T>(), y.count(), c);
  }
}

}  // namespace

void bias_activation_forward(const ExecSpace& space, const Tensor& bias, Activation activation, const Tensor& y,
                             const Tensor& derivative) {
  if (!bias && activation == Activation::none) return;
  if (!bias && thread_per_element) return activation_forward(space, activation, y, y, derivative);
  dispatch_float(y.dtype, [&]<class T>(T) {
    dispatch_activation(activation, [&]<Activation a>(std::integral_constant<Activation, a>) {
      run_forward<a, T>(space, bias, y, derivative);
    });
  });
}

void bias_activation_backward(const ExecSpace& space, Activation activation, const Tensor& kept, const Tensor& dy,
                              const Tensor& dbias, Store store, const Tensor& workspace) {
  dispatch_float(dy.dtype, [&]<class T>(T) {
    dispatch_activation(activation, [&]<Activation a>(std::integral_constant<Activation, a>) {
      run_backward<a, T>(space, kept, dy, dbias, store, workspace);
    });
  });
}

std::size_t bias_workspace_bytes(DType dtype, std::int64_t rows, std::int64_t c) {
  const std::int64_t parts = parts_of(rows, c);
  return parts == 1 ? 0 : static_cast<std::size_t>(parts * c) * size_of(master_dtype(dtype));
}

}  // namespace lockstep
