// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/deck.hpp"
#include "config/fields.hpp"

// What a deck's single values mean. All throw DeckError at the value's place.
namespace lockstep {

/// Another kind of value is wanted there. `advice`: what to do, when not given to write what is wanted.
DeckError of_wrong_type(const DeckNode& node, std::string_view wanted, std::string_view advice = {});
[[noreturn]] void wrong_type(const DeckNode& node, std::string_view wanted);

/// "did you mean 'steps'?", or which words are known.
std::string suggestion(std::string_view word, const std::vector<std::string>& words);
/// None of the words that may stand there does. `advice`: what to do, when not given that of `suggestion`.
[[noreturn]] void refuse_word(const DeckNode& node, const std::vector<std::string>& words,
                              const std::string& advice = {});

/// Of keys that exclude each other: what to do where the command line has set one of them beside the deck's, as further
/// advice. Empty where it has not.
std::string replacement(const DeckNode& mapping, const std::vector<std::string_view>& keys);

/// An empty form: any text.
std::string to_text(const DeckNode& node, const TextForm& form = {});
bool to_boolean(const DeckNode& node);
std::int64_t to_integer(const DeckNode& node, Range range, std::string_view wanted = "a whole number");
double to_number(const DeckNode& node, Range range);

}  // namespace lockstep
