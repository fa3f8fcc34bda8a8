// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/dtype.hpp"

namespace lockstep {

/// Type of one element in a file; Kind::other if it is neither number nor text. A boolean is HDF5's enumeration of
/// FALSE and TRUE, as h5py writes it.
struct StoredType {
  enum class Kind { integer, real, boolean, text, variable_length, other };
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
  /// Extents of the chunks of which each is read, and unpacked, as a whole; empty if any numbers can be read alone.
  std::vector<std::int64_t> chunk = {};
  /// Number of chunks (1 without chunks) that were never written and stand for a fill value.
  std::int64_t unwritten = 0;

  std::int64_t count() const;
  std::size_t bytes() const { return static_cast<std::size_t>(count()) * type.bytes; }
  /// Bytes of neighbouring rows (slices along the first dimension), of which there is at least one.
  std::size_t row_bytes(std::int64_t rows) const;
  /// Bytes that are read, and unpacked, for these rows alone, which begin with a chunk.
  std::size_t unpacked_bytes(std::int64_t rows) const;
};

/// "9000×28×28×1".
std::string extents_text(const std::vector<std::int64_t>& extents);

}  // namespace lockstep
