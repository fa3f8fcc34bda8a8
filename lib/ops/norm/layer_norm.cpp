// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/norm/norm.hpp"

#include <cassert>

#include "ops/column_sums.hpp"

namespace lockstep {
namespace {

constexpr int tile = column_tile;

/// If `adds`, x = a + b is computed first.
template <bool adds, RowNorm norm, class T, class C>
void forward(const ExecSpace& space, C epsilon, const T* a, const T* b, T* x, const C* weight, const C* bias, T* y,
             C* moments, std::int64_t rows, std::int64_t c) {
  const C share = C(1) / static_cast<C>(c);
  Kokkos::parallel_for(
      "lockstep::layer_norm::forward", row_team(space, rows), KOKKOS_LAMBDA(const RowMember& team) {
        for_rows(team, rows, [&](const std::int64_t row) {
          T* const in = x + row * c;
          T* const out = y + row * c;
          const C *const slopes = weight, *const shifts = bias;  // nvcc forbids first captures in `if constexpr`
          if (adds)
            for_row(
                team, c, [](std::int64_t, const T& one, const T& other, T& sum) { sum = one + other; },
                Reads(a + row * c), Reads(b + row * c), Writes(in));
          constexpr bool centers = norm == RowNorm::layer;
          const auto itself = [](std::int64_t, const T& value) { return C(value); };
          const C mean = centers ? sum_of_row<C>(team, c, itself, Reads(in)) * share : C(0);
          const auto square = [&](std::int64_t, const T& value) {
            const C distance = C(value) - mean;
            return distance * distance;
          };
          const C variance = share * sum_of_row<C>(team, c, square, Reads(in));
          const C inv_std = C(1) / Kokkos::sqrt(variance + epsilon);
          const auto scaled = [&](const T& value, const C& slope) { return (C(value) - mean) * inv_std * slope; };
          if constexpr (centers)
            for_row(
                team, c,
                [&](std::int64_t, const T& value, const C& slope, const C& shift, T& result) {
                  result = T(scaled(value, slope) + shift);
                },
                Reads(in), Reads(slopes), Reads(shifts), Writes(out));
          else
            for_row(
                team, c,
                [&](std::int64_t, const T& value, const C& slope, T& result) { result = T(scaled(value, slope)); },
                Reads(in), Reads(slopes), Writes(out));
          if (moments != nullptr)
            Kokkos::single(Kokkos::PerThread(team), [&] {
              moments[2 * row] = mean;
              moments[2 * row + 1] = inv_std;
            });
        });
      });
}

template <RowNorm norm, class T, class C>
void backward_data(const ExecSpace& space, const T* x, const C* weight, const C* moments, const T* dy, T* dx, bool add,
                   std::int64_t rows, std::int64_t c) {
  const C share = C(1) / static_cast<C>(c);
  Kokkos::parallel_for(
      "lockstep::layer_norm::backward_data", row_team(space, rows), KOKKOS_LAMBDA(const RowMember& team) {
        for_rows(team, rows, [&](const std::int64_t row) {
          const T *const in = x + row * c, *const gradient = dy + row * c;
          T* const out = dx + row * c;
          const C mean = moments[2 * row], inv_std = moments[2 * row + 1];
          const auto product = [](std::int64_t, const T& dy_j, const C& weight_j) { return C(dy_j) * weight_j; };
          const C level = norm == RowNorm::rms
                              ? C(0)
                              : share * sum_of_row<C>(team, c, product, Reads(gradient), Reads(weight));
          const auto product_x = [&](std::int64_t, const T& dy_j, const C& weight_j, const T& x_j) {
            return C(dy_j) * weight_j * (C(x_j) - mean);
          };
          const C slope = share * inv_std * inv_std *
                          sum_of_row<C>(team, c, product_x, Reads(gradient), Reads(weight), Reads(in));
          const auto dx_of = [&](const T& dy_j, const C& weight_j, const T& x_j) {
            return inv_std * (C(dy_j) * weight_j - level - (C(x_j) - mean) * slope);
          };
          if (add)
            for_row(
                team, c,
                [&](std::int64_t, const T& dy_j, const C& weight_j, const T& x_j, T& sum) {
                  sum = T(C(sum) + dx_of(dy_j, weight_j, x_j));
                },
                Reads(gradient), Reads(weight), Reads(in), Updates(out));
          else
            for_row(
                team, c,
                [&](std::int64_t, const T& dy_j, const C& weight_j, const T& x_j, T& result) {
                  result = T(dx_of(dy_j, weight_j, x_j));
                },
                Reads(gradient), Reads(weight), Reads(in), Writes(out));
        });
      });
}

template <class T, class C, class Width>
KOKKOS_INLINE_FUNCTION void weight_block(const T* x, const C* moments, const T* dy, std::int64_t c, std::int64_t begin,
                                         std::int64_t end, Width width, C* total, C* total_x) {
  C sum[tile] = {}, sum_x[tile] = {};
  for (std::int64_t row = begin; row < end; ++row) {
    const C mean = moments[2 * row], inv_std = moments[2 * row + 1];
    for (int j = 0; j < width; ++j) {
      const C gradient = dy[row * c + j];
      sum[j] += gradient;
      sum_x[j] += gradient * ((C(x[row * c + j]) - mean) * inv_std);
    }
  }
  for (int j = 0; j < width; ++j) total[j] += sum[j], total_x[j] += sum_x[j];
}

/// Computes Σ dy and Σ dy·x̂ of each part of the rows.
template <class T, class C>
void backward_weight(const ExecSpace& space, const T* x, const C* moments, const T* dy, const Partials<C>& partial,
                     std::int64_t rows, std::int64_t c, std::int64_t parts) {
  Kokkos::parallel_for(
      "lockstep::layer_norm::backward_weight", RangePolicy(space, 0, parts * tiles_of(c)),
      KOKKOS_LAMBDA(const std::int64_t index) {
        const RowPiece p = row_piece(index, rows, c, parts);
        C sum[tile] = {}, sum_x[tile] = {};
        for (std::int64_t begin = p.begin; begin < p.end; begin += block_rows) {
          const std::int64_t end = begin + block_rows < p.end ? begin + block_rows : p.end;
          if (p.width == tile) weight_block(x + p.first, moments, dy + p.first, c, begin, end, FullTile(), sum, sum_x);
          else weight_block(x + p.first, moments, dy + p.first, c, begin, end, p.width, sum, sum_x);
        }
        for (int j = 0; j < p.width; ++j)
          partial(0, p.part, p.first + j) = sum[j], partial(1, p.part, p.first + j) = sum_x[j];
      });
}

/// Reads one of the two moments of an element's row.
template <class C>
struct ReadsMoment {
  using Value = C;
  static constexpr bool of_columns = false;
  const C* data;
  std::int64_t c;

