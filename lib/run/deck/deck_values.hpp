// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

/// The keys of a deck with their values, in the deck's order, such as {"optimizer.learning_rate", "0.1"}.
using DeckValues = std::vector<std::pair<std::string, std::string>>;

/// Returns the keys and values of a resolved deck (YAML or JSON). Throws DeckError if the text is no deck. `file` only
/// names the text in messages.
DeckValues deck_values(const std::string& deck, const std::string& file);

/// Returns null if there is no such key.
const std::string* find_value(const DeckValues& values, const std::string& key);

/// Whether `key` is `section` itself or lies in it.
bool is_below(std::string_view key, std::string_view section);

}  // namespace lockstep
