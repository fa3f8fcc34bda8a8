// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/norm/norm.hpp"

#include <cassert>

#include "ops/column_sums.hpp"

namespace lockstep {
namespace {

constexpr int tile = column_tile;

/// Merges mean and m2 of rows [begin, end), at most block_rows, into those of `seen` rows. The second pass over the
/// block finds it in the cache.
template <class T, class C, class Width>
KOKKOS_INLINE_FUNCTION void accumulate_block(const T* x, std::int64_t c, std::int64_t begin, std::int64_t end,
                                             std::int64_t seen, Width width, C* mean, C* m2) {
  const C n = static_cast<C>(end - begin), before = static_cast<C>(seen), total = before + n;
  C block_mean[tile] = {}, block_m2[tile] = {};
  for (std::int64_t row = begin; row < end; ++row)
    for (int j = 0; j < width; ++j) block_mean[j] += C(x[row * c + j]);
  for (int j = 0; j < width; ++j) block_mean[j] /= n;
  for (std::int64_t row = begin; row < end; ++row)
    for (int j = 0; j < width; ++j) {
      const C distance = C(x[row * c + j]) - block_mean[j];
      block_m2[j] += distance * distance;
    }
  const C share = n / total, weight = before * share;
  for (int j = 0; j < width; ++j) {
    const C distance = block_mean[j] - mean[j];
    mean[j] += distance * share;
    m2[j] += block_m2[j] + distance * distance * weight;
  }
}

/// Computes mean and m2 of each part of the rows.
template <class T, class C>
void accumulate_statistics(const ExecSpace& space, const T* x, const Partials<C>& partial, std::int64_t rows,
                           std::int64_t c, std::int64_t parts) {
  Kokkos::parallel_for(
      "lockstep::batch_norm::accumulate_statistics", RangePolicy(space, 0, parts * tiles_of(c)),
      KOKKOS_LAMBDA(const std::int64_t index) {
        const RowPiece p = row_piece(index, rows, c, parts);
        C mean[tile] = {}, m2[tile] = {};
        for (std::int64_t begin = p.begin; begin < p.end; begin += block_rows) {
          const std::int64_t end = begin + block_rows < p.end ? begin + block_rows : p.end, seen = begin - p.begin;
          if (p.width == tile) accumulate_block(x + p.first, c, begin, end, seen, FullTile(), mean, m2);
          else if (p.width == tile / 2) accumulate_block(x + p.first, c, begin, end, seen, HalfTile(), mean, m2);
          else accumulate_block(x + p.first, c, begin, end, seen, p.width, mean, m2);
        }
        for (int j = 0; j < p.width; ++j)
          partial(0, p.part, p.first + j) = mean[j], partial(1, p.part, p.first + j) = m2[j];
      });
}

/// Moments of a part on GPUs, in one pass: sums of distances, and of squared distances, from the part's first row. That
/// row is about as far from the mean as others, so little cancels (Chan, Golub and LeVeque 1983: shifted data).
template <class T, class C>
struct MomentSums {
  using type = C;
  static constexpr int count = 2, lanes = 16 / sizeof(T);
  const T* x;
  std::int64_t c;
  Partials<C> partial;

