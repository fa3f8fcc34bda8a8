// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// Wording of ranges and choices, used in messages and in the reference page.

#include <span>
#include <string>
#include <string_view>

#include "config/fields.hpp"

namespace lockstep {

/// "at least 1 and at most 10", "at least 1", "more than 0", "any".
std::string range_text(const Range& range);

/// "a, b or c".
std::string one_of_words(std::span<const std::string_view> words);

}  // namespace lockstep
