// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// How limits and choices read, the same in messages, in the schema's descriptions and in the reference.

#include <span>
#include <string>
#include <string_view>

#include "config/fields.hpp"

namespace lockstep {

/// "1 to 10", "at least 1", "more than 0", "any".
std::string range_text(const Range& range);

/// "a, b or c".
std::string one_of_words(std::span<const std::string_view> words);

}  // namespace lockstep
