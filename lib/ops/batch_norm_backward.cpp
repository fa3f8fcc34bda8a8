// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cassert>

#include "ops/batch_norm.hpp"
#include "ops/row_parts.hpp"

namespace lockstep {
namespace {

/// How a kernel finds what relu has let through.
enum class Mask { none, by_input, by_output };

/// Pointers of one column tile; the arrays of one channel are copies, which nothing else can overwrite.
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
        t.dy[at] = T(gradient);
      }
      sum[j] += gradient;
      sum_x[j] += gradient * (value - t.mean[j]);
    }
  for (int j = 0; j < width; ++j) total[j] += sum[j], total_x[j] += sum_x[j];
}

/// Channels of the state, as kernels take them.
template <class C>
struct Channels {
  const C *mean, *scale, *shift;
};

/// partial [parts, 2, c]: the two sums of each part of the rows.
template <Mask mask, class T, class C>
void accumulate_gradient_statistics(const ExecSpace& space, const T* x, const T* y, T* dy, const Channels<C>& state,
                                    C* partial, std::int64_t rows, std::int64_t c, std::int64_t parts) {
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
        C* out = partial + p.part * 2 * c + p.first;
        for (int j = 0; j < p.width; ++j) out[j] = sum[j], out[c + j] = sum_x[j];
      });
}

template <class C>
void add_parts(const ExecSpace& space, const C* partial, bool first, C* sum_dy, C* sum_dy_x, std::int64_t c,
               std::int64_t parts) {
  for_sums_of_parts(
      space, "lockstep::batch_norm::add_parts", c, KOKKOS_LAMBDA(const PartSums& of_parts, const std::int64_t j) {
        const C sum = of_parts.sum(parts, first ? C(0) : sum_dy[j],
                                   [&](const std::int64_t part) { return partial[part * 2 * c + j]; });
        const C sum_x = of_parts.sum(parts, first ? C(0) : sum_dy_x[j],
                                     [&](const std::int64_t part) { return partial[part * 2 * c + c + j]; });
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
        put(k.d_var[j], momentum * (k.m2[j] / freedoms - k.running_var[j]) * examples);
      });
}

template <class T, class C, class Width>
KOKKOS_INLINE_FUNCTION void backward_rows(const T* x, const T* dy, const C* scale, const C* slope, const C* mean,
                                          const C* level, T* dx, std::int64_t c, std::int64_t begin, std::int64_t end,
                                          Width width) {
  for (std::int64_t row = begin; row < end; ++row)
    for (int j = 0; j < width; ++j) {
      const std::int64_t at = row * c + j;
      dx[at] = T(scale[j] * (C(dy[at]) - level[j] - (C(x[at]) - mean[j]) * slope[j]));
    }
}

/// The state as `backward` reads it.
template <class C>
struct BackwardState {
  const C *scale, *mean, *inv_std, *sum_dy, *sum_dy_x;
};

/// As CPUs do it: tiles of columns, whose coefficients stay in registers.
template <class T, class C>
void backward(const ExecSpace& space, const T* x, const T* dy, const BackwardState<C>& s, T* dx, C share,
              std::int64_t rows, std::int64_t c) {
  const std::int64_t groups = (rows + 15) / 16;
  Kokkos::parallel_for(
      "lockstep::batch_norm::backward", RangePolicy(space, 0, groups * tiles_of(c)),
      KOKKOS_LAMBDA(const std::int64_t index) {
        const RowPiece p = row_piece(index, rows, c, groups);
        const std::int64_t f = p.first;
        C scale[column_tile], slope[column_tile], mean[column_tile], level[column_tile];
        for (int j = 0; j < p.width; ++j) {
          scale[j] = s.scale[f + j];
          mean[j] = s.mean[f + j];
          level[j] = s.sum_dy[f + j] * share;
          slope[j] = s.inv_std[f + j] * s.inv_std[f + j] * s.sum_dy_x[f + j] * share;
        }
        if (p.width == column_tile)
          backward_rows(x + f, dy + f, scale, slope, mean, level, dx + f, c, p.begin, p.end, FullTile());
        else if (p.width == column_tile / 2)
          backward_rows(x + f, dy + f, scale, slope, mean, level, dx + f, c, p.begin, p.end, HalfTile());
        else backward_rows(x + f, dy + f, scale, slope, mean, level, dx + f, c, p.begin, p.end, p.width);
      });
}

