// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

#include "core/execution.hpp"

// Kernels that do the same to each element of some arrays. They are functions of one element, as in
//   for_elements(space, label, count, KOKKOS_LAMBDA(std::int64_t, const T& x, T& y) { y = f(x); }, Reads{x},
//   Writes{y});
// A thread of a GPU takes packs of neighbouring elements, which it loads and stores 16 bytes at a time.
// In front of a loop whose index must be known in each turn, so that arrays that it counts through stay in registers.
#if defined(__CUDACC__) || defined(__HIPCC__)
#define LOCKSTEP_UNROLL _Pragma("unroll")
#else
#define LOCKSTEP_UNROLL
#endif

namespace lockstep {

/// Neighbouring elements, which are loaded and stored up to 16 bytes at a time.
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
/// By value: nvcc writes a pack that is given by a reference to the thread's stack, too, from where nobody reads it.
template <int lanes, class T>
KOKKOS_INLINE_FUNCTION void store_pack(Pack<T, lanes> pack, T* to) {
#ifdef __CUDA_ARCH__
  // nvcc may store a struct member by member, where these have just been computed, but never a number.
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

/// An array that is only read.
template <class T>
struct Reads {
  using Value = T;
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

/// An array that is only written. It may be one that is read, too.
template <class T>
struct Writes {
  using Value = T;
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

/// An array that is read and written.
template <class T>
struct Updates : Writes<T> {
  explicit KOKKOS_INLINE_FUNCTION Updates(T* array) : Writes<T>(array) {}
  template <int lanes>
  KOKKOS_INLINE_FUNCTION void load(std::int64_t i, Pack<T, lanes>& pack) const {
    pack = load_pack<lanes>(this->data + i);
  }
};

/// The row of element i of [rows, c]. GPUs divide 32 bits in a few instructions, and 64 in many.
KOKKOS_INLINE_FUNCTION std::int64_t row_of(std::int64_t i, std::int64_t c) {
  if ((i | c) >> 32 == 0) return static_cast<std::uint32_t>(i) / static_cast<std::uint32_t>(c);
  return i / c;
}

/// Numbers of columns [c] that are read for the elements of [rows, c].
template <class T>
struct ReadsColumns {
  using Value = T;
  const T* data;
  std::int64_t c;

  KOKKOS_INLINE_FUNCTION ReadsColumns(const T* array, std::int64_t columns) : data(array), c(columns) {}
  KOKKOS_INLINE_FUNCTION const T& at(std::int64_t i) const { return data[i - row_of(i, c) * c]; }
  /// No pack may go on in the next row.
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

/// The arrays of a kernel. Loads come before what is done with the elements, and stores behind it.
template <class... Arrays>
struct ArrayList {
  static constexpr std::size_t narrowest = 16;  // bytes; no array is there

  template <int lanes>
  KOKKOS_INLINE_FUNCTION bool have_packs(std::int64_t) const {
    return true;
  }
  template <class F, class... Elements>
  KOKKOS_INLINE_FUNCTION decltype(auto) do_element(const F& f, std::int64_t i, Elements&... elements) const {
    return f(i, elements...);
  }
  template <int lanes, class F, class... Packs>
  KOKKOS_INLINE_FUNCTION void do_pack(const F& f, std::int64_t i, Packs&... packs) const {
    LOCKSTEP_UNROLL
    for (int l = 0; l < lanes; ++l) f(i + l, packs.lane[l]...);
  }
};

template <class First, class... Rest>
struct ArrayList<First, Rest...> {
  using Value = typename First::Value;
  static constexpr std::size_t narrowest = sizeof(Value) < ArrayList<Rest...>::narrowest
                                               ? sizeof(Value)
                                               : ArrayList<Rest...>::narrowest;
  First first;
  ArrayList<Rest...> rest;

  explicit KOKKOS_INLINE_FUNCTION ArrayList(const First& array, const Rest&... others)
      : first(array), rest(others...) {}

  /// Whether packs of all arrays begin at element i.
  template <int lanes>
  KOKKOS_INLINE_FUNCTION bool have_packs(std::int64_t i) const {
    return first.template has_pack<lanes>(i) && rest.template have_packs<lanes>(i);
  }
  /// Up to where packs of the first array may begin.
  template <int lanes>
  KOKKOS_INLINE_FUNCTION std::int64_t elements_before_packs() const {
    constexpr std::uintptr_t alignment = alignof(Pack<Value, lanes>);
    const std::uintptr_t beyond = reinterpret_cast<std::uintptr_t>(first.address()) % alignment;
    return static_cast<std::int64_t>((alignment - beyond) % alignment / sizeof(Value));
  }
  /// Calls f(i, its element of each array).
  template <class F, class... Elements>
  KOKKOS_INLINE_FUNCTION decltype(auto) do_element(const F& f, std::int64_t i, Elements&... elements) const {
    return rest.do_element(f, i, elements..., first.at(i));
  }
  /// The same for i and those behind it, in their order.
  template <int lanes, class F, class... Packs>
  KOKKOS_INLINE_FUNCTION void do_pack(const F& f, std::int64_t i, Packs&... packs) const {
    Pack<Value, lanes> own;
    first.load(i, own);
    rest.template do_pack<lanes>(f, i, packs..., own);
    first.store(i, own);
  }
};

/// Elements of a pack: 16 bytes of the narrowest type, but not more than 8, which would take too many registers.
template <class... Arrays>
inline constexpr int lanes_of = ArrayList<Arrays...>::narrowest == 1 ? 8 : 16 / ArrayList<Arrays...>::narrowest;

/// One index does a pack, where the arrays have them, or an element.
template <class F, class... Arrays>
class ElementKernel {
 public:
  ElementKernel(std::int64_t count, const F& f, const Arrays&... arrays)
      : f_(f),
        arrays_(arrays...),
        packs_(thread_per_element && arrays_.template have_packs<lanes>(0) ? count / lanes : 0),
        indices_(count - packs_ * (lanes - 1)) {}

  std::int64_t indices() const { return indices_; }

  KOKKOS_INLINE_FUNCTION void operator()(const std::int64_t index) const {
    if constexpr (thread_per_element) {
      if (index < packs_) arrays_.template do_pack<lanes>(f_, index * lanes);
      else arrays_.do_element(f_, index + packs_ * (lanes - 1));
    } else {
      arrays_.do_element(f_, index);
    }
  }

 private:
  static constexpr int lanes = lanes_of<Arrays...>;

  F f_;
  ArrayList<Arrays...> arrays_;
  std::int64_t packs_, indices_;
};

/// The elements of a row, whose arrays begin with it: up to where packs may begin, in packs, and the rest.
template <class... Arrays>
struct RowElements {
  static constexpr int lanes = lanes_of<Arrays...>;

  ArrayList<Arrays...> arrays;
  std::int64_t head = 0, packs = 0, indices;

  explicit KOKKOS_INLINE_FUNCTION RowElements(std::int64_t c, const Arrays&... all) : arrays(all...), indices(c) {
    if constexpr (thread_per_element) {
      const std::int64_t before = arrays.template elements_before_packs<lanes>();
      if (before + lanes > c || !arrays.template have_packs<lanes>(before)) return;
      head = before;
      packs = (c - head) / lanes;
      indices = c - packs * (lanes - 1);
    }
  }
  /// Does a pack, or an element; indices rise as elements do.
  template <class F>
  KOKKOS_INLINE_FUNCTION void do_index(const F& f, std::int64_t index) const {
    if (index < head) arrays.do_element(f, index);
    else if (index < head + packs) arrays.template do_pack<lanes>(f, head + (index - head) * lanes);
    else arrays.do_element(f, index + packs * (lanes - 1));
  }
};

/// Calls f(i, element i of each array) for i < count. Calls for neighbours must not depend on each other.
template <class F, class... Arrays>
void for_elements(const ExecSpace& space, const char* label, std::int64_t count, const F& f, const Arrays&... arrays) {
  const ElementKernel<F, Arrays...> kernel(count, f, arrays...);
  Kokkos::parallel_for(label, RangePolicy(space, 0, kernel.indices()), kernel);
}

}  // namespace lockstep
