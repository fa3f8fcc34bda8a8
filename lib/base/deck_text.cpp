// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "base/deck_text.hpp"

#include <algorithm>
#include <cstdint>

#include "base/deck.hpp"

namespace lockstep {
namespace {

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0u) == 0x80; }

/// Bytes of the UTF-8 character that begins here; 0 where none does.
std::size_t character_bytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t bytes = first < 0x80   ? 1
                            : first < 0xC2 ? 0
                            : first < 0xE0 ? 2
                            : first < 0xF0 ? 3
                            : first < 0xF5 ? 4
                                           : 0;
  if (bytes > text.size() ||
      !std::all_of(text.begin() + 1, text.begin() + static_cast<std::ptrdiff_t>(std::max<std::size_t>(bytes, 1)),
                   continues))
    return 0;
  if (bytes < 3) return bytes;
  // Longer than need be, a surrogate, or beyond U+10FFFF.
  const auto second = static_cast<unsigned char>(text[1]);
  const bool bad = (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
                   (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F);
  return bad ? 0 : bytes;
}

bool is_control(char c) {
  const auto code = static_cast<unsigned char>(c);
  return code < 0x20 || code == 0x7F;
}

}  // namespace

void refuse_what_is_no_text(std::string_view text, const std::string& file) {
  DeckPosition here{file, 1, 1};
  while (!text.empty()) {
    const auto code = static_cast<unsigned char>(text[0]);
    const std::size_t bytes = character_bytes(text);
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
