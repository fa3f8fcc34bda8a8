// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <initializer_list>
#include <map>
#include <memory>
#include <stdexcept>

#include "core/dtype.hpp"

// Helpers for providers whose library plans for one shape, on this process's device, and may decline.
namespace lockstep {

/// Thrown when a library declines a plan; the text is the library's.
struct PlanError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Plans that need a larger workspace are not used. Some convolutions would copy x and y to another layout, which takes
/// gigabytes.
inline constexpr std::size_t max_plan_workspace_bytes = std::size_t{1} << 30;

/// True if an example of any of these element counts is a multiple of 16 bytes: the libraries read 16 bytes at a time,
/// and part of a batch can begin at any example.
inline bool may_begin_anywhere(DType dtype, std::initializer_list<std::int64_t> counts) {
  return std::ranges::all_of(
      counts, [&](std::int64_t count) { return static_cast<std::size_t>(count) * size_of(dtype) % 16 == 0; });
}

/// The plans Plans(shape), made once for all layers of that shape and kept for the life of the process, since the
/// library may be unloaded before static objects are destroyed. Null if there are no examples.
template <class Plans, class Shape>
std::shared_ptr<const Plans> plans_for(const Shape& shape) {
  static auto& planned = *new std::map<Shape, std::shared_ptr<const Plans>>;
  auto& plans = planned[shape];
  if (!plans && shape.n > 0) plans = std::make_shared<const Plans>(shape);
  return plans;
}

}  // namespace lockstep
