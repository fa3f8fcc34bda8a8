// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string>

#include "core/shape.hpp"
#include "io/stored_type.hpp"

// Checks of examples in files (docs/user/data.md). Each throws bad_data. `where`: name of the array, for messages.
namespace lockstep {

void check_inputs(const StoredArray& inputs, const std::string& where);

/// `inputs`: name of the inputs, of which there are `examples`.
void check_targets(const StoredArray& targets, const std::string& where, std::int64_t examples,
                   const std::string& inputs);

/// Throws bad_data, naming the example, if `value` is not the number of a class.
void check_class(std::int64_t value, std::int64_t example, const std::string& where);

/// Warns if the shape of examples looks like that of images with channels first, as some frameworks store them.
void warn_of_channels_first(const Shape& example, const std::string& where);

/// Warns if the chunks of examples that stay in the file make reading one of them, of so many rows, read many times its
/// bytes.
void warn_of_chunks(const StoredArray& array, std::int64_t rows, const std::string& where);

}  // namespace lockstep
