// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/dtype.hpp"

namespace lockstep {

/// Type of one element in a file; Kind::other if it is neither number nor text.
struct StoredType {
  enum class Kind { integer, real, text, other };
  Kind kind = Kind::other;
  std::size_t bytes = 0;
  bool is_signed = true;

  static StoredType of(DType dtype);
  static StoredType u16() { return {Kind::integer, 2, false}; }
  /// The DType with the same representation, if there is one.
  std::optional<DType> dtype() const;
  friend bool operator==(const StoredType&, const StoredType&) = default;
};

/// "u8", "f32", "text", …
std::string to_string(const StoredType& type);

struct StoredArray {
  StoredType type;
  std::vector<std::int64_t> extents;

  std::int64_t count() const;
  std::size_t bytes() const { return static_cast<std::size_t>(count()) * type.bytes; }
};

/// "9000×28×28×1".
std::string extents_text(const std::vector<std::int64_t>& extents);

}  // namespace lockstep
