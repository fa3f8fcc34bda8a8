// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <ostream>
#include <string_view>

#include "core/dtype.hpp"
#include "core/shape.hpp"
#include "ops/activation.hpp"
#include "ops/products/provider.hpp"

// Prints Lockstep's types in GoogleTest's parameters by name instead of byte by byte. Parameter types of a single test
// (a table of cases) have a PrintTo beside them.
namespace lockstep {

inline void PrintTo(DType dtype, std::ostream* out) { *out << name_of(dtype); }

inline void PrintTo(const Shape& shape, std::ostream* out) { *out << '[' << to_string(shape) << ']'; }

inline void PrintTo(ProviderKind kind, std::ostream* out) { *out << provider_names[static_cast<std::size_t>(kind)]; }

inline void PrintTo(Activation activation, std::ostream* out) {
  static constexpr std::string_view names[] = {"none", "relu", "tanh", "sigmoid", "gelu"};
  *out << names[static_cast<std::size_t>(activation)];
}

}  // namespace lockstep
