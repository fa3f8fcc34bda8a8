// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/norm/norm.hpp"

#include <algorithm>

#include "ops/row_parts.hpp"

namespace lockstep {
namespace {

constexpr int tile = column_tile;

/// The extents of x [n, places, c]. Sums over places are divided into parts. Hosts need only one, since each example
/// and each tile of its channels has a thread there. The parts depend only on the example's shape, so that it is
/// computed alike in any batch.
struct Size {
  std::int64_t n, places, c, parts;
};

Size size_of_examples(std::int64_t n, const Shape& example) {
  constexpr std::int64_t threads_of_an_example = 1 << 14;
  const std::int64_t c = example[-1], places = c == 0 ? 0 : example.count() / c;
  const std::int64_t wanted = thread_per_element ? threads_of_an_example / std::max<std::int64_t>(c, 1) : 1;
  return {n, places, c, std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(1, places / block_rows))};
}

Size size_of_batch(const Tensor& x) { return size_of_examples(x.shape[0], x.shape.of_example()); }

KOKKOS_INLINE_FUNCTION std::int64_t first_place(const Size& s, std::int64_t part) { return s.places * part / s.parts; }

/// to[j] += Σ f(place, j) over places [begin, end), for `width` channels, summed in two levels.
template <class C, class Width, class F>
KOKKOS_INLINE_FUNCTION void add_places(std::int64_t begin, std::int64_t end, Width width, C* to, const F& f) {
  for (std::int64_t block = begin; block < end; block += block_rows) {
    C sum[tile] = {};
    const std::int64_t last = block + block_rows < end ? block + block_rows : end;
    for (std::int64_t place = block; place < last; ++place)
      for (int j = 0; j < width; ++j) sum[j] += f(place, j);
    for (int j = 0; j < width; ++j) to[j] += sum[j];
  }
}

/// Calls f(width), with a compile-time width for whole tiles.
template <class F>
KOKKOS_INLINE_FUNCTION void with_width(int width, const F& f) {
  if (width == tile) f(FullTile());
  else f(width);
}

/// partial [n, parts, 2, c]: the mean of each channel in a part, and the sum of squared distances from it.
template <class T, class C>
void part_moments(const ExecSpace& space, const Size& s, const T* x, C* partial) {
  Kokkos::parallel_for(
      "lockstep::group_norm::part_moments", RangePolicy(space, 0, s.n * s.parts * tiles_of(s.c)),
      KOKKOS_LAMBDA(const std::int64_t index) {
        const RowPiece p = row_piece(index, 0, s.c, 1);  // p.part counts the parts of all examples
        const std::int64_t example = p.part / s.parts, part = p.part - example * s.parts;
        const std::int64_t begin = first_place(s, part), end = first_place(s, part + 1);
        const T* const from = x + example * s.places * s.c + p.first;
        C mean[tile] = {}, squares[tile] = {};
        with_width(p.width, [&](auto width) {
          add_places(begin, end, width, mean,
                     [&](const std::int64_t place, const int j) { return C(from[place * s.c + j]); });
          for (int j = 0; j < width; ++j) mean[j] /= static_cast<C>(end - begin);
          add_places(begin, end, width, squares, [&](const std::int64_t place, const int j) {
            const C distance = C(from[place * s.c + j]) - mean[j];
            return distance * distance;
          });
        });
        C* const to = partial + p.part * 2 * s.c + p.first;
        for (int j = 0; j < p.width; ++j) to[j] = mean[j], to[s.c + j] = squares[j];
      });
}

/// Combines the moments of parts and channels to those of groups (Chan, Golub & LeVeque 1983).
template <class C>
void group_moments(const ExecSpace& space, const Size& s, std::int64_t groups, C epsilon, const C* partial,
                   C* moments) {
  const std::int64_t group_c = s.c / groups;
  const C share = C(1) / static_cast<C>(s.places * group_c);
  Kokkos::parallel_for(
      "lockstep::group_norm::group_moments", RangePolicy(space, 0, s.n * groups),
      KOKKOS_LAMBDA(const std::int64_t index) {
        const std::int64_t example = index / groups, first = (index - example * groups) * group_c;
        const C* const from = partial + example * s.parts * 2 * s.c + first;
        const auto count = [&](std::int64_t part) {
          return static_cast<C>(first_place(s, part + 1) - first_place(s, part));
        };
        C offset = 0, squares = 0;  // relative to the first channel's mean, since small numbers lose less to rounding
        for (std::int64_t part = 0; part < s.parts; ++part)
          for (std::int64_t j = 0; j < group_c; ++j) offset += count(part) * (from[part * 2 * s.c + j] - from[0]);
        const C mean = from[0] + offset * share;
        for (std::int64_t part = 0; part < s.parts; ++part)
          for (std::int64_t j = 0; j < group_c; ++j) {
            const C distance = from[part * 2 * s.c + j] - mean;
            squares += from[part * 2 * s.c + s.c + j] + count(part) * distance * distance;
          }
        const C inv_std = C(1) / Kokkos::sqrt(squares * share + epsilon);
        C* const to = moments + example * 2 * s.c + first;
        for (std::int64_t j = 0; j < group_c; ++j) to[j] = mean, to[s.c + j] = inv_std;
      });
}

template <class T, class C>
void scale_and_shift(const ExecSpace& space, const Size& s, const T* x, const C* moments, const C* weight,
                     const C* bias, T* y) {
  Kokkos::parallel_for(
      "lockstep::group_norm::forward", RangePolicy(space, 0, s.n * s.places * tiles_of(s.c)),
      KOKKOS_LAMBDA(const std::int64_t index) {
        const std::int64_t row = row_of(index, tiles_of(s.c)), first = (index - row * tiles_of(s.c)) * tile;
        const int width = static_cast<int>(s.c - first < tile ? s.c - first : tile);
        const C* const mean = moments + row_of(row, s.places) * 2 * s.c + first;
        const T* const from = x + row * s.c + first;
        T* const to = y + row * s.c + first;
        for (int j = 0; j < width; ++j)
          to[j] = T((C(from[j]) - mean[j]) * mean[s.c + j] * weight[first + j] + bias[first + j]);
      });
}

/// partial [n, parts, 2, c]: Σ dy and Σ dy·x̂ of each channel in a part.
template <class T, class C>
void part_sums(const ExecSpace& space, const Size& s, const T* x, const C* moments, const T* dy, C* partial) {
  Kokkos::parallel_for(
      "lockstep::group_norm::part_sums", RangePolicy(space, 0, s.n * s.parts * tiles_of(s.c)),
      KOKKOS_LAMBDA(const std::int64_t index) {
        const RowPiece p = row_piece(index, 0, s.c, 1);
        const std::int64_t example = p.part / s.parts, part = p.part - example * s.parts;
        const std::int64_t begin = first_place(s, part), end = first_place(s, part + 1);
        const T *const in = x + example * s.places * s.c + p.first, *const gradient = dy + (in - x);
        const C* const mean = moments + example * 2 * s.c + p.first;
        C sum[tile] = {}, sum_x[tile] = {};
        with_width(p.width, [&](auto width) {
          add_places(begin, end, width, sum,
                     [&](const std::int64_t place, const int j) { return C(gradient[place * s.c + j]); });
          add_places(begin, end, width, sum_x, [&](const std::int64_t place, const int j) {
            return C(gradient[place * s.c + j]) * ((C(in[place * s.c + j]) - mean[j]) * mean[s.c + j]);
          });
        });
        C* const to = partial + p.part * 2 * s.c + p.first;
        for (int j = 0; j < p.width; ++j) to[j] = sum[j], to[s.c + j] = sum_x[j];
      });
}

/// Leaves each example's sums in its first part. `means` [n, 2, c] receives the means of dy·weight and dy·weight·x̂
/// over each channel's group.
template <class C>
void group_means(const ExecSpace& space, const Size& s, std::int64_t groups, const C* weight, C* partial, C* means) {
  const std::int64_t group_c = s.c / groups;
  const C share = C(1) / static_cast<C>(s.places * group_c);
  Kokkos::parallel_for(
      "lockstep::group_norm::group_means", RangePolicy(space, 0, s.n * groups),
      KOKKOS_LAMBDA(const std::int64_t index) {
        const std::int64_t example = index / groups, first = (index - example * groups) * group_c;
        C* const sums = partial + example * s.parts * 2 * s.c + first;
        C level = 0, slope = 0;
        for (std::int64_t j = 0; j < group_c; ++j) {
          for (std::int64_t part = 1; part < s.parts; ++part) {
            sums[j] += sums[part * 2 * s.c + j];
            sums[s.c + j] += sums[part * 2 * s.c + s.c + j];
          }
          level += weight[first + j] * sums[j];
          slope += weight[first + j] * sums[s.c + j];
        }
        C* const to = means + example * 2 * s.c + first;
        for (std::int64_t j = 0; j < group_c; ++j) to[j] = level * share, to[s.c + j] = slope * share;
      });
}

template <class C>
void add_examples(const ExecSpace& space, const Size& s, const C* partial, bool add, C* dweight, C* dbias) {
  for_sums_of_parts(
      space, "lockstep::group_norm::add_examples", s.c,
      KOKKOS_LAMBDA(const PartSums& of_examples, const std::int64_t j) {
        const C sum = of_examples.sum(
            s.n, C(0), [&](const std::int64_t example) { return partial[example * s.parts * 2 * s.c + j]; });
        const C sum_x = of_examples.sum(
            s.n, C(0), [&](const std::int64_t example) { return partial[example * s.parts * 2 * s.c + s.c + j]; });
        of_examples.once([&] {
          dbias[j] = add ? dbias[j] + sum : sum;
          dweight[j] = add ? dweight[j] + sum_x : sum_x;
        });
      });
}

template <class T, class C>
void backward_data(const ExecSpace& space, const Size& s, const T* x, const C* weight, const C* moments, const C* means,
                   const T* dy, T* dx) {
  Kokkos::parallel_for(
      "lockstep::group_norm::backward_data", RangePolicy(space, 0, s.n * s.places * tiles_of(s.c)),
      KOKKOS_LAMBDA(const std::int64_t index) {
        const std::int64_t row = row_of(index, tiles_of(s.c)), first = (index - row * tiles_of(s.c)) * tile;
        const int width = static_cast<int>(s.c - first < tile ? s.c - first : tile);
        const std::int64_t of_example = row_of(row, s.places) * 2 * s.c + first, at = row * s.c + first;
        const C *const mean = moments + of_example, *const level = means + of_example;
        for (int j = 0; j < width; ++j) {
          const C inv_std = mean[s.c + j], scaled = (C(x[at + j]) - mean[j]) * inv_std;
          dx[at + j] = T(inv_std * (C(dy[at + j]) * weight[first + j] - level[j] - scaled * level[s.c + j]));
        }
      });
}

}  // namespace

