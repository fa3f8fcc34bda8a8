// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cstdint>

#include "core/execution.hpp"

// Elementwise kernels over several arrays, written as a function of one element, as in
//   for_elements(space, label, n, KOKKOS_LAMBDA(std::int64_t, const T& x, T& y) { y = f(x); }, Reads{x}, Writes{y});
// On a GPU, each thread takes packs of neighbouring elements, loaded and stored 16 bytes at a time.

// LOCKSTEP_UNROLL unrolls a loop completely, so that arrays indexed by its counter stay in registers.
#if defined(__CUDACC__) || defined(__HIPCC__)
#define LOCKSTEP_UNROLL _Pragma("unroll")
#else
#define LOCKSTEP_UNROLL
#endif

namespace lockstep {

/// Neighbouring elements, loaded and stored up to 16 bytes at a time.
template <class T, int lanes>
struct alignas(lanes * sizeof(T) < 16 ? lanes * sizeof(T) : 16) Pack {
  T lane[lanes];
};

template <class T, int lanes>
KOKKOS_INLINE_FUNCTION bool holds_packs(const T* data) {
  return reinterpret_cast<std::uintptr_t>(data) % alignof(Pack<T, lanes>) == 0;
}
template <int lanes, class T>
KOKKOS_INLINE_FUNCTION Pack<T, lanes> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T, lanes>*>(from);
}
/// The pack is passed by value: for a reference, nvcc would also write the pack to the thread's stack.
template <int lanes, class T>
KOKKOS_INLINE_FUNCTION void store_pack(Pack<T, lanes> pack, T* to) {
#ifdef __CUDA_ARCH__
  // nvcc may split the store of a struct into its members if these were just computed, but never that of an integer.
  constexpr int numbers = sizeof(pack) / sizeof(unsigned __int128);
  if constexpr (numbers > 0) {
    unsigned __int128 number[numbers];
    memcpy(number, &pack, sizeof(pack));
    LOCKSTEP_UNROLL
    for (int i = 0; i < numbers; ++i) reinterpret_cast<unsigned __int128*>(to)[i] = number[i];
    return;
  }
#endif
  *reinterpret_cast<Pack<T, lanes>*>(to) = pack;
}

/// An input array.
template <class T>
struct Reads {
  using Value = T;
  static constexpr bool of_columns = false;
  const T* data;

  explicit KOKKOS_INLINE_FUNCTION Reads(const T* array) : data(array) {}
  KOKKOS_INLINE_FUNCTION const void* address() const { return data; }
  KOKKOS_INLINE_FUNCTION const T& at(std::int64_t i) const { return data[i]; }
  template <int lanes>
  KOKKOS_INLINE_FUNCTION bool has_pack(std::int64_t i) const {
    return holds_packs<T, lanes>(data + i);
  }
  template <int lanes>
  KOKKOS_INLINE_FUNCTION void load(std::int64_t i, Pack<T, lanes>& pack) const {
    pack = load_pack<lanes>(data + i);
  }
  template <int lanes>
  KOKKOS_INLINE_FUNCTION void store(std::int64_t, const Pack<T, lanes>&) const {}
};

/// An output array, which may also be one of the inputs.
template <class T>
struct Writes {
  using Value = T;
  static constexpr bool of_columns = false;
  T* data;

  explicit KOKKOS_INLINE_FUNCTION Writes(T* array) : data(array) {}
  KOKKOS_INLINE_FUNCTION const void* address() const { return data; }
  KOKKOS_INLINE_FUNCTION T& at(std::int64_t i) const { return data[i]; }
  template <int lanes>
  KOKKOS_INLINE_FUNCTION bool has_pack(std::int64_t i) const {
    return holds_packs<T, lanes>(data + i);
  }
  template <int lanes>
  KOKKOS_INLINE_FUNCTION void load(std::int64_t, Pack<T, lanes>&) const {}
  template <int lanes>
  KOKKOS_INLINE_FUNCTION void store(std::int64_t i, const Pack<T, lanes>& pack) const {
    store_pack<lanes>(pack, data + i);
  }
};

/// An array that is both read and written.
template <class T>
struct Updates : Writes<T> {
  explicit KOKKOS_INLINE_FUNCTION Updates(T* array) : Writes<T>(array) {}
  template <int lanes>
  KOKKOS_INLINE_FUNCTION void load(std::int64_t i, Pack<T, lanes>& pack) const {
    pack = load_pack<lanes>(this->data + i);
  }
};

