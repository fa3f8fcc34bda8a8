// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "config/fields.hpp"

namespace lockstep {

/// What PyTorch, Lightning, DeepSpeed and older decks call the keys of a deck, and some of its words.
std::span<const OtherName> other_names_of_keys();

/// What a name outside of a deck is likely to stand for.
struct MeantKey {
  std::string instead;  ///< the key's path, or what to write, in words; empty: nothing is needed
  std::string why;      ///< then

  bool is_path() const;
};

/// By the last part of a key's path, or by what others call it; none: it is nothing of a deck, or may be several keys.
std::optional<MeantKey> meant_key(std::string_view name);

}  // namespace lockstep
