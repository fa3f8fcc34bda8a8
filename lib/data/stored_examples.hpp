// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string>

#include "core/shape.hpp"
#include "io/stored_type.hpp"

// What examples in files may be like (docs/user/data.md). Each check throws bad_data; `where`: of the array, for
// messages.
namespace lockstep {

void check_inputs(const StoredArray& inputs, const std::string& where);

/// `inputs`: where those are, of which there are `examples`.
void check_targets(const StoredArray& targets, const std::string& where, std::int64_t examples,
                   const std::string& inputs);

/// Throws bad_data, naming the example, where an integer is not the number of a class.
void check_class(std::int64_t value, std::int64_t example, const std::string& where);

/// A warning where the shape of examples looks like that of images whose channels come first, as some frameworks keep
/// them.
void warn_of_channels_first(const Shape& example, const std::string& where);

}  // namespace lockstep