/// Row of element i of an array [rows, c]. Uses 32-bit division where possible, which is much faster on GPUs.
KOKKOS_INLINE_FUNCTION std::int64_t row_of(std::int64_t i, std::int64_t c) {
  if ((i | c) >> 32 == 0) return static_cast<std::uint32_t>(i) / static_cast<std::uint32_t>(c);
  return i / c;
}

/// An array [c] with one value per column, read for the elements of [rows, c].
template <class T>
struct ReadsColumns {
  using Value = T;
  static constexpr bool of_columns = true;
  const T* data;
  std::int64_t c;

  KOKKOS_INLINE_FUNCTION ReadsColumns(const T* array, std::int64_t columns) : data(array), c(columns) {}
  KOKKOS_INLINE_FUNCTION const T& at(std::int64_t i) const { return data[i - row_of(i, c) * c]; }
  /// A pack must not extend into the next row.
  template <int lanes>
  KOKKOS_INLINE_FUNCTION bool has_pack(std::int64_t) const {
    return c % lanes == 0 && holds_packs<T, lanes>(data);
  }
  template <int lanes>
  KOKKOS_INLINE_FUNCTION void load(std::int64_t i, Pack<T, lanes>& pack) const {
    pack = load_pack<lanes>(&at(i));
  }
  template <int lanes>
  KOKKOS_INLINE_FUNCTION void store(std::int64_t, const Pack<T, lanes>&) const {}
};

/// Random words that a kernel draws instead of reading an array: element i is random word number first + i; each draw
/// yields four. `make_stream` is called inside the kernel and returns the RandomStream.
template <class MakeStream>
struct DrawsWords {
  using Value = std::uint32_t;
  static constexpr bool of_columns = false;
  MakeStream make_stream;
  std::uint64_t first;

  KOKKOS_INLINE_FUNCTION DrawsWords(const MakeStream& make, std::int64_t first_number)
      : make_stream(make), first(static_cast<std::uint64_t>(first_number)) {}
  KOKKOS_INLINE_FUNCTION std::uint32_t at(std::int64_t i) const {
    const std::uint64_t number = first + static_cast<std::uint64_t>(i);
    const auto drawn = make_stream().bits(number / 4);
    const auto place = static_cast<int>(number % 4);
    std::uint32_t word = drawn.word[0];
    // Keeps the words in registers, unlike word[place].
    for (int w = 1; w < 4; ++w) word = place == w ? drawn.word[w] : word;
    return word;
  }
  /// A pack must begin with a whole draw.
  template <int lanes>
  KOKKOS_INLINE_FUNCTION bool has_pack(std::int64_t i) const {
    return (first + static_cast<std::uint64_t>(i)) % 4 == 0;
  }
  template <int lanes>
  KOKKOS_INLINE_FUNCTION void load(std::int64_t i, Pack<std::uint32_t, lanes>& pack) const {
    static_assert(lanes % 4 == 0);
    make_stream().template bits<lanes / 4>((first + static_cast<std::uint64_t>(i)) / 4, pack.lane);
  }
  template <int lanes>
  KOKKOS_INLINE_FUNCTION void store(std::int64_t, const Pack<std::uint32_t, lanes>&) const {}
};

template <class Array>
inline constexpr bool is_drawn = false;
template <class MakeStream>
inline constexpr bool is_drawn<DrawsWords<MakeStream>> = true;

/// `depth` packs of one array, `step` elements apart; a single one, shared by all, for an array of columns.
template <class T, int lanes, int depth>
struct PackRow {
  Pack<T, lanes> pack[depth];
  KOKKOS_INLINE_FUNCTION T& lane(int d, int l) { return pack[depth > 1 ? d : 0].lane[l]; }
};

/// Passes an element's position in the arrays as its number.
struct ElementNumber {
  std::int64_t first, step;
  KOKKOS_INLINE_FUNCTION std::int64_t operator()(int d, int l) const { return first + d * step + l; }
};
/// Passes an element's lane in its pack as its number.
struct LaneNumber {
  KOKKOS_INLINE_FUNCTION int operator()(int, int l) const { return l; }
};

/// The arrays of a kernel. Elements are loaded before the function is applied, and stored after it.
template <class... Arrays>
struct ArrayList {
  static constexpr std::size_t narrowest = 16;  // bytes, for an empty list
  static constexpr bool has_columns = false;

