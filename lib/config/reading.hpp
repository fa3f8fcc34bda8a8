// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/deck.hpp"
#include "config/fields.hpp"

namespace lockstep {

using Complaints = std::vector<DeckError>;

struct Reading {
  Config& deck;           ///< describes all keys
  Complaints complaints;  ///< errors found so far
  std::span<const OtherName> other_names;
};

inline constexpr std::size_t most_complaints = 10;  ///< maximum number of errors that are reported

/// If there are errors, throws the only one, or an Error with one line for each of the first `most_complaints`, in the
/// deck's order.
void throw_complaints(Complaints& complaints);

/// Returns the mapping {key: node}.
DeckNode spelled_out(const DeckNode& node, std::string_view key);

/// Returns one or more names from a name or a list of names.
std::vector<std::string> read_names(const DeckNode& node);

std::vector<std::string> names_of(std::span<const Alternative> alternatives);
/// Returns null if no alternative has this name.
const Alternative* find(std::span<const Alternative> alternatives, std::string_view name);

// Conversion of a deck's scalars to typed values. Errors are DeckErrors at the value's position.

/// Error for a value of the wrong kind. `advice`: what to do; by default, to write what is `wanted`.
DeckError of_wrong_type(const DeckNode& node, std::string_view wanted, std::string_view advice = {});
[[noreturn]] void wrong_type(const DeckNode& node, std::string_view wanted);

/// "did you mean 'steps'?" if a word is near, else the list of known words.
std::string suggestion(std::string_view word, const std::vector<std::string>& words);
/// Throws the error for a word that is not among `words`. `advice`: what to do; by default that of `suggestion`.
[[noreturn]] void refuse_word(const DeckNode& node, const std::vector<std::string>& words,
                              const std::string& advice = {});

/// Advice about keys that exclude each other if one is the deck's and the command line has added another; else empty.
std::string replacement(const DeckNode& mapping, const std::vector<std::string_view>& keys);

/// Returns the text of a scalar after checking its form; an empty form admits any text.
std::string to_text(const DeckNode& node, const TextForm& form = {});
bool to_boolean(const DeckNode& node);
std::int64_t to_integer(const DeckNode& node, Range range, std::string_view wanted = "a whole number");
double to_number(const DeckNode& node, Range range);

}  // namespace lockstep
