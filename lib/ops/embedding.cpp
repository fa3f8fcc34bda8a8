// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/embedding.hpp"

#include <cassert>

#include "ops/row_parts.hpp"

namespace lockstep {
namespace {

/// One index has `lanes` numbers of a place on GPUs, and all of them on CPUs.
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

/// The places of each token, in their order, as GPUs need them: those of token v are sorted[first[v]] … below
/// first[v + 1]. In a workspace.
struct SortedPlaces {
  std::int32_t *first, *taken, *unsorted, *sorted;

  SortedPlaces(std::int32_t* workspace, std::int64_t count, std::int64_t vocabulary)
      : first(workspace), taken(first + vocabulary + 1), unsorted(taken + vocabulary), sorted(unsorted + count) {}
  static std::size_t bytes(std::int64_t count, std::int64_t vocabulary) {
    return static_cast<std::size_t>(2 * vocabulary + 1 + 2 * count) * sizeof(std::int32_t);
  }
};

/// Places are put with those of their token in the order of the threads that come by, and then in their own.
void sort_places(const ExecSpace& space, std::int64_t count, std::int64_t vocabulary, const std::int32_t* tokens,
                 const SortedPlaces& places) {
  const RangePolicy all(space, 0, count);
  fill_zero(space, {places.first, DType::i32, {2 * vocabulary + 1}});
  Kokkos::parallel_for(
      "lockstep::embedding::count", all, KOKKOS_LAMBDA(const std::int64_t place) {
        if (tokens[place] != no_row) Kokkos::atomic_inc(places.first + tokens[place]);
      });
  Kokkos::parallel_scan(
      "lockstep::embedding::first", RangePolicy(space, 0, vocabulary + 1),
      KOKKOS_LAMBDA(const std::int64_t token, std::int32_t& before, const bool is_final) {
        const std::int32_t own = places.first[token];
        if (is_final) places.first[token] = before;
        before += own;
      });
  Kokkos::parallel_for(
      "lockstep::embedding::place", all, KOKKOS_LAMBDA(const std::int64_t place) {
        const std::int32_t token = tokens[place];
        if (token == no_row) return;
        const std::int32_t taken = Kokkos::atomic_fetch_inc(places.taken + token);
        places.unsorted[places.first[token] + taken] = static_cast<std::int32_t>(place);
      });
  Kokkos::parallel_for(
      "lockstep::embedding::sort", all, KOKKOS_LAMBDA(const std::int64_t place) {
        const std::int32_t token = tokens[place];
        if (token == no_row) return;
        const std::int32_t begin = places.first[token], end = places.first[token + 1];
        std::int32_t before = 0;
        for (std::int32_t k = begin; k < end; ++k) before += places.unsorted[k] < place ? 1 : 0;
        places.sorted[begin + before] = static_cast<std::int32_t>(place);
      });
}

/// As GPUs do it: an index has a token, and a pack of columns.
template <int lanes, class T>
void add_up_places(const ExecSpace& space, std::int64_t features, std::int64_t vocabulary, const SortedPlaces& places,
                   const T* dy, Compute<T>* dweight, bool add) {
  using C = Compute<T>;
  const std::int64_t packs = features / lanes;
  Kokkos::parallel_for(
      "lockstep::embedding::backward", RangePolicy(space, 0, vocabulary * packs),
      KOKKOS_LAMBDA(const std::int64_t index) {
        const std::int64_t token = row_of(index, packs), j = (index - token * packs) * lanes;
        const std::int32_t begin = places.first[token], end = places.first[token + 1];
        if (add && begin == end) return;
        C* const to = dweight + token * features + j;
        Pack<C, lanes> sum = {};
        if (add) sum = load_pack<lanes>(to);
        for (std::int32_t k = begin; k < end; ++k) {
          const auto gradient = load_pack<lanes>(dy + places.sorted[k] * features + j);
          LOCKSTEP_UNROLL
          for (int l = 0; l < lanes; ++l) sum.lane[l] += C(gradient.lane[l]);
        }
        store_pack<lanes>(sum, to);
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

std::size_t embedding_workspace_bytes(std::int64_t places, std::int64_t vocabulary) {
  return thread_per_element ? SortedPlaces::bytes(places, vocabulary) : 0;
}

void embedding_backward(const ExecSpace& space, const Tensor& tokens, const Tensor& dy, const Tensor& dweight,
                        Store store, const Tensor& workspace) {
  const std::int64_t count = tokens.count(), features = dy.shape[-1], vocabulary = dweight.count() / features;
  const auto* which = tokens.as<const std::int32_t>();
  assert(workspace.bytes() >= embedding_workspace_bytes(count, vocabulary));
  if (thread_per_element) {
    const SortedPlaces places(static_cast<std::int32_t*>(workspace.data), count, vocabulary);
    sort_places(space, count, vocabulary, which, places);
    dispatch_float(dy.dtype, [&]<class T>(T) {
      const auto run = [&]<int lanes>(std::integral_constant<int, lanes>) {
        add_up_places<lanes, T>(space, features, vocabulary, places, dy.as<const T>(), dweight.as<Compute<T>>(),
                                store == Store::add);
      };
      with_packs<T>(features, run, dy.as<const T>(), dweight.as<const Compute<T>>());
    });
  } else {
    if (store == Store::replace) fill_zero(space, dweight);
    dispatch_float(dy.dtype, [&]<class T>(T) {
      add_up_tokens<T>(space, count, features, which, dy.as<const T>(), dweight.as<Compute<T>>());
    });
  }
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
