// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "config/deck.hpp"
#include "config/fields.hpp"

// What a deck's single values mean. All throw DeckError at the value's place.
namespace lockstep {

/// Another kind of value is wanted there.
[[noreturn]] void wrong_type(const DeckNode& node, std::string_view wanted);

/// An empty form: any text.
std::string to_text(const DeckNode& node, const TextForm& form = {});
std::int64_t to_integer(const DeckNode& node, Range range, std::string_view wanted = "a whole number");
double to_number(const DeckNode& node, Range range);

}  // namespace lockstep
