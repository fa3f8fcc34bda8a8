// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <optional>
#include <type_traits>

#include "core/dtype.hpp"
#include "core/execution.hpp"
#include "core/shape.hpp"

namespace lockstep {

/// n examples in the caller's memory, row-major, one after the other. An Array does not own the memory.
struct Array {
  const void* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t examples = 0;
  std::optional<Shape> example;  ///< shape of an example; none: whatever is expected
  bool on_device = false;        ///< the host cannot read it
  bool row_major = true;         ///< row-major and contiguous; calls refuse other arrays

  /// Host memory of float, double or std::uint8_t, or of std::int32_t for classes and tokens.
  template <class T>
    requires std::is_arithmetic_v<T>
  Array(const T* numbers, std::int64_t examples) : data(numbers), dtype(dtype_of<T>()), examples(examples) {}

  /// A view whose first extent counts the examples, row-major (Kokkos::LayoutRight) and contiguous. Other execution
  /// space instances must have finished writing into it.
  template <class View>
    requires Kokkos::is_view_v<View>
  Array(const View& view)
      : data(view.data()),
        dtype(dtype_of<typename View::non_const_value_type>()),
        examples(static_cast<std::int64_t>(view.extent(0))),
        on_device(
            !Kokkos::SpaceAccessibility<Kokkos::DefaultHostExecutionSpace, typename View::memory_space>::accessible) {
    static_assert(View::rank > 0 && View::rank <= Shape::max_rank, "the first extent counts the examples");
    static_assert(
        Kokkos::SpaceAccessibility<ExecSpace, typename View::memory_space>::accessible ||
            Kokkos::SpaceAccessibility<Kokkos::DefaultHostExecutionSpace, typename View::memory_space>::accessible,
        "the view is in the memory of a device other than Lockstep's");
    std::int64_t extents[Shape::max_rank] = {};
    for (std::size_t d = View::rank, stride = 1; d-- > 0; stride *= view.extent(d)) {
      extents[d] = static_cast<std::int64_t>(view.extent(d));
      row_major = row_major && (view.extent(d) <= 1 || view.stride(d) == stride);
    }
    row_major = row_major || view.size() == 0;
    example = Shape(std::span(extents + 1, static_cast<std::size_t>(View::rank) - 1));
  }
};

template <class T>
concept OutputNumber = std::is_same_v<T, float> || std::is_same_v<T, double>;

/// An Array to write to, of float or double.
struct OutputArray : Array {
  template <OutputNumber T>
  OutputArray(T* numbers, std::int64_t examples) : Array(numbers, examples) {}

  template <class View>
    requires Kokkos::is_view_v<View> && OutputNumber<typename View::value_type>
  OutputArray(const View& view) : Array(view) {}
};

}  // namespace lockstep
