// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "config/deck_text.hpp"

#include "base/text.hpp"
#include "config/deck.hpp"

namespace lockstep {

void refuse_what_is_no_text(std::string_view text, const std::string& file, std::string_view advice) {
  DeckPosition here{file, 1, 1};
  while (!text.empty()) {
    const auto code = static_cast<unsigned char>(text[0]);
    const std::size_t bytes = first_character(text).bytes;
    if (bytes == 0)
      throw DeckError(here, "", fmt::format("the byte 0x{:02x} is not UTF-8 (a deck is text); {}", code, advice));
    if (is_control(text[0]) && text[0] != '\n' && text[0] != '\r' && text[0] != '\t')
      throw DeckError(here, "",
                      fmt::format("the byte 0x{:02x} is a control character (a deck is text); remove it", code));
    here.line += text[0] == '\n';
    here.column = text[0] == '\n' ? 1 : here.column + 1;
    text.remove_prefix(bytes);
  }
}

}  // namespace lockstep