  template <int width>
  KOKKOS_INLINE_FUNCTION void add(const ColumnRows& at, C (&sums)[2][width]) const {
    C from[width];
    for (int l = 0; l < width; ++l) from[l] = at.begin < at.end ? C(x[at.begin * c + at.column + l]) : C(0);
    at.for_each<width>(
        [&](int l, const T& value) {
          const C distance = C(value) - from[l];
          sums[0][l] += distance;
          sums[1][l] += distance * distance;
        },
        Reads(x));
  }
  KOKKOS_INLINE_FUNCTION void store(std::int64_t part, std::int64_t j, std::int64_t begin, std::int64_t end,
                                    const C (&sums)[2]) const {
    const C shift = begin < end ? sums[0] / static_cast<C>(end - begin) : C(0), m2 = sums[1] - sums[0] * shift;
    partial(0, part, j) = begin < end ? C(x[begin * c + j]) + shift : C(0);
    partial(1, part, j) = m2 < C(0) ? C(0) : m2;  // NaN stays NaN
  }
};

/// Merges the parts into the moments of earlier rows, on GPUs: first the mean, then the squared distances from it.
template <class C>
void merge_by_teams(const ExecSpace& space, const Partials<C>& partial, std::int64_t seen, C* mean, C* m2,
                    std::int64_t rows, std::int64_t c, std::int64_t parts) {
  const C before = static_cast<C>(seen), total = static_cast<C>(seen + rows);
  for_sums_of_parts(
      space, "lockstep::batch_norm::merge", c, KOKKOS_LAMBDA(const PartSums& of_parts, const std::int64_t j) {
        const auto rows_in = [&](const std::int64_t part) {
          return static_cast<C>(rows * (part + 1) / parts - rows * part / parts);
        };
        const C m = seen == 0 ? C(0) : mean[j], s = seen == 0 ? C(0) : m2[j];
        const C merged = of_parts.sum(parts, m * (before / total), [&](const std::int64_t part) {
          return partial(0, part, j) * (rows_in(part) / total);
        });
        const C squares = of_parts.sum(parts, s + before * (m - merged) * (m - merged), [&](const std::int64_t part) {
          const C distance = partial(0, part, j) - merged;
          return partial(1, part, j) + rows_in(part) * distance * distance;
        });
        of_parts.once([&] {
          mean[j] = merged;
          m2[j] = squares;
        });
      });
}

/// Merges the parts, in order, into the moments of earlier rows.
template <class C>
void merge(const ExecSpace& space, const Partials<C>& partial, std::int64_t seen, C* mean, C* m2, std::int64_t rows,
           std::int64_t c, std::int64_t parts) {
  Kokkos::parallel_for(
      "lockstep::batch_norm::merge", RangePolicy(space, 0, c), KOKKOS_LAMBDA(const std::int64_t j) {
        C m = seen == 0 ? C(0) : mean[j], s = seen == 0 ? C(0) : m2[j];
        for (std::int64_t part = 0; part < parts; ++part) {
          const std::int64_t first = rows * part / parts;
          const C before = static_cast<C>(seen + first), n = static_cast<C>(rows * (part + 1) / parts - first);
          const C share = n / (before + n), distance = partial(0, part, j) - m;
          m += distance * share;
          s += partial(1, part, j) + distance * distance * before * share;
        }
        mean[j] = m;
        m2[j] = s;
      });
}

template <class C>
void finalize_statistics(const ExecSpace& space, C rows, C epsilon, const C* m2, C* inv_std, std::int64_t c) {
  Kokkos::parallel_for(
      "lockstep::batch_norm::finalize_statistics", RangePolicy(space, 0, c),
      KOKKOS_LAMBDA(const std::int64_t j) { inv_std[j] = C(1) / Kokkos::sqrt(m2[j] / rows + epsilon); });
}

template <class C>
void coefficients(const ExecSpace& space, const C* weight, const C* bias, const C* mean, const C* inv_std, C* scale,
                  C* shift, std::int64_t c) {
  Kokkos::parallel_for(
      "lockstep::batch_norm::coefficients", RangePolicy(space, 0, c), KOKKOS_LAMBDA(const std::int64_t j) {
        scale[j] = weight[j] * inv_std[j];
        shift[j] = bias[j] - mean[j] * scale[j];
      });
}

template <class C>
void running_coefficients(const ExecSpace& space, const C* weight, const C* bias, const C* mean, const C* var,
                          C epsilon, C* scale, C* shift, std::int64_t c) {
  Kokkos::parallel_for(
      "lockstep::batch_norm::running", RangePolicy(space, 0, c), KOKKOS_LAMBDA(const std::int64_t j) {
        scale[j] = weight[j] / Kokkos::sqrt(var[j] + epsilon);
        shift[j] = bias[j] - mean[j] * scale[j];
      });
}

template <bool relu, bool addition, class T, class C, class Width>
KOKKOS_INLINE_FUNCTION void forward_rows(const T* x, const T* addend, const C* scale, const C* shift, T* y,
                                         std::int64_t c, std::int64_t begin, std::int64_t end, Width width) {
  for (std::int64_t row = begin; row < end; ++row)
    for (int j = 0; j < width; ++j) {
      C value = C(x[row * c + j]) * scale[j] + shift[j];
      if constexpr (addition) value += C(addend[row * c + j]);
      if constexpr (relu) value = value < C(0) ? C(0) : value;  // NaN stays NaN
      y[row * c + j] = T(value);
    }
}

/// The CPU version: tiles of columns, whose coefficients stay in registers.
template <bool relu, bool addition, class T, class C>
void forward(const ExecSpace& space, const T* x, const T* addend, const C* scale, const C* shift, T* y,
             std::int64_t rows, std::int64_t c) {
  const std::int64_t groups = (rows + 15) / 16;
  Kokkos::parallel_for(
      "lockstep::batch_norm::forward", RangePolicy(space, 0, groups * tiles_of(c)),
      KOKKOS_LAMBDA(const std::int64_t index) {
        const RowPiece p = row_piece(index, rows, c, groups);
        const std::int64_t f = p.first;
        C a[tile], b[tile];  // local copies, which no store can alias
        for (int j = 0; j < p.width; ++j) a[j] = scale[f + j], b[j] = shift[f + j];
        const T* const added = addition ? addend + f : x;
        if (p.width == tile) forward_rows<relu, addition>(x + f, added, a, b, y + f, c, p.begin, p.end, FullTile());
        else if (p.width == tile / 2)
          forward_rows<relu, addition>(x + f, added, a, b, y + f, c, p.begin, p.end, HalfTile());
        else forward_rows<relu, addition>(x + f, added, a, b, y + f, c, p.begin, p.end, p.width);
      });
}

/// The GPU version.
template <bool relu, bool addition, class T, class C>
void forward_elements(const ExecSpace& space, const T* x, const T* addend, const C* scale, const C* shift, T* y,
                      std::int64_t rows, std::int64_t c) {
  constexpr auto label = "lockstep::batch_norm::forward";
  const ReadsColumns factors(scale, c), terms(shift, c);
  if constexpr (addition)
    for_elements(
        space, label, rows * c,
        KOKKOS_LAMBDA(std::int64_t, const T& in, const T& added, const C& a, const C& b, T& out) {
          const C value = C(in) * a + b + C(added);
          out = T(relu && value < C(0) ? C(0) : value);  // NaN stays NaN
        },
        Reads(x), Reads(addend), factors, terms, Writes(y));
  else
    for_elements(
        space, label, rows * c,
        KOKKOS_LAMBDA(std::int64_t, const T& in, const C& a, const C& b, T& out) {
          const C value = C(in) * a + b;
          out = T(relu && value < C(0) ? C(0) : value);
        },
        Reads(x), factors, terms, Writes(y));
}

template <bool relu, bool addition, class T, class C>
void run_forward(const ExecSpace& space, const T* x, const T* addend, const C* scale, const C* shift, T* y,
                 std::int64_t rows, std::int64_t c) {
  if constexpr (thread_per_element) forward_elements<relu, addition>(space, x, addend, scale, shift, y, rows, c);
  else forward<relu, addition>(space, x, addend, scale, shift, y, rows, c);
}

}  // namespace

std::size_t batch_norm_workspace_bytes(DType dtype, std::int64_t rows, std::int64_t c) {
  return static_cast<std::size_t>(2 * parts_of(rows, c) * c) * size_of(master_dtype(dtype));
}

void batch_norm_observe(const ExecSpace& space, const Tensor& x, std::int64_t seen, const BatchNormState& state,
                        const Tensor& workspace) {
  const Rows size = rows_of(x);
  const std::int64_t parts = parts_of(size.rows, size.c);
  assert(workspace.bytes() >= batch_norm_workspace_bytes(x.dtype, size.rows, size.c));
  dispatch_float(x.dtype, [&]<class T>(T) {
    using C = Compute<T>;
    const Partials<C> partial{static_cast<C*>(workspace.data), 2, size.c, parts};
    C *const mean = state.mean.as<C>(), *const m2 = state.m2.as<C>();
    if constexpr (thread_per_element) {
      const MomentSums<T, C> sums{x.as<const T>(), size.c, partial};
      for_column_sums(space, "lockstep::batch_norm::accumulate_statistics", size.rows, size.c, parts,
                      rows_hold_packs<MomentSums<T, C>::lanes>(size.c, sums.x), sums);
      merge_by_teams<C>(space, partial, seen, mean, m2, size.rows, size.c, parts);
    } else {
      accumulate_statistics<T, C>(space, x.as<const T>(), partial, size.rows, size.c, parts);
      merge<C>(space, partial, seen, mean, m2, size.rows, size.c, parts);
    }
  });
}

void batch_norm_conclude(const ExecSpace& space, std::int64_t rows, double epsilon, const BatchNormState& state) {
  dispatch_master(state.mean.dtype, [&]<class C>(C) {
    finalize_statistics<C>(space, static_cast<C>(rows), static_cast<C>(epsilon), state.m2.as<const C>(),
                           state.inv_std.as<C>(), state.mean.count());
  });
}

void batch_norm_coefficients(const ExecSpace& space, const Tensor& weight, const Tensor& bias,
                             const BatchNormState& state) {
  dispatch_master(weight.dtype, [&]<class C>(C) {
    coefficients<C>(space, weight.as<const C>(), bias.as<const C>(), state.mean.as<const C>(),
                    state.inv_std.as<const C>(), state.scale.as<C>(), state.shift.as<C>(), weight.count());
  });
}

void batch_norm_coefficients(const ExecSpace& space, const Tensor& weight, const Tensor& bias,
                             const Tensor& running_mean, const Tensor& running_var, double epsilon,
                             const BatchNormState& state) {
  dispatch_master(weight.dtype, [&]<class C>(C) {
    running_coefficients<C>(space, weight.as<const C>(), bias.as<const C>(), running_mean.as<const C>(),
                            running_var.as<const C>(), static_cast<C>(epsilon), state.scale.as<C>(),
                            state.shift.as<C>(), weight.count());
  });
}

void batch_norm_forward(const ExecSpace& space, const Tensor& x, const Tensor& addend, const BatchNormState& state,
                        BatchNormOutput output, const Tensor& y) {
  const Rows size = rows_of(x);
  dispatch_float(x.dtype, [&]<class T>(T) {
    using C = Compute<T>;
    const T* added = output.addition ? addend.as<const T>() : nullptr;
    auto* run = output.relu ? (output.addition ? run_forward<true, true, T, C> : run_forward<true, false, T, C>)
                            : (output.addition ? run_forward<false, true, T, C> : run_forward<false, false, T, C>);
    run(space, x.as<const T>(), added, state.scale.as<const C>(), state.shift.as<const C>(), y.as<T>(), size.rows,
        size.c);
  });
}

}  // namespace lockstep
