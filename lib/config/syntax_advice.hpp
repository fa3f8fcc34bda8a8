// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>

#include "config/deck.hpp"

namespace lockstep {

/// What to do about text that is no YAML, as its parser finds at `where`: often that is a line after the mistake.
std::string syntax_advice(const std::string& text, const DeckPosition& where);

}  // namespace lockstep
