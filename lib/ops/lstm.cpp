// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/lstm.hpp"

#include "ops/fast_math.hpp"
#include "ops/row_parts.hpp"

namespace lockstep {
namespace {

// Units that one index of a kernel works on. Numbers pass through arrays of that length, so that compilers see that
// nothing overlaps.

/// Where a tile of units stands.
struct Place {
  std::int64_t example, unit;
  int width;
};
KOKKOS_INLINE_FUNCTION Place place_of(std::int64_t index, std::int64_t units) {
  const std::int64_t tiles = tiles_of(units);
  const std::int64_t unit = index % tiles * column_tile;
  const bool whole = column_tile == 1 || units - unit >= column_tile;  // known where a tile is one unit
  return {index / tiles, unit, whole ? column_tile : static_cast<int>(units - unit)};
}

template <class T, class C>
KOKKOS_INLINE_FUNCTION void read(const T* from, int width, C* to) {
  for (int j = 0; j < width; ++j) to[j] = C(from[j]);
}
template <class T, class C>
KOKKOS_INLINE_FUNCTION void write(const C* from, int width, T* to) {
  for (int j = 0; j < width; ++j) to[j] = T(from[j]);
}
template <class T, class C>
KOKKOS_INLINE_FUNCTION void include(const T* from, int width, C* to) {
  for (int j = 0; j < width; ++j) to[j] += C(from[j]);
}

template <class T, class C>
void forward_step(const ExecSpace& space, std::int64_t n, std::int64_t length, std::int64_t units, std::int64_t t,
                  T* gates, const T* recurrent, const C* bias, C* cells, T* y, T* h) {
  Kokkos::parallel_for(
      "lockstep::lstm::forward_step", RangePolicy(space, 0, n * tiles_of(units)),
      KOKKOS_LAMBDA(const std::int64_t index) {
        const Place at = place_of(index, units);
        const std::int64_t step = at.example * length + t;
        T* own = gates + step * 4 * units + at.unit;
        C gate[4][column_tile] = {}, cell[column_tile] = {}, out[column_tile];
        for (int k = 0; k < 4; ++k) {
          read(own + k * units, at.width, gate[k]);
          include(bias + k * units + at.unit, at.width, gate[k]);
          if (recurrent != nullptr) include(recurrent + (at.example * 4 + k) * units + at.unit, at.width, gate[k]);
        }
        if (t > 0) read(cells + (step - 1) * units + at.unit, at.width, cell);
        for (int j = 0; j < column_tile; ++j) gate[0][j] = fast_sigmoid(gate[0][j]);
        for (int j = 0; j < column_tile; ++j) gate[1][j] = fast_sigmoid(gate[1][j]);
        for (int j = 0; j < column_tile; ++j) gate[2][j] = fast_tanh(gate[2][j]);
        for (int j = 0; j < column_tile; ++j) gate[3][j] = fast_sigmoid(gate[3][j]);
        for (int j = 0; j < column_tile; ++j) cell[j] = gate[1][j] * cell[j] + gate[0][j] * gate[2][j];
        for (int j = 0; j < column_tile; ++j) out[j] = gate[3][j] * fast_tanh(cell[j]);
        for (int k = 0; k < 4; ++k) write(gate[k], at.width, own + k * units);
        write(cell, at.width, cells + step * units + at.unit);
        write(out, at.width, y + step * units + at.unit);
        write(out, at.width, h + at.example * units + at.unit);
      });
}

template <class T, class C>
void backward_step(const ExecSpace& space, std::int64_t n, std::int64_t length, std::int64_t units, std::int64_t t,
                   const T* gates, const C* cells, const T* dy, const T* recurrent, C* dcell, T* dgates,
                   T* dgates_step) {
  Kokkos::parallel_for(
      "lockstep::lstm::backward_step", RangePolicy(space, 0, n * tiles_of(units)),
      KOKKOS_LAMBDA(const std::int64_t index) {
        const Place at = place_of(index, units);
        const std::int64_t step = at.example * length + t;
        C gate[4][column_tile] = {}, cell[column_tile] = {}, before[column_tile] = {}, dh[column_tile] = {},
          dc[column_tile] = {}, dgate[4][column_tile];
        for (int k = 0; k < 4; ++k) read(gates + (step * 4 + k) * units + at.unit, at.width, gate[k]);
        read(cells + step * units + at.unit, at.width, cell);
        if (t > 0) read(cells + (step - 1) * units + at.unit, at.width, before);
        read(dy + step * units + at.unit, at.width, dh);
        if (t + 1 < length) read(dcell + at.example * units + at.unit, at.width, dc);
        if (recurrent != nullptr) include(recurrent + at.example * units + at.unit, at.width, dh);
        for (int j = 0; j < column_tile; ++j) {
          const C i = gate[0][j], f = gate[1][j], g = gate[2][j], o = gate[3][j], shown = fast_tanh(cell[j]);
          const C total = dc[j] + dh[j] * o * (C(1) - shown * shown);
          dgate[0][j] = total * g * i * (C(1) - i);
          dgate[1][j] = total * before[j] * f * (C(1) - f);
          dgate[2][j] = total * i * (C(1) - g * g);
          dgate[3][j] = dh[j] * shown * o * (C(1) - o);
          dc[j] = total * f;
        }
        write(dc, at.width, dcell + at.example * units + at.unit);
        for (int k = 0; k < 4; ++k) {
          write(dgate[k], at.width, dgates + (step * 4 + k) * units + at.unit);
          write(dgate[k], at.width, dgates_step + (at.example * 4 + k) * units + at.unit);
        }
      });
}

template <class T>
void shift(const ExecSpace& space, std::int64_t count, std::int64_t per_example, std::int64_t units, const T* y,
           T* before) {
  Kokkos::parallel_for(
      "lockstep::lstm::shift", RangePolicy(space, 0, count),
      KOKKOS_LAMBDA(const std::int64_t i) { before[i] = i % per_example < units ? T(0) : y[i - units]; });
}

}  // namespace

void lstm_forward_step(const ExecSpace& space, std::int64_t t, const Tensor& gates, const Tensor& recurrent,
                       const Tensor& bias, const Tensor& cells, const Tensor& y, const Tensor& h) {
  dispatch_float(y.dtype, [&]<class T>(T) {
    using C = Compute<T>;
    forward_step<T, C>(space, y.shape[0], y.shape[1], y.shape[2], t, gates.as<T>(),
                       recurrent ? recurrent.as<const T>() : nullptr, bias.as<const C>(), cells.as<C>(), y.as<T>(),
                       h.as<T>());
  });
}

void lstm_backward_step(const ExecSpace& space, std::int64_t t, const Tensor& gates, const Tensor& cells,
                        const Tensor& dy, const Tensor& recurrent, const Tensor& dcell, const Tensor& dgates,
                        const Tensor& dgates_step) {
  dispatch_float(dy.dtype, [&]<class T>(T) {
    using C = Compute<T>;
    backward_step<T, C>(space, dy.shape[0], dy.shape[1], dy.shape[2], t, gates.as<const T>(), cells.as<const C>(),
                        dy.as<const T>(), recurrent ? recurrent.as<const T>() : nullptr, dcell.as<C>(), dgates.as<T>(),
                        dgates_step.as<T>());
  });
}

void lstm_shift(const ExecSpace& space, const Tensor& y, const Tensor& before) {
  dispatch_float(y.dtype, [&]<class T>(T) {
    shift<T>(space, y.count(), y.shape[1] * y.shape[2], y.shape[2], y.as<const T>(), before.as<T>());
  });
}

}  // namespace lockstep
