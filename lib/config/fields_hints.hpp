// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/deck.hpp"
#include "config/fields.hpp"

// What those have likely meant who wrote something that a deck does not know.
namespace lockstep {

/// Complaint about a key of the mapping at `section` that goes by another name here, or is not needed. Empty: none of
/// `names` is it.
std::string other_key(std::span<const OtherName> names, std::string_view section, std::string_view key);

/// What to do about `word` at the key `path`, where another program's is one of `words`, or what another key says here.
/// Empty: none of `names` is it.
std::string other_word(std::span<const OtherName> names, std::string_view path, std::string_view word,
                       const std::vector<std::string>& words);

/// Complaint about a key beside `chooser: chosen` that other alternatives have. Empty: none has it.
std::string key_of_other_alternatives(std::string_view key, std::string_view chooser, std::string_view chosen,
                                      std::span<const Alternative> alternatives);

/// Complaint about an entry `- {type: {…}}` of a list that has `key` beside its type, or gives the type as a value.
/// Empty: it is nothing of that kind.
std::string misplaced_option(const DeckNode& item, const DeckNode::Entry& key,
                             std::span<const Alternative> alternatives);

/// What keys a list's entry may have, where its type is known; else empty.
std::string options_beside(const DeckNode& item, std::span<const Alternative> alternatives);

/// "write batch: {global: 128}", of a value in the place of a mapping.
std::string spelled_out_as(const DeckNode& value, std::string_view key);

}  // namespace lockstep
