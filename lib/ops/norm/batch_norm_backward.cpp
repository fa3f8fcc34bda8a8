// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cassert>

#include "ops/column_sums.hpp"
#include "ops/norm/norm.hpp"

namespace lockstep {
namespace {

/// How a kernel determines what relu has passed.
enum class Mask { none, by_input, by_output };

/// Pointers into one column tile. The per-channel arrays are local copies, which no store can alias.
template <class T, class C>
struct BackwardTile {
  const T *x, *y;
  T* dy;
  C mean[column_tile], scale[column_tile], shift[column_tile];
};

template <Mask mask, class T, class C, class Width>
KOKKOS_INLINE_FUNCTION void accumulate_gradient_block(const BackwardTile<T, C>& t, std::int64_t c, std::int64_t begin,
                                                      std::int64_t end, Width width, C* total, C* total_x) {
  C sum[column_tile] = {}, sum_x[column_tile] = {};
  for (std::int64_t row = begin; row < end; ++row)
    for (int j = 0; j < width; ++j) {
      const std::int64_t at = row * c + j;
      const C value = t.x[at];
      C gradient = t.dy[at];
      if constexpr (mask != Mask::none) {
        const C passed = mask == Mask::by_input ? value * t.scale[j] + t.shift[j] : C(t.y[at]);
        gradient = passed > C(0) ? gradient : C(0);
        if constexpr (mask == Mask::by_output) t.dy[at] = T(gradient);
      }
      sum[j] += gradient;
      sum_x[j] += gradient * (value - t.mean[j]);
    }
  for (int j = 0; j < width; ++j) total[j] += sum[j], total_x[j] += sum_x[j];
}

/// Per-channel arrays of the state, as kernels read them.
template <class C>
struct Channels {
  const C *mean, *scale, *shift;
};

/// Computes the two sums of each part of the rows.
template <Mask mask, class T, class C>
void accumulate_gradient_statistics(const ExecSpace& space, const T* x, const T* y, T* dy, const Channels<C>& state,
                                    const Partials<C>& partial, std::int64_t rows, std::int64_t c, std::int64_t parts) {
  Kokkos::parallel_for(
      "lockstep::batch_norm::accumulate_gradient_statistics", RangePolicy(space, 0, parts * tiles_of(c)),
      KOKKOS_LAMBDA(const std::int64_t index) {
        const RowPiece p = row_piece(index, rows, c, parts);
        BackwardTile<T, C> t;
        t.x = x + p.first;
        t.y = y + p.first;
        t.dy = dy + p.first;
        for (int j = 0; j < p.width; ++j) {
          t.mean[j] = state.mean[p.first + j];
          t.scale[j] = state.scale[p.first + j];
          t.shift[j] = state.shift[p.first + j];
        }
        C sum[column_tile] = {}, sum_x[column_tile] = {};
        for (std::int64_t begin = p.begin; begin < p.end; begin += block_rows) {
          const std::int64_t end = begin + block_rows < p.end ? begin + block_rows : p.end;
          if (p.width == column_tile) accumulate_gradient_block<mask>(t, c, begin, end, FullTile(), sum, sum_x);
          else if (p.width == column_tile / 2)
            accumulate_gradient_block<mask>(t, c, begin, end, HalfTile(), sum, sum_x);
          else accumulate_gradient_block<mask>(t, c, begin, end, p.width, sum, sum_x);
        }
        for (int j = 0; j < p.width; ++j)
          partial(0, p.part, p.first + j) = sum[j], partial(1, p.part, p.first + j) = sum_x[j];
      });
}

/// Sums of gradients, and of gradients times distances from the mean, on GPUs.
template <Mask mask, class T, class C>
struct GradientSums {
  using type = C;
  static constexpr int count = 2, lanes = 16 / sizeof(T);
  const T *x, *y;
  T* dy;
  Channels<C> state;
  Partials<C> partial;

