// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/sequence/recurrent.hpp"

#include "ops/fast_math.hpp"
#include "ops/row_parts.hpp"

namespace lockstep {
namespace {

// Each index of a kernel processes a tile of units. Values pass through arrays of the tile's length, so that compilers
// see that nothing aliases.

/// The position of a tile of units.
struct Place {
  std::int64_t example, unit;
  int width;
};
KOKKOS_INLINE_FUNCTION Place place_of(std::int64_t index, std::int64_t units) {
  const std::int64_t tiles = tiles_of(units);
  const std::int64_t unit = index % tiles * column_tile;
  const bool whole = column_tile == 1 || units - unit >= column_tile;  // a compile-time constant if a tile is one unit
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

template <class C>
using Units = C[column_tile];

// The properties of a cell that kernels use. `summed`: number of gates for which both products are added up; the hidden
// product of the last gate is separate, in `kept`, if it is not among them. `before` is the previous step's state if
// `remembers_state`, otherwise its h.

struct LstmCell {
  static constexpr int gates = 4, summed = 4;
  static constexpr bool remembers_state = true;

  template <class C>
  static KOKKOS_INLINE_FUNCTION void forward(Units<C>* gate, const C* before, C* kept, C* out) {
    for (int j = 0; j < column_tile; ++j) gate[0][j] = fast_sigmoid(gate[0][j]);
    for (int j = 0; j < column_tile; ++j) gate[1][j] = fast_sigmoid(gate[1][j]);
    for (int j = 0; j < column_tile; ++j) gate[2][j] = fast_tanh(gate[2][j]);
    for (int j = 0; j < column_tile; ++j) gate[3][j] = fast_sigmoid(gate[3][j]);
    for (int j = 0; j < column_tile; ++j) kept[j] = gate[1][j] * before[j] + gate[0][j] * gate[2][j];
    for (int j = 0; j < column_tile; ++j) out[j] = gate[3][j] * fast_tanh(kept[j]);
  }
  template <class C>
  static KOKKOS_INLINE_FUNCTION void backward(const Units<C>* gate, const C* before, const C* kept, const C* dh,
                                              C* carried, Units<C>* dgate, C*) {
    for (int j = 0; j < column_tile; ++j) {
      const C i = gate[0][j], f = gate[1][j], g = gate[2][j], o = gate[3][j], shown = fast_tanh(kept[j]);
      const C total = carried[j] + dh[j] * o * (C(1) - shown * shown);
      dgate[0][j] = total * g * i * (C(1) - i);
      dgate[1][j] = total * before[j] * f * (C(1) - f);
      dgate[2][j] = total * i * (C(1) - g * g);
      dgate[3][j] = dh[j] * shown * o * (C(1) - o);
      carried[j] = total * f;
    }
  }
};

struct GruCell {
  static constexpr int gates = 3, summed = 2;
  static constexpr bool remembers_state = false;

  template <class C>
  static KOKKOS_INLINE_FUNCTION void forward(Units<C>* gate, const C* before, C* kept, C* out) {
    for (int j = 0; j < column_tile; ++j) gate[0][j] = fast_sigmoid(gate[0][j]);
    for (int j = 0; j < column_tile; ++j) gate[1][j] = fast_sigmoid(gate[1][j]);
    for (int j = 0; j < column_tile; ++j) gate[2][j] = fast_tanh(gate[2][j] + gate[0][j] * kept[j]);
    for (int j = 0; j < column_tile; ++j) out[j] = (C(1) - gate[1][j]) * gate[2][j] + gate[1][j] * before[j];
  }
  template <class C>
  static KOKKOS_INLINE_FUNCTION void backward(const Units<C>* gate, const C* before, const C* kept, const C* dh,
                                              C* carried, Units<C>* dgate, C* dapart) {
    for (int j = 0; j < column_tile; ++j) {
      const C r = gate[0][j], z = gate[1][j], n = gate[2][j], total = dh[j] + carried[j];
      dgate[2][j] = total * (C(1) - z) * (C(1) - n * n);
      dapart[j] = dgate[2][j] * r;
      dgate[0][j] = dgate[2][j] * kept[j] * r * (C(1) - r);
      dgate[1][j] = total * (before[j] - n) * z * (C(1) - z);
      carried[j] = total * z;
    }
  }
};

/// The extents of a layer's tensors.
struct Extents {
  std::int64_t n, length, units, width;  // width: columns of y
};

template <class Cell, class T, class C>
void forward_step(const ExecSpace& space, const Extents& e, const RecurrentStep& step, T* gates, const T* recurrent,
                  const C* bias, C* state, T* y, T* h) {
  constexpr int g = Cell::gates;
  Kokkos::parallel_for(
      "lockstep::recurrent::forward_step", RangePolicy(space, 0, e.n * tiles_of(e.units)),
      KOKKOS_LAMBDA(const std::int64_t index) {
        const Place at = place_of(index, e.units);
        const std::int64_t now = at.example * e.length + step.t, earlier = at.example * e.length + step.before;
        T* own = gates + now * g * e.units + at.unit;
        C gate[g][column_tile] = {}, before[column_tile] = {}, kept[column_tile] = {}, out[column_tile];
        for (int k = 0; k < g; ++k) {
          read(own + k * e.units, at.width, gate[k]);
          C* const sum = k < Cell::summed ? gate[k] : kept;
          include(bias + k * e.units + at.unit, at.width, sum);
          if (recurrent != nullptr) include(recurrent + (at.example * g + k) * e.units + at.unit, at.width, sum);
        }
        if (step.before >= 0) {
          if (Cell::remembers_state) read(state + earlier * e.units + at.unit, at.width, before);
          else read(y + earlier * e.width + step.column + at.unit, at.width, before);
        }
        Cell::template forward<C>(gate, before, kept, out);
        for (int k = 0; k < g; ++k) write(gate[k], at.width, own + k * e.units);
        write(kept, at.width, state + now * e.units + at.unit);
        write(out, at.width, y + now * e.width + step.column + at.unit);
        write(out, at.width, h + at.example * e.units + at.unit);
      });
}

template <class Cell, class T, class C>
void backward_step(const ExecSpace& space, const Extents& e, const RecurrentStep& step, const T* gates, const C* state,
                   const T* y, const T* dy, const T* recurrent, T* dgates, T* dhidden, T* dstep, C* carried) {
  constexpr int g = Cell::gates;
  Kokkos::parallel_for(
      "lockstep::recurrent::backward_step", RangePolicy(space, 0, e.n * tiles_of(e.units)),
      KOKKOS_LAMBDA(const std::int64_t index) {
        const Place at = place_of(index, e.units);
        const std::int64_t now = at.example * e.length + step.t, earlier = at.example * e.length + step.before;
        C gate[g][column_tile] = {}, kept[column_tile] = {}, before[column_tile] = {}, dh[column_tile] = {},
          dcarried[column_tile] = {}, dgate[g][column_tile], dapart[column_tile];
        for (int k = 0; k < g; ++k) read(gates + (now * g + k) * e.units + at.unit, at.width, gate[k]);
        read(state + now * e.units + at.unit, at.width, kept);
        if (step.before >= 0) {
          if (Cell::remembers_state) read(state + earlier * e.units + at.unit, at.width, before);
          else read(y + earlier * e.width + step.column + at.unit, at.width, before);
        }
        read(dy + now * e.width + step.column + at.unit, at.width, dh);
        if (recurrent != nullptr) {
          read(carried + at.example * e.units + at.unit, at.width, dcarried);
          include(recurrent + at.example * e.units + at.unit, at.width, dh);
        }
        Cell::template backward<C>(gate, before, kept, dh, dcarried, dgate, dapart);
        write(dcarried, at.width, carried + at.example * e.units + at.unit);
        for (int k = 0; k < g; ++k) {
          const C* const hidden = k < Cell::summed ? dgate[k] : dapart;
          const std::int64_t place = (now * g + k) * e.units + at.unit;
          write(dgate[k], at.width, dgates + place);
          write(hidden, at.width, dstep + (at.example * g + k) * e.units + at.unit);
          if (Cell::summed < g) write(hidden, at.width, dhidden + place);
        }
      });
}

template <class T>
void shift(const ExecSpace& space, const Extents& e, std::int64_t offset, const T* y, T* before) {
  const std::int64_t rows = e.n * e.length;
  Kokkos::parallel_for(
      "lockstep::recurrent::shift", RangePolicy(space, 0, thread_per_element ? rows * e.units : rows),
      KOKKOS_LAMBDA(const std::int64_t index) {
        const std::int64_t count = thread_per_element ? 1 : e.units;
        const std::int64_t row = thread_per_element ? row_of(index, e.units) : index;
        const std::int64_t first = thread_per_element ? index - row * e.units : 0;
        const std::int64_t t = row - row_of(row, e.length) * e.length + offset;
        const T* from = y + (row + offset) * e.width + first;
        T* to = before + row * e.units + first;
        for (std::int64_t j = 0; j < count; ++j) to[j] = t < 0 || t >= e.length ? T(0) : from[j];
      });
}

Extents extents_of(const Tensor& y, const Tensor& state) {
  return {y.shape[0], y.shape[1], state.shape[2], y.shape[2]};
}

/// Calls run(cell).
template <class Run>
void dispatch_cell(RecurrentCell cell, Run run) {
  if (cell == RecurrentCell::lstm) run(LstmCell());
  else run(GruCell());
}

}  // namespace

void recurrent_forward_step(const ExecSpace& space, RecurrentCell cell, const RecurrentStep& step, const Tensor& gates,
                            const Tensor& recurrent, const Tensor& bias, const Tensor& state, const Tensor& y,
                            const Tensor& h) {
  dispatch_float(y.dtype, [&]<class T>(T) {
    using C = Compute<T>;
    dispatch_cell(cell, [&]<class Cell>(Cell) {
      forward_step<Cell, T, C>(space, extents_of(y, state), step, gates.as<T>(),
                               recurrent ? recurrent.as<const T>() : nullptr, bias.as<const C>(), state.as<C>(),
                               y.as<T>(), h.as<T>());
    });
  });
}

void recurrent_backward_step(const ExecSpace& space, RecurrentCell cell, const RecurrentStep& step, const Tensor& gates,
                             const Tensor& state, const Tensor& y, const Tensor& dy, const Tensor& recurrent,
                             const RecurrentGradients& d) {
  dispatch_float(dy.dtype, [&]<class T>(T) {
    using C = Compute<T>;
    dispatch_cell(cell, [&]<class Cell>(Cell) {
      backward_step<Cell, T, C>(space, extents_of(dy, state), step, gates.as<const T>(), state.as<const C>(),
                                y.as<const T>(), dy.as<const T>(), recurrent ? recurrent.as<const T>() : nullptr,
                                d.dgates.as<T>(), d.dhidden ? d.dhidden.as<T>() : nullptr, d.dstep.as<T>(),
                                d.carried.as<C>());
    });
  });
}

void recurrent_shift(const ExecSpace& space, std::int64_t offset, std::int64_t column, const Tensor& y,
                     const Tensor& before) {
  dispatch_float(y.dtype, [&]<class T>(T) {
    shift<T>(space, extents_of(y, before), offset, y.as<const T>() + column, before.as<T>());
  });
}

}  // namespace lockstep
