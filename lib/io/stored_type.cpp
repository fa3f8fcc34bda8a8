// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "io/stored_type.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace lockstep {

StoredType StoredType::of(DType dtype) {
  const bool real = dtype == DType::f32 || dtype == DType::f64;
  return {real ? Kind::real : Kind::integer, size_of(dtype), dtype != DType::u8};
}

std::optional<DType> StoredType::dtype() const {
  for (const DType dtype : {DType::f32, DType::f64, DType::u8, DType::i32, DType::i64})
    if (*this == of(dtype)) return dtype;
  return std::nullopt;
}

std::string to_string(const StoredType& type) {
  switch (type.kind) {
    case StoredType::Kind::integer: return fmt::format("{}{}", type.is_signed ? 'i' : 'u', 8 * type.bytes);
    case StoredType::Kind::real: return fmt::format("f{}", 8 * type.bytes);
    case StoredType::Kind::boolean: return "bool";
    case StoredType::Kind::text: return "text";
    case StoredType::Kind::variable_length: return "arrays of variable length";
    default: return "non-numeric data";
  }
}

std::int64_t StoredArray::count() const {
  std::int64_t product = 1;
  for (const auto extent : extents) product *= extent;
  return product;
}

std::size_t StoredArray::row_bytes(std::int64_t rows) const {
  return bytes() / static_cast<std::size_t>(extents[0]) * static_cast<std::size_t>(rows);
}

std::size_t StoredArray::unpacked_bytes(std::int64_t rows) const {
  if (chunk.empty()) return row_bytes(rows);
  std::size_t bytes = type.bytes;
  for (std::size_t i = 0; i < chunk.size(); ++i) {
    const std::int64_t chunks = ((i == 0 ? rows : extents[i]) + chunk[i] - 1) / chunk[i];
    bytes *= static_cast<std::size_t>(chunks * chunk[i]);
  }
  return bytes;
}

std::string extents_text(const std::vector<std::int64_t>& extents) {
  return extents.empty() ? "scalar" : fmt::format("{}", fmt::join(extents, "×"));
}

}  // namespace lockstep