  template <int width>
  KOKKOS_INLINE_FUNCTION void add(const ColumnRows& at, C (&sums)[2][width]) const {
    C mean[width], scale[width], shift[width];
    for (int l = 0; l < width; ++l) {
      mean[l] = state.mean[at.column + l];
      scale[l] = state.scale[at.column + l];
      shift[l] = state.shift[at.column + l];
    }
    const auto add = [&](int l, C value, C gradient) {
      sums[0][l] += gradient;
      sums[1][l] += gradient * (value - mean[l]);
    };
    if constexpr (mask == Mask::by_output)
      at.for_each<width>(
          [&](int l, const T& value, const T& result, T& gradient) {
            gradient = C(result) > C(0) ? gradient : T(0);
            add(l, C(value), C(gradient));
          },
          Reads(x), Reads(y), Updates(dy));
    else
      at.for_each<width>(
          [&](int l, const T& value, const T& gradient) {
            const bool passes = mask == Mask::none || C(value) * scale[l] + shift[l] > C(0);
            add(l, C(value), passes ? C(gradient) : C(0));
          },
          Reads(x), Reads<T>(dy));
  }
  KOKKOS_INLINE_FUNCTION void store(std::int64_t part, std::int64_t j, std::int64_t, std::int64_t,
                                    const C (&sums)[2]) const {
    partial(0, part, j) = sums[0];
    partial(1, part, j) = sums[1];
  }
};

template <Mask mask, class T, class C>
void run_gradient_statistics(const ExecSpace& space, const T* x, const T* y, T* dy, const Channels<C>& state,
                             const Partials<C>& partial, std::int64_t rows, std::int64_t c, std::int64_t parts) {
  if constexpr (thread_per_element) {
    using Sums = GradientSums<mask, T, C>;
    for_column_sums(space, "lockstep::batch_norm::accumulate_gradient_statistics", rows, c, parts,
                    rows_hold_packs<Sums::lanes>(c, x, y, dy), Sums{x, y, dy, state, partial});
  } else {
    accumulate_gradient_statistics<mask, T, C>(space, x, y, dy, state, partial, rows, c, parts);
  }
}

template <class C>
void add_parts(const ExecSpace& space, const Partials<C>& partial, bool first, C* sum_dy, C* sum_dy_x, std::int64_t c,
               std::int64_t parts) {
  for_sums_of_parts(
      space, "lockstep::batch_norm::add_parts", c, KOKKOS_LAMBDA(const PartSums& of_parts, const std::int64_t j) {
        const C sum = of_parts.sum(parts, first ? C(0) : sum_dy[j],
                                   [&](const std::int64_t part) { return partial(0, part, j); });
        const C sum_x = of_parts.sum(parts, first ? C(0) : sum_dy_x[j],
                                     [&](const std::int64_t part) { return partial(1, part, j); });
        of_parts.once([&] {
          sum_dy[j] = sum;
          sum_dy_x[j] = sum_x;
        });
      });
}

/// The arguments of finalize_gradient_statistics as pointers.
template <class C>
struct FinalStatistics {
  const C *mean, *m2, *inv_std, *sum_dy, *sum_dy_x, *running_mean, *running_var;
  C *weight, *bias, *d_mean, *d_var;
};

template <class C>
void finalize_gradient_statistics(const ExecSpace& space, const FinalStatistics<C>& k, C freedoms, C examples,
                                  C momentum, C kept, std::int64_t c) {
  Kokkos::parallel_for(
      "lockstep::batch_norm::finalize_gradient_statistics", RangePolicy(space, 0, c),
      KOKKOS_LAMBDA(const std::int64_t j) {
        const auto put = [kept](C& place, C value) { place = kept == C(0) ? value : place + value; };
        put(k.weight[j], k.sum_dy_x[j] * k.inv_std[j]);
        put(k.bias[j], k.sum_dy[j]);
        put(k.d_mean[j], momentum * (k.mean[j] - k.running_mean[j]) * examples);
        put(k.d_var[j], freedoms > C(0) ? momentum * (k.m2[j] / freedoms - k.running_var[j]) * examples : C(0));
      });
}

/// The state as `backward` reads it.
template <class C>
struct BackwardState {
  const C *scale, *shift, *mean, *inv_std, *sum_dy, *sum_dy_x;
};

/// Coefficients of `backward` for a tile of columns.
template <class C>
struct BackwardColumns {
  C scale[column_tile], shift[column_tile], mean[column_tile], level[column_tile], slope[column_tile];
};

template <bool masks, class T, class C, class Width>
KOKKOS_INLINE_FUNCTION void backward_rows(const T* x, const T* dy, const BackwardColumns<C>& s, T* dx, std::int64_t c,
                                          std::int64_t begin, std::int64_t end, Width width) {
  for (std::int64_t row = begin; row < end; ++row)
    for (int j = 0; j < width; ++j) {
      const std::int64_t at = row * c + j;
      const C value = C(x[at]);
      C gradient = C(dy[at]);
      if constexpr (masks) gradient = value * s.scale[j] + s.shift[j] > C(0) ? gradient : C(0);
      dx[at] = T(s.scale[j] * (gradient - s.level[j] - (value - s.mean[j]) * s.slope[j]));
    }
}

/// The CPU version: tiles of columns, whose coefficients stay in registers. `masks`: gradients count only where relu
/// passes.
template <bool masks, class T, class C>
void backward(const ExecSpace& space, const T* x, const T* dy, const BackwardState<C>& s, T* dx, C share,
              std::int64_t rows, std::int64_t c) {
  const std::int64_t groups = (rows + 15) / 16;
  Kokkos::parallel_for(
      "lockstep::batch_norm::backward", RangePolicy(space, 0, groups * tiles_of(c)),
      KOKKOS_LAMBDA(const std::int64_t index) {
        const RowPiece p = row_piece(index, rows, c, groups);
        const std::int64_t f = p.first;
        BackwardColumns<C> own;  // a local copy, which no store can alias
        for (int j = 0; j < p.width; ++j) {
          own.scale[j] = s.scale[f + j];
          own.shift[j] = s.shift[f + j];
          own.mean[j] = s.mean[f + j];
          own.level[j] = s.sum_dy[f + j] * share;
          own.slope[j] = s.inv_std[f + j] * s.inv_std[f + j] * s.sum_dy_x[f + j] * share;
        }
        if (p.width == column_tile) backward_rows<masks>(x + f, dy + f, own, dx + f, c, p.begin, p.end, FullTile());
        else if (p.width == column_tile / 2)
          backward_rows<masks>(x + f, dy + f, own, dx + f, c, p.begin, p.end, HalfTile());
        else backward_rows<masks>(x + f, dy + f, own, dx + f, c, p.begin, p.end, p.width);
      });
}

/// The GPU version.
template <bool masks, class T, class C>
void backward_elements(const ExecSpace& space, const T* x, const T* dy, const BackwardState<C>& s, T* dx, C share,
                       std::int64_t rows, std::int64_t c) {
  for_elements(
      space, "lockstep::batch_norm::backward", rows * c,
      KOKKOS_LAMBDA(std::int64_t, const T& in, const T& gradient, const C& scale, const C& shift, const C& mean,
                    const C& inv_std, const C& sum_dy, const C& sum_dy_x, T& out) {
        const C level = sum_dy * share, slope = inv_std * inv_std * sum_dy_x * share, value = C(in);
        const C passed = !masks || value * scale + shift > C(0) ? C(gradient) : C(0);
        out = T(scale * (passed - level - (value - mean) * slope));
      },
      Reads(x), Reads(dy), ReadsColumns(s.scale, c), ReadsColumns(s.shift, c), ReadsColumns(s.mean, c),
      ReadsColumns(s.inv_std, c), ReadsColumns(s.sum_dy, c), ReadsColumns(s.sum_dy_x, c), Writes(dx));
}

template <bool masks, class T, class C>
void run_backward(const ExecSpace& space, const T* x, const T* dy, const BackwardState<C>& s, T* dx, C share,
                  std::int64_t rows, std::int64_t c) {
  if constexpr (thread_per_element) backward_elements<masks>(space, x, dy, s, dx, share, rows, c);
  else backward<masks>(space, x, dy, s, dx, share, rows, c);
}

/// Returns the gradient if the relu after the norm passes it, else 0.
template <Mask mask, class T, class C>
KOKKOS_INLINE_FUNCTION C masked(C gradient, const T* x, const T* y, const C* scale, const C* shift, std::int64_t i,
                                std::int64_t j) {
  if constexpr (mask == Mask::none) return gradient;
  const C passed = mask == Mask::by_input ? C(x[i]) * scale[j] + shift[j] : C(y[i]);
  return passed > C(0) ? gradient : C(0);
}

template <Mask mask, class T, class C>
void backward_fixed(const ExecSpace& space, const T* x, const T* y, T* dy, const C* scale, const C* shift, T* dx,
                    std::int64_t count, std::int64_t c) {
  Kokkos::parallel_for(
      "lockstep::batch_norm::backward_fixed", RangePolicy(space, 0, count), KOKKOS_LAMBDA(const std::int64_t i) {
        const std::int64_t j = i % c;
        const C gradient = masked<mask>(C(dy[i]), x, y, scale, shift, i, j);
        if (mask != Mask::none) dy[i] = T(gradient);
        if (dx != nullptr) dx[i] = T(gradient * scale[j]);
      });
}

}  // namespace

void batch_norm_observe_backward(const ExecSpace& space, const Tensor& x, const Tensor& y, BatchNormOutput output,
                                 bool first, const Tensor& dy, const BatchNormState& state, const Tensor& workspace) {
  const Rows size = rows_of(x);
  const std::int64_t parts = parts_of(size.rows, size.c);
  assert(workspace.bytes() >= batch_norm_workspace_bytes(x.dtype, size.rows, size.c));
  dispatch_float(x.dtype, [&]<class T>(T) {
    using C = Compute<T>;
    const Partials<C> partial{static_cast<C*>(workspace.data), 2, size.c, parts};
    auto* run = !output.relu ? run_gradient_statistics<Mask::none, T, C>
                             : (output.addition ? run_gradient_statistics<Mask::by_output, T, C>
                                                : run_gradient_statistics<Mask::by_input, T, C>);
    const Channels<C> channels{state.mean.as<const C>(), state.scale.as<const C>(), state.shift.as<const C>()};
    const T* result = output.relu && output.addition ? y.as<const T>() : x.as<const T>();
    run(space, x.as<const T>(), result, dy.as<T>(), channels, partial, size.rows, size.c, parts);
    add_parts<C>(space, partial, first, state.sum_dy.as<C>(), state.sum_dy_x.as<C>(), size.c, parts);
  });
}

void batch_norm_conclude_backward(const ExecSpace& space, std::int64_t rows, std::int64_t examples, double momentum,
                                  const Tensor& running_mean, const Tensor& running_var, const BatchNormState& state,
                                  Store store, const BatchNormGradients& gradients) {
  dispatch_master(state.mean.dtype, [&]<class C>(C) {
    const FinalStatistics<C> k{
        state.mean.as<const C>(),       state.m2.as<const C>(),       state.inv_std.as<const C>(),
        state.sum_dy.as<const C>(),     state.sum_dy_x.as<const C>(), running_mean.as<const C>(),
        running_var.as<const C>(),      gradients.weight.as<C>(),     gradients.bias.as<C>(),
        gradients.running_mean.as<C>(), gradients.running_var.as<C>()};
    finalize_gradient_statistics<C>(space, k, static_cast<C>(rows - 1), static_cast<C>(examples),
                                    static_cast<C>(momentum), store == Store::add ? C(1) : C(0), state.mean.count());
  });
}

void batch_norm_backward(const ExecSpace& space, std::int64_t rows, const Tensor& x, BatchNormOutput output,
                         const Tensor& dy, const BatchNormState& state, const Tensor& dx) {
  const Rows size = rows_of(x);
  dispatch_float(x.dtype, [&]<class T>(T) {
    using C = Compute<T>;
    const BackwardState<C> s{state.scale.as<const C>(),   state.shift.as<const C>(),  state.mean.as<const C>(),
                             state.inv_std.as<const C>(), state.sum_dy.as<const C>(), state.sum_dy_x.as<const C>()};
    const C share = static_cast<C>(1.0 / static_cast<double>(rows));
    auto* run = output.relu && !output.addition ? run_backward<true, T, C> : run_backward<false, T, C>;
    run(space, x.as<const T>(), dy.as<const T>(), s, dx.as<T>(), share, size.rows, size.c);
  });
}

void batch_norm_backward_fixed(const ExecSpace& space, const Tensor& x, const Tensor& y, BatchNormOutput output,
                               const Tensor& dy, const BatchNormState& state, const Tensor& dx) {
  dispatch_float(x.dtype, [&]<class T>(T) {
    using C = Compute<T>;
    auto* run = !output.relu      ? backward_fixed<Mask::none, T, C>
                : output.addition ? backward_fixed<Mask::by_output, T, C>
                                  : backward_fixed<Mask::by_input, T, C>;
    run(space, x.as<const T>(), output.relu && output.addition ? y.as<const T>() : nullptr, dy.as<T>(),
        state.scale.as<const C>(), state.shift.as<const C>(), dx ? dx.as<T>() : nullptr, x.count(), x.shape[-1]);
  });
}

}  // namespace lockstep
