// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>

#include "config/state_fields.hpp"

namespace lockstep {

/// Returns what `describe` names as JSON: the text "state" of a checkpoint.
std::string state_text(const StateFields::Describe& describe);

/// Sets what `describe` names from such a text. Throws bad_data if something is missing or of another kind.
void restore_state(const std::string& text, const StateFields::Describe& describe);

}  // namespace lockstep
