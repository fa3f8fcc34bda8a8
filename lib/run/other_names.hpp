// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <span>

#include "config/fields.hpp"

namespace lockstep {

/// What PyTorch, Lightning, DeepSpeed and older decks call the keys of a deck, and some of its words.
std::span<const OtherName> other_names_of_keys();

}  // namespace lockstep