/// As GPUs do it.
template <class T, class C>
void backward_elements(const ExecSpace& space, const T* x, const T* dy, const BackwardState<C>& s, T* dx, C share,
                       std::int64_t rows, std::int64_t c) {
  for_elements(
      space, "lockstep::batch_norm::backward", rows * c,
      KOKKOS_LAMBDA(std::int64_t, const T& in, const T& gradient, const C& scale, const C& mean, const C& inv_std,
                    const C& sum_dy, const C& sum_dy_x, T& out) {
        const C level = sum_dy * share, slope = inv_std * inv_std * sum_dy_x * share;
        out = T(scale * (C(gradient) - level - (C(in) - mean) * slope));
      },
      Reads(x), Reads(dy), ReadsColumns(s.scale, c), ReadsColumns(s.mean, c), ReadsColumns(s.inv_std, c),
      ReadsColumns(s.sum_dy, c), ReadsColumns(s.sum_dy_x, c), Writes(dx));
}

/// What of a gradient passes the relu behind the norm.
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
    C* partial = static_cast<C*>(workspace.data);
    auto* run = !output.relu ? accumulate_gradient_statistics<Mask::none, T, C>
                             : (output.addition ? accumulate_gradient_statistics<Mask::by_output, T, C>
                                                : accumulate_gradient_statistics<Mask::by_input, T, C>);
    const Channels<C> channels{state.mean.as<const C>(), state.scale.as<const C>(), state.shift.as<const C>()};
    const T* result = output.relu && output.addition ? y.as<const T>() : x.as<const T>();
    run(space, x.as<const T>(), result, dy.as<T>(), channels, partial, size.rows, size.c, parts);
    add_parts<C>(space, partial, first, state.sum_dy.as<C>(), state.sum_dy_x.as<C>(), size.c, parts);
  });
}

void batch_norm_conclude_backward(const ExecSpace& space, std::int64_t rows, std::int64_t examples, double momentum,
                                  const Tensor& running_mean, const Tensor& running_var, const BatchNormState& state,
                                  Store store, const BatchNormGradients& gradients) {
  const std::int64_t freedoms = rows > 1 ? rows - 1 : 1;  // of one value m2 is 0, and so is its variance here
  dispatch_master(state.mean.dtype, [&]<class C>(C) {
    const FinalStatistics<C> k{
        state.mean.as<const C>(),       state.m2.as<const C>(),       state.inv_std.as<const C>(),
        state.sum_dy.as<const C>(),     state.sum_dy_x.as<const C>(), running_mean.as<const C>(),
        running_var.as<const C>(),      gradients.weight.as<C>(),     gradients.bias.as<C>(),
        gradients.running_mean.as<C>(), gradients.running_var.as<C>()};
    finalize_gradient_statistics<C>(space, k, static_cast<C>(freedoms), static_cast<C>(examples),
                                    static_cast<C>(momentum), store == Store::add ? C(1) : C(0), state.mean.count());
  });
}

void batch_norm_backward(const ExecSpace& space, std::int64_t rows, const Tensor& x, const Tensor& dy,
                         const BatchNormState& state, const Tensor& dx) {
  const Rows size = rows_of(x);
  dispatch_float(x.dtype, [&]<class T>(T) {
    using C = Compute<T>;
    const BackwardState<C> s{state.scale.as<const C>(), state.mean.as<const C>(), state.inv_std.as<const C>(),
                             state.sum_dy.as<const C>(), state.sum_dy_x.as<const C>()};
    const C share = static_cast<C>(1.0 / static_cast<double>(rows));
    const auto run = [&](auto kernel) {
      kernel(space, x.as<const T>(), dy.as<const T>(), s, dx.as<T>(), share, size.rows, size.c);
    };
    if constexpr (thread_per_element) run(backward_elements<T, C>);
    else run(backward<T, C>);
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