  template <int lanes>
  KOKKOS_INLINE_FUNCTION void load(std::int64_t i, Pack<C, lanes>& pack) const {
    const C moment = data[2 * row_of(i, c)];
    LOCKSTEP_UNROLL
    for (int l = 0; l < lanes; ++l) pack.lane[l] = moment;
  }
  template <int lanes>
  KOKKOS_INLINE_FUNCTION void store(std::int64_t, const Pack<C, lanes>&) const {}
};

/// Gradients of weight and bias, on GPUs.
template <class T, class C>
struct WeightSums {
  using type = C;
  static constexpr int count = 2, lanes = 16 / sizeof(T);
  const T* x;
  const C* moments;
  const T* dy;
  Partials<C> partial;

  template <int width>
  KOKKOS_INLINE_FUNCTION void add(const ColumnRows& at, C (&sums)[2][width]) const {
    at.for_each<width>(
        [&](int l, const T& value, const T& gradient, const C& mean, const C& inv_std) {
          sums[0][l] += C(gradient);
          sums[1][l] += C(gradient) * ((C(value) - mean) * inv_std);
        },
        Reads(x), Reads(dy), ReadsMoment<C>{moments, at.c}, ReadsMoment<C>{moments + 1, at.c});
  }
  KOKKOS_INLINE_FUNCTION void store(std::int64_t part, std::int64_t j, std::int64_t, std::int64_t,
                                    const C (&sums)[2]) const {
    partial(0, part, j) = sums[0];
    partial(1, part, j) = sums[1];
  }
};

template <class C>
void add_parts(const ExecSpace& space, const Partials<C>& partial, bool add, C* dweight, C* dbias, std::int64_t c,
               std::int64_t parts) {
  for_sums_of_parts(
      space, "lockstep::layer_norm::add_parts", c, KOKKOS_LAMBDA(const PartSums& of_parts, const std::int64_t j) {
        const C sum = of_parts.sum(parts, C(0), [&](const std::int64_t part) { return partial(0, part, j); });
        const C sum_x = of_parts.sum(parts, C(0), [&](const std::int64_t part) { return partial(1, part, j); });
        of_parts.once([&] {
          if (dbias) dbias[j] = add ? dbias[j] + sum : sum;
          dweight[j] = add ? dweight[j] + sum_x : sum_x;
        });
      });
}

/// `a` and `b` are used only if `adds`.
template <bool adds>
void forward(const ExecSpace& space, RowNorm norm, double epsilon, const Tensor& a, const Tensor& b, const Tensor& x,
             const Tensor& weight, const Tensor& bias, const Tensor& y, const Tensor& moments) {
  const Rows size = rows_of(y);
  dispatch_float(y.dtype, [&]<class T>(T) {
    using C = Compute<T>;
    const auto run = [&](auto kernel) {
      kernel(space, static_cast<C>(epsilon), adds ? a.as<const T>() : nullptr, adds ? b.as<const T>() : nullptr,
             x.as<T>(), weight.as<const C>(), bias ? bias.as<const C>() : nullptr, y.as<T>(),
             moments ? moments.as<C>() : nullptr, size.rows, size.c);
    };
    if (norm == RowNorm::rms) run(forward<adds, RowNorm::rms, T, C>);
    else run(forward<adds, RowNorm::layer, T, C>);
  });
}

}  // namespace

void layer_norm_forward(const ExecSpace& space, double epsilon, const Tensor& x, const Tensor& weight,
                        const Tensor& bias, const Tensor& y, const Tensor& moments, RowNorm norm) {
  forward<false>(space, norm, epsilon, {}, {}, x, weight, bias, y, moments);
}

void add_layer_norm_forward(const ExecSpace& space, double epsilon, const Tensor& a, const Tensor& b, const Tensor& x,
                            const Tensor& weight, const Tensor& bias, const Tensor& y, const Tensor& moments,
                            RowNorm norm) {
  forward<true>(space, norm, epsilon, a, b, x, weight, bias, y, moments);
}

void layer_norm_backward_data(const ExecSpace& space, const Tensor& x, const Tensor& weight, const Tensor& moments,
                              const Tensor& dy, const Tensor& dx, Store store, RowNorm norm) {
  const Rows size = rows_of(x);
  dispatch_float(x.dtype, [&]<class T>(T) {
    using C = Compute<T>;
    const auto run = [&](auto kernel) {
      kernel(space, x.as<const T>(), weight.as<const C>(), moments.as<const C>(), dy.as<const T>(), dx.as<T>(),
             store == Store::add, size.rows, size.c);
    };
    if (norm == RowNorm::rms) run(backward_data<RowNorm::rms, T, C>);
    else run(backward_data<RowNorm::layer, T, C>);
  });
}

void layer_norm_backward_weight(const ExecSpace& space, const Tensor& x, const Tensor& moments, const Tensor& dy,
                                const Tensor& dweight, const Tensor& dbias, Store store, const Tensor& workspace) {
  const Rows size = rows_of(x);
  const std::int64_t parts = parts_of(size.rows, size.c);
  assert(workspace.bytes() >= layer_norm_workspace_bytes(x.dtype, size.rows, size.c));
  dispatch_float(x.dtype, [&]<class T>(T) {
    using C = Compute<T>;
    const Partials<C> partial{static_cast<C*>(workspace.data), 2, size.c, parts};
    const auto *values = x.as<const T>(), *gradients = dy.as<const T>();
    const auto* of_rows = moments.as<const C>();
    if constexpr (thread_per_element) {
      using Sums = WeightSums<T, C>;
      for_column_sums(space, "lockstep::layer_norm::backward_weight", size.rows, size.c, parts,
                      rows_hold_packs<Sums::lanes>(size.c, values, gradients),
                      Sums{values, of_rows, gradients, partial});
    } else {
      backward_weight<T, C>(space, values, of_rows, gradients, partial, size.rows, size.c, parts);
    }
    add_parts<C>(space, partial, store == Store::add, dweight.as<C>(), dbias ? dbias.as<C>() : nullptr, size.c, parts);
  });
}

std::size_t layer_norm_workspace_bytes(DType dtype, std::int64_t rows, std::int64_t c) {
  return static_cast<std::size_t>(2 * parts_of(rows, c) * c) * size_of(master_dtype(dtype));
}

}  // namespace lockstep
