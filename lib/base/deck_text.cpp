// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "base/deck_text.hpp"

#include <algorithm>
#include <cstdint>

#include "base/deck.hpp"
#include "base/utf8.hpp"

namespace lockstep {
namespace {

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0u) == 0x80; }

bool is_control(char c) {
  const auto code = static_cast<unsigned char>(c);
  return code < 0x20 || code == 0x7F;
}

}  // namespace

void refuse_what_is_no_text(std::string_view text, const std::string& file) {
  DeckPosition here{file, 1, 1};
  while (!text.empty()) {
    const auto code = static_cast<unsigned char>(text[0]);
    const std::size_t bytes = first_character(text).bytes;
    if (bytes == 0)
      throw DeckError(here, "",
                      fmt::format("the byte 0x{:02x} is not UTF-8 (a deck is text); store it as UTF-8 (a folder of such a name: enter it, "
                                  "and give the path from there)", code));
    if (is_control(text[0]) && text[0] != '\n' && text[0] != '\r' && text[0] != '\t')
      throw DeckError(here, "",
                      fmt::format("the byte 0x{:02x} is a control character (a deck is text); remove it", code));
    here.line += text[0] == '\n';
    here.column = text[0] == '\n' ? 1 : here.column + 1;
    text.remove_prefix(bytes);
  }
}

std::string for_message(std::string_view text, std::size_t most) {
  if (text.size() > most) {
    std::size_t head = most / 2, tail = text.size() - most / 2;
    while (head > 0 && continues(text[head])) --head;
    while (tail < text.size() && continues(text[tail])) ++tail;
    return for_message(text.substr(0, head), most) + "…" + for_message(text.substr(tail), most);
  }
  std::string shown;
  for (const char c : text) shown += is_control(c) ? fmt::format("\\x{:02x}", c) : std::string(1, c);
  return shown;
}

}  // namespace lockstep
