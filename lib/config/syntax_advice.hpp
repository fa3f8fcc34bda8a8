// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>

#include "config/deck.hpp"

namespace lockstep {

/// Returns advice about a YAML syntax error at `where`, the parser's position, which is often a line after the mistake.
std::string syntax_advice(const std::string& text, const DeckPosition& where);

}  // namespace lockstep