  KOKKOS_INLINE_FUNCTION std::int64_t columns() const { return 0; }
  template <int lanes>
  KOKKOS_INLINE_FUNCTION bool have_packs(std::int64_t) const {
    return true;
  }
  template <class F, class... Elements>
  KOKKOS_INLINE_FUNCTION decltype(auto) do_element(const F& f, std::int64_t i, Elements&... elements) const {
    return f(i, elements...);
  }
  template <int lanes, int depth, class Number, class F, class... Rows>
  KOKKOS_INLINE_FUNCTION void do_packs(const F& f, const Number& number, std::int64_t, std::int64_t,
                                       Rows&... rows) const {
    LOCKSTEP_UNROLL
    for (int d = 0; d < depth; ++d) {
      LOCKSTEP_UNROLL
      for (int l = 0; l < lanes; ++l) f(number(d, l), rows.lane(d, l)...);
    }
  }
};

template <class First, class... Rest>
struct ArrayList<First, Rest...> {
  using Value = typename First::Value;
  static constexpr std::size_t narrowest = sizeof(Value) < ArrayList<Rest...>::narrowest
                                               ? sizeof(Value)
                                               : ArrayList<Rest...>::narrowest;
  static constexpr bool has_columns = First::of_columns || ArrayList<Rest...>::has_columns;
  First first;
  ArrayList<Rest...> rest;

  explicit KOKKOS_INLINE_FUNCTION ArrayList(const First& array, const Rest&... others)
      : first(array), rest(others...) {}

  /// Number of columns, if there are arrays of columns.
  KOKKOS_INLINE_FUNCTION std::int64_t columns() const {
    if constexpr (First::of_columns) return first.c;
    else return rest.columns();
  }
  /// True if packs of all arrays can begin at element i.
  template <int lanes>
  KOKKOS_INLINE_FUNCTION bool have_packs(std::int64_t i) const {
    return first.template has_pack<lanes>(i) && rest.template have_packs<lanes>(i);
  }
  /// Number of elements before the first possible pack of the first array.
  template <int lanes>
  KOKKOS_INLINE_FUNCTION std::int64_t elements_before_packs() const {
    constexpr std::uintptr_t alignment = alignof(Pack<Value, lanes>);
    const std::uintptr_t beyond = reinterpret_cast<std::uintptr_t>(first.address()) % alignment;
    return static_cast<std::int64_t>((alignment - beyond) % alignment / sizeof(Value));
  }
  /// Calls f(i, element i of each array).
  template <class F, class... Elements>
  KOKKOS_INLINE_FUNCTION decltype(auto) do_element(const F& f, std::int64_t i, Elements&... elements) const {
    auto&& own = first.at(i);
    return rest.do_element(f, i, elements..., own);
  }
  /// Calls f(number, element of each array) for all elements of `depth` packs that begin at i, i + step, …; if there
  /// are arrays of columns, `step` is a multiple of their length.
  template <int lanes, int depth, class Number, class F, class... Rows>
  KOKKOS_INLINE_FUNCTION void do_packs(const F& f, const Number& number, std::int64_t i, std::int64_t step,
                                       Rows&... rows) const {
    constexpr int own_depth = First::of_columns ? 1 : depth;
    PackRow<Value, lanes, own_depth> own;
    LOCKSTEP_UNROLL
    for (int d = 0; d < own_depth; ++d) first.load(i + d * step, own.pack[d]);
    rest.template do_packs<lanes, depth>(f, number, i, step, rows..., own);
    LOCKSTEP_UNROLL
    for (int d = 0; d < own_depth; ++d) first.store(i + d * step, own.pack[d]);
  }
  /// Calls f(i, element i of each array) for the elements of the pack that begins at i.
  template <int lanes, class F>
  KOKKOS_INLINE_FUNCTION void do_pack(const F& f, std::int64_t i) const {
    do_packs<lanes, 1>(f, ElementNumber{i, 0}, i, 0);
  }
};

/// Elements per pack: 16 bytes of the narrowest type, but at most 8 elements, because more would take too many
/// registers.
template <class... Arrays>
inline constexpr int lanes_of = ArrayList<Arrays...>::narrowest == 1 ? 8 : 16 / ArrayList<Arrays...>::narrowest;

