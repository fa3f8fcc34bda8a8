// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/sequence/embedding.hpp"

#include "ops/row_parts.hpp"

namespace lockstep {
namespace {

/// The angle of pair i of `width` features at position t.
KOKKOS_INLINE_FUNCTION double angle(double base, std::int64_t t, std::int64_t i, std::int64_t width) {
  return static_cast<double>(t) * Kokkos::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(width));
}

template <class C>
void fill_position_waves(const ExecSpace& space, std::int64_t length, std::int64_t width, C* table) {
  Kokkos::parallel_for(
      "lockstep::sinusoids::positions", RangePolicy(space, 0, length * width), KOKKOS_LAMBDA(const std::int64_t index) {
        const std::int64_t t = row_of(index, width), j = index - t * width;
        const double at = angle(10000, t, j / 2, width);
        table[index] = static_cast<C>(j % 2 == 0 ? Kokkos::sin(at) : Kokkos::cos(at));
      });
}

template <class C>
void fill_rotary_waves(const ExecSpace& space, double base, std::int64_t length, std::int64_t width, C* table) {
  Kokkos::parallel_for(
      "lockstep::sinusoids::rotary", RangePolicy(space, 0, length * width), KOKKOS_LAMBDA(const std::int64_t index) {
        const std::int64_t t = row_of(index, width), j = index - t * width, pairs = width / 2;
        const double at = angle(base, t, j < pairs ? j : j - pairs, width);
        table[index] = static_cast<C>(j < pairs ? Kokkos::cos(at) : Kokkos::sin(at));
      });
}

template <class T, class C>
void rotate(const ExecSpace& space, C sign, std::int64_t rows, std::int64_t length, std::int64_t heads,
            std::int64_t pairs, const C* table, T* qkv) {
  // In each row the queries' heads come first, then the keys' heads.
  const std::int64_t turned = 2 * heads, per_row = turned * pairs;
  Kokkos::parallel_for(
      "lockstep::sinusoids::rotate", RangePolicy(space, 0, thread_per_element ? rows * per_row : rows * turned),
      KOKKOS_LAMBDA(const std::int64_t index) {
        const std::int64_t count = thread_per_element ? 1 : pairs;
        const std::int64_t head = thread_per_element ? row_of(index, pairs) : index;
        const std::int64_t first = thread_per_element ? index - head * pairs : 0;
        const std::int64_t row = row_of(head, turned), t = row - row_of(row, length) * length;
        const C* cosine = table + t * 2 * pairs + first;
        const C* sine = cosine + pairs;
        T* one = qkv + (row * 3 * heads + head - row * turned) * 2 * pairs + first;
        T* other = one + pairs;
        for (std::int64_t i = 0; i < count; ++i) {
          const C a = C(one[i]), b = C(other[i]), s = sign * sine[i];
          one[i] = T(a * cosine[i] - b * s);
          other[i] = T(b * cosine[i] + a * s);
        }
      });
}

}  // namespace

void position_waves(const ExecSpace& space, const Tensor& table) {
  dispatch_master(table.dtype,
                  [&]<class C>(C) { fill_position_waves<C>(space, table.shape[0], table.shape[1], table.as<C>()); });
}

void rotary_waves(const ExecSpace& space, double base, const Tensor& table) {
  dispatch_master(table.dtype, [&]<class C>(C) {
    fill_rotary_waves<C>(space, base, table.shape[0], table.shape[1], table.as<C>());
  });
}

void rotate(const ExecSpace& space, Rotation rotation, std::int64_t heads, const Tensor& table, const Tensor& qkv) {
  dispatch_float(qkv.dtype, [&]<class T>(T) {
    using C = Compute<T>;
    rotate<T, C>(space, rotation == Rotation::forward ? C(1) : C(-1), qkv.shape[0] * qkv.shape[1], qkv.shape[1], heads,
                 table.shape[1] / 2, table.as<const C>(), qkv.as<T>());
  });
}

}  // namespace lockstep
