// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <initializer_list>
#include <map>
#include <memory>
#include <stdexcept>

#include "core/dtype.hpp"

// What providers have in common whose library plans for one shape, on the device of this process, and may decline.
namespace lockstep {

/// What a library says of what it does not plan.
struct PlanError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Plans that need more are left out: convolutions may be planned with a copy of x and y in another layout, which is
/// gigabytes.
inline constexpr std::size_t max_plan_workspace_bytes = std::size_t{1} << 30;

/// Whether examples of so many numbers may begin anywhere in a batch: these libraries read 16 bytes at a time, and a
/// part of a batch begins where any example does.
inline bool may_begin_anywhere(DType dtype, std::initializer_list<std::int64_t> counts) {
  return std::ranges::all_of(
      counts, [&](std::int64_t count) { return static_cast<std::size_t>(count) * size_of(dtype) % 16 == 0; });
}

/// What Plans(shape) has planned: once for all layers of that shape, and for as long as the process lives, since the
/// library may be gone before static objects are. Null for no examples.
template <class Plans, class Shape>
std::shared_ptr<const Plans> plans_for(const Shape& shape) {
  static auto& planned = *new std::map<Shape, std::shared_ptr<const Plans>>;
  auto& plans = planned[shape];
  if (!plans && shape.n > 0) plans = std::make_shared<const Plans>(shape);
  return plans;
}

}  // namespace lockstep