/// Kernel in which one index handles one element, or packs where the arrays allow them. For [rows, c], an index takes
/// packs of the same columns in several rows, so that values per column are loaded once. On CPUs only kernels that draw
/// random words use packs, because several words are drawn at once.
template <class F, class... Arrays>
class ElementKernel {
 public:
  ElementKernel(std::int64_t count, const F& f, const Arrays&... arrays) : f_(f), arrays_(arrays...) {
    if (!takes_packs || !arrays_.template have_packs<lanes>(0)) {
      indices_ = count;
      return;
    }
    in_packs_ = count / lanes * lanes;
    step_ = in_packs_;
    if constexpr (depth > 1) {
      const std::int64_t c = arrays_.columns(), rows = (count + c - 1) / c;
      step_ = std::min(in_packs_, (rows + depth - 1) / depth * c);
    }
    walks_ = step_ / lanes;
    indices_ = walks_ + count - in_packs_;
  }

  std::int64_t indices() const { return indices_; }

  KOKKOS_INLINE_FUNCTION void operator()(const std::int64_t index) const {
    if constexpr (takes_packs) {
      if (index >= walks_) return static_cast<void>(arrays_.do_element(f_, index - walks_ + in_packs_));
      const std::int64_t first = index * lanes;
      if (first + (depth - 1) * step_ < in_packs_)
        return arrays_.template do_packs<lanes, depth>(f_, ElementNumber{first, step_}, first, step_);
      for (std::int64_t i = first; i < in_packs_; i += step_) arrays_.template do_pack<lanes>(f_, i);
    } else {
      arrays_.do_element(f_, index);
    }
  }

 private:
  static constexpr bool takes_packs = thread_per_element || (is_drawn<Arrays> || ...);
  static constexpr int lanes = thread_per_element ? lanes_of<Arrays...> : 32;
  static constexpr int depth = ArrayList<Arrays...>::has_columns ? 4 : 1;

  F f_;
  ArrayList<Arrays...> arrays_;
  std::int64_t in_packs_ = 0;  // elements covered by packs
  std::int64_t step_ = 0;      // distance between the packs of one index, in elements
  std::int64_t walks_ = 0;     // number of indices with packs
  std::int64_t indices_ = 0;
};

/// One row of each array, given by pointers to its beginning: single elements up to the first pack boundary, then
/// groups of `depth` packs, then single packs and the remaining elements.
template <int depth, class... Arrays>
struct RowPacks {
  static constexpr int lanes = lanes_of<Arrays...>;

  ArrayList<Arrays...> arrays;
  // in_groups: elements covered by groups; packs: those outside groups.
  std::int64_t head = 0, groups = 0, in_groups = 0, packs = 0, indices;

  explicit KOKKOS_INLINE_FUNCTION RowPacks(std::int64_t c, const Arrays&... all) : arrays(all...), indices(c) {
    if constexpr (thread_per_element) {
      const std::int64_t before = arrays.template elements_before_packs<lanes>();
      if (before + lanes > c || !arrays.template have_packs<lanes>(before)) return;
      head = before;
      packs = (c - head) / lanes;
      if constexpr (depth > 1) {
        groups = packs / depth;
        in_groups = groups * depth * lanes;
        packs -= groups * depth;
      }
      indices = c - in_groups + groups - packs * (lanes - 1);
    }
  }
  /// Handles one index: a single element, a pack, or a group, whose packs lie `groups` packs apart.
  template <class F>
  KOKKOS_INLINE_FUNCTION void do_index(const F& f, std::int64_t index) const {
    if (index < head) return static_cast<void>(arrays.do_element(f, index));
    if constexpr (depth > 1) {
      const std::int64_t step = groups * lanes, first = head + (index - head) * lanes;
      if (index < head + groups)
        return arrays.template do_packs<lanes, depth>(f, ElementNumber{first, step}, first, step);
      index -= groups;
    }
    if (index < head + packs) arrays.template do_pack<lanes>(f, head + in_groups + (index - head) * lanes);
    else arrays.do_element(f, index + in_groups + packs * (lanes - 1));
  }
};

/// Without groups, so that elements are handled in the order of indices.
template <class... Arrays>
using RowElements = RowPacks<1, Arrays...>;

/// Calls f(i, element i of each array) for 0 ≤ i < count. Calls must be independent of each other.
template <class F, class... Arrays>
void for_elements(const ExecSpace& space, const char* label, std::int64_t count, const F& f, const Arrays&... arrays) {
  const ElementKernel<F, Arrays...> kernel(count, f, arrays...);
  Kokkos::parallel_for(label, RangePolicy(space, 0, kernel.indices()), kernel);
}

}  // namespace lockstep
