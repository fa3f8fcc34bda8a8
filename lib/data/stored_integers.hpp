// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <cstring>

#include "io/hdf5.hpp"

namespace lockstep {

/// Calls use(i, value) for `count` packed integers of a type that files may have. `value` is a std::int64_t (unsigned
/// integers beyond its range become negative).
template <class Use>
void for_each_integer(const StoredType& type, std::int64_t count, const std::byte* values, Use use) {
  const auto each = [&]<class T>(T) {
    for (std::int64_t i = 0; i < count; ++i) {
      T value;
      std::memcpy(&value, values + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
      use(i, static_cast<std::int64_t>(value));
    }
  };
  switch (type.bytes) {
    case 1: return type.is_signed ? each(std::int8_t()) : each(std::uint8_t());
    case 2: return type.is_signed ? each(std::int16_t()) : each(std::uint16_t());
    case 4: return type.is_signed ? each(std::int32_t()) : each(std::uint32_t());
    default: return type.is_signed ? each(std::int64_t()) : each(std::uint64_t());
  }
}

}  // namespace lockstep
