// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <bit>
#include <cassert>

#include "core/memory_plan.hpp"
#include "ops/row_parts.hpp"
#include "ops/sequence/embedding.hpp"

namespace lockstep {
namespace {

/// Tokens with more positions than this are frequent: their gradients are added up in pieces of this many positions,
/// and the pieces in order, which keeps the rounding errors of long sums small.
constexpr std::int32_t piece_places = 256;

/// The workspace on CPUs: a row for each frequent token, which accumulates the sum of a piece. Empty if there are so
/// few positions that no token can be frequent. (Sorting positions by token, as on GPUs, took 1.3 to 1.8 times as long
/// for 16,384 positions evenly shared by 256 tokens with 256 or more features.)
struct PieceRows {
  std::int64_t count;
  int bits = 0;                   ///< bits in the number of a slot
  void* sums = nullptr;           ///< [most_frequent, features]
  std::int32_t* token = nullptr;  ///< [slots] token of a slot; no_row: the slot is free
  /// [slots] Number of positions of the token; −1 − its row, once a frequent token has one.
  std::int32_t* number = nullptr;
  std::int32_t* total = nullptr;     ///< [most_frequent] number of positions of the row's token
  std::int32_t* seen = nullptr;      ///< [most_frequent] positions of the row's token seen so far
  std::int32_t* of_place = nullptr;  ///< [count] 4 · row + is_first + is_last; none: the token is rare

  static constexpr std::int32_t none = -1, is_first = 1, is_last = 2;  ///< position within a piece

  PieceRows(void* workspace, DType master, std::int64_t places, std::int64_t features) : count(places) {
    if (!may_be_frequent(count)) return;
    bits = std::countr_zero(slots(count));
    sums = workspace;
    token = reinterpret_cast<std::int32_t*>(static_cast<std::byte*>(workspace) +
                                            bytes_of_sums(master, count, features));
    number = token + slots(count);
    total = number + slots(count);
    seen = total + most_frequent(count);
    of_place = seen + most_frequent(count);
  }

  static std::int64_t most_frequent(std::int64_t count) { return count / piece_places; }
  static bool may_be_frequent(std::int64_t count) { return count > piece_places; }
  /// Half of the slots stay free, so that a token soon finds one.
  static std::uint64_t slots(std::int64_t count) { return std::bit_ceil(2 * static_cast<std::uint64_t>(count)); }
  static std::size_t bytes_of_sums(DType master, std::int64_t count, std::int64_t features) {
    return align_up(static_cast<std::size_t>(most_frequent(count) * features) * size_of(master));
  }
  static std::size_t bytes(DType master, std::int64_t count, std::int64_t features) {
    if (!may_be_frequent(count)) return 0;
    const std::size_t numbers = 2 * slots(count) + static_cast<std::size_t>(2 * most_frequent(count) + count);
    return bytes_of_sums(master, count, features) + numbers * sizeof(std::int32_t);
  }

