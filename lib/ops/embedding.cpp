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
        const std::int64_t place = thread_per_element ? row_of(index, features) : index;
        const std::int64_t first = thread_per_element ? index - place * features : 0;
        const std::int32_t token = tokens[place];
        T* to = y + place * features + first;
        if (token == no_row) {
          for (std::int64_t j = 0; j < width; ++j) to[j] = T(Kokkos::Experimental::quiet_NaN_v<Compute<T>>);
          return;
        }
        const Compute<T>* from = weight + token * features + first;
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
          if (tokens[place] == no_row) continue;
          Compute<T>* to = dweight + tokens[place] * features;
          const T* from = dy + place * features;
          for (std::int64_t j = first; j < end; ++j) to[j] += Compute<T>(from[j]);
        }
      });
}

/// As GPUs do it: each team of neighbouring indices owns some tokens of the vocabulary, each index of it a column. It
/// goes through all places, and adds up those with its tokens, in their order: the same sums every time, without
/// sorting.
template <class T>
void add_up_tokens_by_vocabulary(const ExecSpace& space, std::int64_t count, std::int64_t features,
                                 std::int64_t vocabulary, const std::int32_t* tokens, const T* dy,
                                 Compute<T>* dweight) {
  constexpr std::int64_t wanted_shares = 1024;
  const std::int64_t shares = vocabulary < wanted_shares ? vocabulary : wanted_shares;
  Kokkos::parallel_for(
      "lockstep::embedding::backward", RangePolicy(space, 0, shares * features),
      KOKKOS_LAMBDA(const std::int64_t index) {
        const std::int64_t share = row_of(index, features), j = index - share * features;
        const auto first = static_cast<std::int32_t>(vocabulary * share / shares);
        const auto end = static_cast<std::int32_t>(vocabulary * (share + 1) / shares);
        for (std::int64_t place = 0; place < count; ++place) {
          const std::int32_t token = tokens[place];
          if (token >= first && token < end) dweight[token * features + j] += Compute<T>(dy[place * features + j]);
        }
      });
}

template <class T>
void find_rows(const ExecSpace& space, std::int64_t count, std::int64_t tables, const T* x, const std::int64_t* first,
               std::int32_t* rows) {
  Kokkos::parallel_for(
      "lockstep::embedding_tables::rows", RangePolicy(space, 0, count), KOKKOS_LAMBDA(const std::int64_t index) {
        const std::int64_t table = index - row_of(index, tables) * tables, begin = first[table];
        const Compute<T> row = Kokkos::round(Compute<T>(x[index]));
        const bool is_there = row >= 0 && row < static_cast<Compute<T>>(first[table + 1] - begin);  // not of NaN
        rows[index] = is_there ? static_cast<std::int32_t>(begin + static_cast<std::int64_t>(row)) : no_row;
      });
}

template <class T>
void add_positions(const ExecSpace& space, std::int64_t rows, std::int64_t length, std::int64_t features, const T* x,
                   const Compute<T>* weight, T* y) {
  Kokkos::parallel_for(
      "lockstep::position_embedding::forward", RangePolicy(space, 0, thread_per_element ? rows * features : rows),
      KOKKOS_LAMBDA(const std::int64_t index) {
        const std::int64_t width = thread_per_element ? 1 : features;
        const std::int64_t row = thread_per_element ? row_of(index, features) : index;
        const std::int64_t first = thread_per_element ? index - row * features : 0;
        const Compute<T>* position = weight + (row - row_of(row, length) * length) * features + first;
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
    const std::int64_t count = tokens.count(), features = dy.shape[-1];
    const auto* which = tokens.as<const std::int32_t>();
    if constexpr (thread_per_element)
      add_up_tokens_by_vocabulary<T>(space, count, features, dweight.count() / features, which, dy.as<const T>(),
                                     dweight.as<Compute<T>>());
    else add_up_tokens<T>(space, count, features, which, dy.as<const T>(), dweight.as<Compute<T>>());
  });
}

void find_table_rows(const ExecSpace& space, const Tensor& x, const Tensor& first, const Tensor& rows) {
  dispatch_float(x.dtype, [&]<class T>(T) {
    find_rows<T>(space, x.count(), x.shape[1], x.as<const T>(), first.as<const std::int64_t>(),
                 rows.as<std::int32_t>());
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
