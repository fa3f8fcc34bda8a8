// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <set>
#include <string>

#include "core/shape.hpp"
#include "io/stored_type.hpp"

// Checks of examples in files (docs/user/data.md). Each throws bad_data. `where`: name of the array, for messages.
namespace lockstep {

/// Returns the type in memory of inputs or target values that are stored so: u8, f32 and f64 as they are, other numbers
/// as f32, if it holds their values exactly. Empty for what is no number.
std::optional<DType> type_in_memory(const StoredType& type);

void check_inputs(const StoredArray& inputs, const std::string& where);

/// `inputs`: name of the inputs, of which there are `examples`.
void check_targets(const StoredArray& targets, const std::string& where, std::int64_t examples,
                   const std::string& inputs);

/// Throws bad_data, naming the example, if `value` is not the number of a class.
void check_class(std::int64_t value, std::int64_t example, const std::string& where);

/// Warns if classes of another split are missing from the examples to train on, or the other way round. `train` and
/// `other`: the classes that occur in them; empty: targets are no classes.
void warn_of_missing_classes(const std::set<std::int64_t>& train, const std::string& train_name,
                             const std::set<std::int64_t>& other, const std::string& other_name);

/// Says that parts of an array stand for its fill value, if any do.
void say_unwritten(const StoredArray& array, const std::string& where);

/// Warns if the shape of examples looks like that of images with channels first, as some frameworks store them.
void warn_of_channels_first(const Shape& example, const std::string& where);

/// Warns if the chunks of examples that stay in the file make reading one of them, of so many rows, read many times its
/// bytes.
void warn_of_chunks(const StoredArray& array, std::int64_t rows, const std::string& where);

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
