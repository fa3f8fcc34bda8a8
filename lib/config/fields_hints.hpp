// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/deck.hpp"
#include "config/fields.hpp"

// Guesses what the author of a deck meant by a key or value that is not valid.
namespace lockstep {

/// Returns the error about a key of the mapping at `section` that has another name here or is not needed; empty if
/// `names` does not contain it.
std::string other_key(std::span<const OtherName> names, std::string_view section, std::string_view key);

/// Returns the advice about `word` at the key `path` if `names` maps it to one of `words`, or to another key; else
/// empty.
std::string other_word(std::span<const OtherName> names, std::string_view path, std::string_view word,
                       const std::vector<std::string>& words);

/// Returns the error about a key that is not valid with `chooser: chosen` but is with other alternatives; empty if none
/// has it.
std::string key_of_other_alternatives(std::string_view key, std::string_view chooser, std::string_view chosen,
                                      std::span<const Alternative> alternatives);

/// Returns the error about a key that `section` does not have, if other sections of `deck` have it, or it is a section
/// itself; else empty.
std::string key_of_other_sections(std::string_view key, std::string_view section, Config& deck);

/// Returns the error about a key of a list entry `- {type: {…}}` that is neither a type nor `name` or `from`.
std::string problem_of_item(const DeckNode& item, const DeckNode::Entry& key, std::span<const Alternative> alternatives,
                            std::span<const OtherName> names);

/// "write batch: {global: 128}": advice for a value that stands where a mapping is expected.
std::string spelled_out_as(const DeckNode& value, std::string_view key);

}  // namespace lockstep
