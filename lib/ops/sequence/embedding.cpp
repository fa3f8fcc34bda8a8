// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/sequence/embedding.hpp"

#include "ops/row_parts.hpp"

namespace lockstep {
namespace {

/// On GPUs an index has `lanes` elements of a position, on CPUs all of them.
template <int lanes, class T>
void look_up(const ExecSpace& space, std::int64_t count, std::int64_t features, const std::int32_t* tokens,
             const Compute<T>* weight, T* y) {
  using C = Compute<T>;
  const std::int64_t packs = features / lanes;
  Kokkos::parallel_for(
      "lockstep::embedding::forward", RangePolicy(space, 0, thread_per_element ? count * packs : count),
      KOKKOS_LAMBDA(const std::int64_t index) {
        const std::int64_t place = thread_per_element ? row_of(index, packs) : index;
        const std::int32_t token = tokens[place];
        const C* const from = weight + token * features;  // nvcc forbids first captures in `if constexpr`
        T* const to = y + place * features;
        if constexpr (thread_per_element) {
          const std::int64_t j = (index - place * packs) * lanes;
          Pack<C, lanes> row;
          for (C& number : row.lane) number = Kokkos::Experimental::quiet_NaN_v<C>;
          if (token != no_row) row = load_pack<lanes>(from + j);
          Pack<T, lanes> result;
          LOCKSTEP_UNROLL
          for (int l = 0; l < lanes; ++l) result.lane[l] = T(row.lane[l]);
          store_pack<lanes>(result, to + j);
        } else {
          if (token == no_row)
            for (std::int64_t j = 0; j < features; ++j) to[j] = T(Kokkos::Experimental::quiet_NaN_v<C>);
          else
            for (std::int64_t j = 0; j < features; ++j) to[j] = T(from[j]);
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
        const bool is_there = row >= 0 && row < static_cast<Compute<T>>(first[table + 1] - begin);  // false for NaN
        rows[index] = is_there ? static_cast<std::int32_t>(begin + static_cast<std::int64_t>(row)) : no_row;
      });
}

template <class T>
void add_positions(const ExecSpace& space, std::int64_t rows, std::int64_t length, std::int64_t features, const T* x,
                   const Compute<T>* weight, T* y) {
  constexpr auto label = "lockstep::position_embedding::forward";
  if constexpr (thread_per_element)
    for_elements(
        space, label, rows * features,
        KOKKOS_LAMBDA(std::int64_t, const T& in, const Compute<T>& position, T& out) {
          out = T(Compute<T>(in) + position);
        },
        Reads(x), ReadsColumns(weight, length * features), Writes(y));
  else
    Kokkos::parallel_for(
        label, RangePolicy(space, 0, rows), KOKKOS_LAMBDA(const std::int64_t row) {
          const Compute<T>* position = weight + (row - row_of(row, length) * length) * features;
          const T* from = x + row * features;
          T* to = y + row * features;
          for (std::int64_t j = 0; j < features; ++j) to[j] = T(Compute<T>(from[j]) + position[j]);
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
  const std::int64_t features = y.shape[-1];
  dispatch_float(y.dtype, [&]<class T>(T) {
    const auto* rows = weight.as<const Compute<T>>();
    const auto run = [&]<int lanes>(std::integral_constant<int, lanes>) {
      look_up<lanes, T>(space, tokens.count(), features, tokens.as<const std::int32_t>(), rows, y.as<T>());
    };
    with_packs<T>(features, run, y.as<const T>(), rows);
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
