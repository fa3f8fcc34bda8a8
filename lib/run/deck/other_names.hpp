// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "config/fields.hpp"

namespace lockstep {

/// Returns the names that PyTorch, Lightning, DeepSpeed and older decks use for keys of a deck and for some of its
/// words.
std::span<const OtherName> other_names_of_keys();

/// What a name that is no key of a deck is likely to stand for.
struct MeantKey {
  std::string instead;  ///< path of the key, or what to write, in words; empty: nothing needs to be written
  std::string why;      ///< explanation for the user; may be empty

  bool is_path() const;
};

/// Returns what `name` stands for: the last part of a key's path, or another program's name for a key. Returns none if
/// no key matches, or several do.
std::optional<MeantKey> meant_key(std::string_view name);

}  // namespace lockstep