  /// Returns the slot of a token; the token takes a free one if it has none. Neighbouring tokens begin their search far
  /// apart (multiplicative hashing: Knuth, "The art of computer programming", vol. 3, 6.4).
  KOKKOS_INLINE_FUNCTION std::int32_t slot_of(std::int32_t wanted) const {
    const std::uint32_t last = (std::uint32_t{1} << bits) - 1;
    std::uint32_t slot = (static_cast<std::uint32_t>(wanted) * 2654435769U) >> (32 - bits);
    while (token[slot] != wanted && token[slot] != no_row) slot = (slot + 1) & last;
    token[slot] = wanted;
    return static_cast<std::int32_t>(slot);
  }
};

/// Assigns positions to pieces. One thread goes through the tokens twice, which is cheap compared with adding up their
/// gradients.
void find_pieces(const ExecSpace& space, const std::int32_t* tokens, const PieceRows& rows) {
  const auto slots = static_cast<std::int64_t>(PieceRows::slots(rows.count));
  fill_zero(space, {rows.number, DType::i32, {slots}});
  Kokkos::parallel_for(
      "lockstep::embedding::free_slots", RangePolicy(space, 0, slots),
      KOKKOS_LAMBDA(const std::int64_t slot) { rows.token[slot] = no_row; });
  Kokkos::parallel_for(
      "lockstep::embedding::find_pieces", RangePolicy(space, 0, 1), KOKKOS_LAMBDA(std::int64_t) {
        for (std::int64_t place = 0; place < rows.count; ++place) {
          if (tokens[place] == no_row) continue;
          const std::int32_t slot = rows.slot_of(tokens[place]);
          rows.of_place[place] = slot;  // temporary
          ++rows.number[slot];
        }
        std::int32_t frequent = 0;
        for (std::int64_t place = 0; place < rows.count; ++place) {
          if (tokens[place] == no_row) continue;
          std::int32_t& number = rows.number[rows.of_place[place]];
          rows.of_place[place] = PieceRows::none;
          if (number > piece_places) {
            rows.total[frequent] = number;
            rows.seen[frequent] = 0;
            number = -1 - frequent++;
          }
          if (number >= 0) continue;
          const std::int32_t row = -1 - number, in_piece = rows.seen[row]++ % piece_places;
          const bool is_last = in_piece == piece_places - 1 || rows.seen[row] == rows.total[row];
          rows.of_place[place] = 4 * row + (in_piece == 0 ? PieceRows::is_first : 0) +
                                 (is_last ? PieceRows::is_last : 0);
        }
      });
}

/// to += from, for columns first … end − 1.
template <class T, class C>
KOKKOS_INLINE_FUNCTION void add_columns(C* to, const T* from, std::int64_t first, std::int64_t end) {
  for (std::int64_t j = first; j < end; ++j) to[j] += C(from[j]);
}

/// Each index owns some columns and goes through all tokens, so no other thread writes there.
template <class T>
void add_up_tokens(const ExecSpace& space, std::int64_t features, const std::int32_t* tokens, const PieceRows& rows,
                   const T* dy, Compute<T>* dweight) {
  const std::int64_t tiles = tiles_of(features);
  // A single thread has whole rows, which it reads and writes contiguously.
  const std::int64_t parts = space.concurrency() < tiles ? space.concurrency() : tiles;
  const bool may_be_frequent = PieceRows::may_be_frequent(rows.count);
  Kokkos::parallel_for(
      "lockstep::embedding::backward", RangePolicy(space, 0, parts), KOKKOS_LAMBDA(const std::int64_t part) {
        const std::int64_t first = tiles * part / parts * column_tile;
        const std::int64_t wanted = tiles * (part + 1) / parts * column_tile;
        const std::int64_t end = wanted < features ? wanted : features;
        for (std::int64_t place = 0; place < rows.count; ++place) {
          if (tokens[place] == no_row) continue;
          Compute<T>* const to = dweight + tokens[place] * features;
          const T* const from = dy + place * features;
          const std::int32_t of_place = may_be_frequent ? rows.of_place[place] : PieceRows::none;
          if (of_place == PieceRows::none) {
            add_columns(to, from, first, end);
            continue;
          }
          Compute<T>* const sum = static_cast<Compute<T>*>(rows.sums) + of_place / 4 * features;
          if ((of_place & PieceRows::is_first) != 0) {
            for (std::int64_t j = first; j < end; ++j) sum[j] = Compute<T>(from[j]);
          } else {
            add_columns(sum, from, first, end);
          }
          if ((of_place & PieceRows::is_last) != 0) add_columns(to, sum, first, end);
        }
      });
}

/// The positions of each token, in order, as GPUs need them: those of token v are sorted[first[v]] … sorted[first[v +
/// 1] − 1]. All arrays lie in a workspace.
struct SortedPlaces {
  std::int64_t count, vocabulary, features;
  void* partial;        ///< sums of pieces [pieces, features]
  std::int32_t* first;  ///< [vocabulary + 1]
  /// [vocabulary] Number of positions stored so far; later the first piece of a frequent token.
  std::int32_t* taken;
  std::int32_t* listed;    ///< number of frequent tokens, and number of their pieces
  std::int32_t* frequent;  ///< tokens with more than piece_places positions, in any order
  std::int32_t* of_piece;  ///< token of each piece
  std::int32_t *unsorted, *sorted;

  SortedPlaces(void* workspace, DType master, std::int64_t places, std::int64_t words, std::int64_t width)
      : count(places), vocabulary(words), features(width), partial(workspace) {
    first = reinterpret_cast<std::int32_t*>(static_cast<std::byte*>(workspace) +
                                            bytes_of_pieces(master, count, features));
    taken = first + vocabulary + 1;
    listed = taken + vocabulary;
    frequent = listed + 2;
    of_piece = frequent + most_frequent(count);
    unsorted = of_piece + most_pieces(count);
    sorted = unsorted + count;
  }

  static std::int64_t most_frequent(std::int64_t count) { return count / piece_places; }
  /// At most 2·count / piece_places, because the last piece of a token may have a single position.
  static std::int64_t most_pieces(std::int64_t count) { return 2 * most_frequent(count); }
  static std::size_t bytes_of_pieces(DType master, std::int64_t count, std::int64_t features) {
    return align_up(static_cast<std::size_t>(most_pieces(count) * features) * size_of(master));
  }
  static std::size_t bytes(DType master, std::int64_t count, std::int64_t vocabulary, std::int64_t features) {
    const std::int64_t numbers = 2 * vocabulary + 3 + most_frequent(count) + most_pieces(count) + 2 * count;
    return bytes_of_pieces(master, count, features) + static_cast<std::size_t>(numbers) * sizeof(std::int32_t);
  }

