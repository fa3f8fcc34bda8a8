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

}  // namespace lockstep
