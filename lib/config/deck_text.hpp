// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

/// Throws DeckError at the first byte that is invalid UTF-8 or a control character.
void refuse_what_is_no_text(std::string_view text, const std::string& file, std::string_view advice);

}  // namespace lockstep
