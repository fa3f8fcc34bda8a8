// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

/// Keys of a deck with their values, in its order: "optimizer.learning_rate", "0.1".
using DeckValues = std::vector<std::pair<std::string, std::string>>;

/// Keys and values of a resolved deck (YAML, or the same as JSON), with the keys and words that there are now: another
/// version may have written it. Throws DeckError for what is no deck at all. `file` only names the text in messages.
DeckValues deck_values(const std::string& deck, const std::string& file);

/// Null where there is no such key.
const std::string* find_value(const DeckValues& values, const std::string& key);

/// Whether the key is `section`, or in it.
bool is_below(std::string_view key, std::string_view section);

}  // namespace lockstep
