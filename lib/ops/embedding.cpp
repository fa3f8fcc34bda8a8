// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/embedding.hpp"

#include "ops/row_parts.hpp"

namespace lockstep {
namespace {

template <class T>
void look_up(const ExecSpace& space, std::int64_t count, std::int64_t features, const std::int32_t* tokens,
             const Compute<T>* weight, T* y) {
  Kokkos::parallel_for(
      "lockstep::embedding::forward", RangePolicy(space, 0, thread_per_element ? count * features : count),
      KOKKOS_LAMBDA(const std::int64_t index) {
        const std::int64_t width = thread_per_element ? 1 : features;  // columns of this index
        const std::int64_t place = index * width / features, first = index * width - place * features;
        const Compute<T>* from = weight + tokens[place] * features + first;
        T* to = y + place * features + first;
        for (std::int64_t j = 0; j < width; ++j) to[j] = T(from[j]);
      });
}

/// Each index owns some columns and goes through all tokens: nobody else writes there.
template <class T>
void add_up_tokens(const ExecSpace& space, std::int64_t count, std::int64_t features, const std::int32_t* tokens,
                   const T* dy, Compute<T>* dweight) {
  const std::int64_t tiles = tiles_of(features);
  // With one thread whole rows, which are read and written in one piece.
  const std::int64_t parts = space.concurrency() < tiles ? space.concurrency() : tiles;
  Kokkos::parallel_for(
      "lockstep::embedding::backward", RangePolicy(space, 0, parts), KOKKOS_LAMBDA(const std::int64_t part) {
        const std::int64_t first = tiles * part / parts * column_tile;
        const std::int64_t wanted = tiles * (part + 1) / parts * column_tile;
        const std::int64_t end = wanted < features ? wanted : features;
        for (std::int64_t place = 0; place < count; ++place) {
          Compute<T>* to = dweight + tokens[place] * features;
          const T* from = dy + place * features;
          for (std::int64_t j = first; j < end; ++j) to[j] += Compute<T>(from[j]);
        }
      });
}

template <class T>
void add_positions(const ExecSpace& space, std::int64_t rows, std::int64_t length, std::int64_t features, const T* x,
                   const Compute<T>* weight, T* y) {
  Kokkos::parallel_for(
      "lockstep::position_embedding::forward", RangePolicy(space, 0, thread_per_element ? rows * features : rows),
      KOKKOS_LAMBDA(const std::int64_t index) {
        const std::int64_t width = thread_per_element ? 1 : features;
        const std::int64_t row = index * width / features, first = index * width - row * features;
        const Compute<T>* position = weight + row % length * features + first;
        const T* from = x + row * features + first;
        T* to = y + row * features + first;
        for (std::int64_t j = 0; j < width; ++j) to[j] = T(Compute<T>(from[j]) + position[j]);
      });
}

template <class T>
void add_up_positions(const ExecSpace& space, std::int64_t n, std::int64_t per_example, const T* dy,
                      Compute<T>* dweight, bool add) {
  const std::int64_t tiles = tiles_of(per_example);
  Kokkos::parallel_for(
      "lockstep::position_embedding::backward", RangePolicy(space, 0, tiles), KOKKOS_LAMBDA(const std::int64_t index) {
        const std::int64_t first = index * column_tile;
        const int width = static_cast<int>(per_example - first < column_tile ? per_example - first : column_tile);
        Compute<T> sum[column_tile] = {};
        for (std::int64_t i = 0; i < n; ++i)
          for (int j = 0; j < width; ++j) sum[j] += Compute<T>(dy[i * per_example + first + j]);
        for (int j = 0; j < width; ++j) dweight[first + j] = add ? dweight[first + j] + sum[j] : sum[j];
      });
}

}  // namespace

void embedding_forward(const ExecSpace& space, const Tensor& tokens, const Tensor& weight, const Tensor& y) {
  dispatch_float(y.dtype, [&]<class T>(T) {
    look_up<T>(space, tokens.count(), y.shape[-1], tokens.as<const std::int32_t>(), weight.as<const Compute<T>>(),
               y.as<T>());
  });
}

void embedding_backward(const ExecSpace& space, const Tensor& tokens, const Tensor& dy, const Tensor& dweight,
                        Store store) {
  if (store == Store::replace) fill_zero(space, dweight);
  dispatch_float(dy.dtype, [&]<class T>(T) {
    add_up_tokens<T>(space, tokens.count(), dy.shape[-1], tokens.as<const std::int32_t>(), dy.as<const T>(),
                     dweight.as<Compute<T>>());
  });
}

void position_forward(const ExecSpace& space, const Tensor& x, const Tensor& weight, const Tensor& y) {
  dispatch_float(y.dtype, [&]<class T>(T) {
    add_positions<T>(space, y.shape[0] * y.shape[1], y.shape[1], y.shape[2], x.as<const T>(),
                     weight.as<const Compute<T>>(), y.as<T>());
  });
}

void position_backward(const ExecSpace& space, const Tensor& dy, const Tensor& dweight, Store store) {
  const std::int64_t used = dy.shape[1] * dy.shape[2];
  dispatch_float(dy.dtype, [&]<class T>(T) {
    add_up_positions<T>(space, dy.shape[0], used, dy.as<const T>(), dweight.as<Compute<T>>(), store == Store::add);
    if (store == Store::replace)
      fill_zero(space, {dweight.as<Compute<T>>() + used, dweight.dtype, {dweight.count() - used}});
  });
}

}  // namespace lockstep