void group_norm_forward(const ExecSpace& space, std::int64_t groups, double epsilon, const Tensor& x,
                        const Tensor& weight, const Tensor& bias, const Tensor& y, const Tensor& moments,
                        const Tensor& workspace) {
  const Size s = size_of_batch(x);
  dispatch_float(x.dtype, [&]<class T>(T) {
    using C = Compute<T>;
    C* const partial = static_cast<C*>(workspace.data);
    C* const found = moments ? moments.as<C>() : partial + s.n * s.parts * 2 * s.c;
    part_moments<T, C>(space, s, x.as<const T>(), partial);
    group_moments<C>(space, s, groups, static_cast<C>(epsilon), partial, found);
    scale_and_shift<T, C>(space, s, x.as<const T>(), found, weight.as<const C>(), bias.as<const C>(), y.as<T>());
  });
}

void group_norm_backward(const ExecSpace& space, std::int64_t groups, const Tensor& x, const Tensor& weight,
                         const Tensor& moments, const Tensor& dy, const Tensor& dx, const Tensor& dweight,
                         const Tensor& dbias, Store store, const Tensor& workspace) {
  const Size s = size_of_batch(x);
  dispatch_float(x.dtype, [&]<class T>(T) {
    using C = Compute<T>;
    C* const partial = static_cast<C*>(workspace.data);
    C* const means = partial + s.n * s.parts * 2 * s.c;
    part_sums<T, C>(space, s, x.as<const T>(), moments.as<const C>(), dy.as<const T>(), partial);
    group_means<C>(space, s, groups, weight.as<const C>(), partial, means);
    if (dweight) add_examples<C>(space, s, partial, store == Store::add, dweight.as<C>(), dbias.as<C>());
    if (dx)
      backward_data<T, C>(space, s, x.as<const T>(), weight.as<const C>(), moments.as<const C>(), means,
                          dy.as<const T>(), dx.as<T>());
  });
}

std::size_t group_norm_workspace_bytes(DType dtype, std::int64_t n, const Shape& example) {
  const Size s = size_of_examples(n, example);
  return static_cast<std::size_t>(n * (s.parts + 1) * 2 * s.c) * size_of(master_dtype(dtype));
}

}  // namespace lockstep
