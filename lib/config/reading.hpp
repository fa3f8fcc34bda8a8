// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/deck.hpp"
#include "config/fields.hpp"

namespace lockstep {

using Complaints = std::vector<DeckError>;

/// What is wrong with a deck, as far as it has been read, and which names of others are known.
struct Reading {
  Complaints complaints;
  std::span<const OtherName> other_names;
};

inline constexpr std::size_t most_complaints = 10;  ///< that are said

/// Where there are complaints, throws the only one, or an Error that has a line for each, as a compiler does it, in the
/// deck's order (the first most_complaints).
void throw_complaints(Reading& reading);

/// The mapping {key: node}.
DeckNode spelled_out(const DeckNode& node, std::string_view key);

/// A name, or a list of names.
std::vector<std::string> read_names(const DeckNode& node);

std::vector<std::string> names_of(std::span<const Alternative> alternatives);
/// Null: there is none of that name.
const Alternative* find(std::span<const Alternative> alternatives, std::string_view name);

}  // namespace lockstep