  KOKKOS_INLINE_FUNCTION std::int32_t number_of(std::int64_t token) const { return first[token + 1] - first[token]; }
  KOKKOS_INLINE_FUNCTION static std::int32_t pieces_of(std::int32_t number) {
    return (number + piece_places - 1) / piece_places;
  }
};

/// Stores the positions of each rare token, first in the order in which threads arrive, then sorted: each position
/// counts those before it.
void sort_places(const ExecSpace& space, const std::int32_t* tokens, const SortedPlaces& places) {
  const RangePolicy all(space, 0, places.count);
  fill_zero(space, {places.first, DType::i32, {2 * places.vocabulary + 3}});
  Kokkos::parallel_for(
      "lockstep::embedding::count", all, KOKKOS_LAMBDA(const std::int64_t place) {
        if (tokens[place] != no_row) Kokkos::atomic_inc(places.first + tokens[place]);
      });
  Kokkos::parallel_scan(
      "lockstep::embedding::first", RangePolicy(space, 0, places.vocabulary + 1),
      KOKKOS_LAMBDA(const std::int64_t token, std::int32_t& before, const bool is_final) {
        const std::int32_t own = places.first[token];
        if (is_final) places.first[token] = before;
        before += own;
      });
  Kokkos::parallel_for(
      "lockstep::embedding::place", all, KOKKOS_LAMBDA(const std::int64_t place) {
        const std::int32_t token = tokens[place];
        if (token == no_row || places.number_of(token) > piece_places) return;
        const std::int32_t taken = Kokkos::atomic_fetch_inc(places.taken + token);
        places.unsorted[places.first[token] + taken] = static_cast<std::int32_t>(place);
      });
  Kokkos::parallel_for(
      "lockstep::embedding::sort", all, KOKKOS_LAMBDA(const std::int64_t place) {
        const std::int32_t token = tokens[place];
        if (token == no_row || places.number_of(token) > piece_places) return;
        const std::int32_t begin = places.first[token], end = places.first[token + 1];
        std::int32_t before = 0;
        for (std::int32_t k = begin; k < end; ++k) before += places.unsorted[k] < place ? 1 : 0;
        places.sorted[begin + before] = static_cast<std::int32_t>(place);
      });
}

/// Sorts the positions of frequent tokens. A team has a token and goes through all positions; each of its threads has
/// consecutive ones.
void sort_frequent_places(const ExecSpace& space, const std::int32_t* tokens, const SortedPlaces& places) {
  Kokkos::parallel_for(
      "lockstep::embedding::list_frequent", RangePolicy(space, 0, places.vocabulary),
      KOKKOS_LAMBDA(const std::int64_t token) {
        const std::int32_t number = places.number_of(token);
        if (number <= piece_places) return;
        places.frequent[Kokkos::atomic_fetch_inc(places.listed)] = static_cast<std::int32_t>(token);
        const std::int32_t pieces = SortedPlaces::pieces_of(number);
        const std::int32_t piece = Kokkos::atomic_fetch_add(places.listed + 1, pieces);
        places.taken[token] = piece;
        for (std::int32_t k = 0; k < pieces; ++k) places.of_piece[piece + k] = static_cast<std::int32_t>(token);
      });
  using Team = Kokkos::TeamPolicy<ExecSpace>;
  Kokkos::parallel_for(
      "lockstep::embedding::sort_frequent",
      Team(space, static_cast<int>(SortedPlaces::most_frequent(places.count)), team_threads(256)),
      KOKKOS_LAMBDA(const Team::member_type& team) {
        if (team.league_rank() >= places.listed[0]) return;
        const std::int32_t token = places.frequent[team.league_rank()];
        const std::int64_t begin = places.count * team.team_rank() / team.team_size();
        const std::int64_t end = places.count * (team.team_rank() + 1) / team.team_size();
        std::int32_t own = 0;
        for (std::int64_t place = begin; place < end; ++place) own += tokens[place] == token ? 1 : 0;
        std::int32_t at = places.first[token] + team.team_scan(own);
        for (std::int64_t place = begin; place < end; ++place)
          if (tokens[place] == token) places.sorted[at++] = static_cast<std::int32_t>(place);
      });
}

/// sum += the columns of the pack at j, over the rows row(k), begin ≤ k < end.
template <int lanes, class T, class C, class F>
KOKKOS_INLINE_FUNCTION void add_rows(Pack<C, lanes>& sum, std::int32_t begin, std::int32_t end, const T* from,
                                     std::int64_t features, std::int64_t j, const F& row) {
  for (std::int32_t k = begin; k < end; ++k) {
    const auto gradient = load_pack<lanes>(from + row(k) * features + j);
    LOCKSTEP_UNROLL
    for (int l = 0; l < lanes; ++l) sum.lane[l] += C(gradient.lane[l]);
  }
}

/// Each index has a piece of a frequent token and a pack of columns.
template <int lanes, class T>
void add_up_pieces(const ExecSpace& space, const SortedPlaces& places, const T* dy) {
  using C = Compute<T>;
  const std::int64_t features = places.features, packs = features / lanes;
  Kokkos::parallel_for(
      "lockstep::embedding::add_up_pieces", RangePolicy(space, 0, SortedPlaces::most_pieces(places.count) * packs),
      KOKKOS_LAMBDA(const std::int64_t index) {
        const std::int64_t piece = row_of(index, packs), j = (index - piece * packs) * lanes;
        if (piece >= places.listed[1]) return;
        const std::int32_t token = places.of_piece[piece], last = places.first[token + 1];
        const std::int32_t before = (static_cast<std::int32_t>(piece) - places.taken[token]) * piece_places;
        const std::int32_t begin = places.first[token] + before;
        const std::int32_t end = last - begin < piece_places ? last : begin + piece_places;
        Pack<C, lanes> sum = {};
        add_rows(sum, begin, end, dy, features, j,
                 [&](std::int32_t k) { return static_cast<std::int64_t>(places.sorted[k]); });
        store_pack<lanes>(sum, static_cast<C*>(places.partial) + piece * features + j);
      });
}

/// Each index has a token and a pack of columns.
template <int lanes, class T>
void add_up_places(const ExecSpace& space, const SortedPlaces& places, const T* dy, Compute<T>* dweight, bool add) {
  using C = Compute<T>;
  const std::int64_t features = places.features, packs = features / lanes;
  Kokkos::parallel_for(
      "lockstep::embedding::backward", RangePolicy(space, 0, places.vocabulary * packs),
      KOKKOS_LAMBDA(const std::int64_t index) {
        const std::int64_t token = row_of(index, packs), j = (index - token * packs) * lanes;
        const std::int32_t number = places.number_of(token);
        if (add && number == 0) return;
        C* const to = dweight + token * features + j;
        Pack<C, lanes> sum = {};
        if (add) sum = load_pack<lanes>(to);
        if (number > piece_places) {
          const std::int32_t piece = places.taken[token];
          add_rows(sum, piece, piece + SortedPlaces::pieces_of(number), static_cast<const C*>(places.partial), features,
                   j, [](std::int32_t k) { return static_cast<std::int64_t>(k); });
        } else {
          add_rows(sum, places.first[token], places.first[token + 1], dy, features, j,
                   [&](std::int32_t k) { return static_cast<std::int64_t>(places.sorted[k]); });
        }
        store_pack<lanes>(sum, to);
      });
}

}  // namespace

std::size_t embedding_workspace_bytes(DType dtype, std::int64_t places, std::int64_t vocabulary,
                                      std::int64_t features) {
  const DType master = master_dtype(dtype);
  return thread_per_element ? SortedPlaces::bytes(master, places, vocabulary, features)
                            : PieceRows::bytes(master, places, features);
}

void embedding_backward(const ExecSpace& space, const Tensor& tokens, const Tensor& dy, const Tensor& dweight,
                        Store store, const Tensor& workspace) {
  const std::int64_t count = tokens.count(), features = dy.shape[-1], vocabulary = dweight.count() / features;
  const auto* which = tokens.as<const std::int32_t>();
  assert(workspace.bytes() >= embedding_workspace_bytes(dy.dtype, count, vocabulary, features));
  if (thread_per_element) {
    const SortedPlaces places(workspace.data, dweight.dtype, count, vocabulary, features);
    const bool may_be_frequent = count > piece_places;
    sort_places(space, which, places);
    if (may_be_frequent) sort_frequent_places(space, which, places);
    dispatch_float(dy.dtype, [&]<class T>(T) {
      const auto run = [&]<int lanes>(std::integral_constant<int, lanes>) {
        const auto* from = dy.as<const T>();
        if (may_be_frequent) add_up_pieces<lanes, T>(space, places, from);
        add_up_places<lanes, T>(space, places, from, dweight.as<Compute<T>>(), store == Store::add);
      };
      with_packs<T>(features, run, dy.as<const T>(), dweight.as<const Compute<T>>());
    });
  } else {
    if (store == Store::replace) fill_zero(space, dweight);
    const PieceRows rows(workspace.data, dweight.dtype, count, features);
    if (PieceRows::may_be_frequent(count)) find_pieces(space, which, rows);
    dispatch_float(dy.dtype, [&]<class T>(T) {
      add_up_tokens<T>(space, features, which, rows, dy.as<const T>(), dweight.as<Compute<T>>());
    });
  }
}

}  // namespace lockstep
