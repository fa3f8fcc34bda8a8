// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "base/text.hpp"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Utf8, ThereAndBack) {
  std::vector<std::uint32_t> points{0, 1, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF};
  for (std::uint32_t point = 0; point < 0x110000; point += 101)
    if (point < 0xD800 || point >= 0xE000) points.push_back(point);
  const std::string text = encode_utf8(points);
  const CodePoints decoded = decode_utf8(text);
  EXPECT_EQ(decoded.points, points);
  EXPECT_EQ(decoded.bytes, text.size());
}

TEST(Utf8, StopsAtWhatIsNone) {
  // Lone continuation bytes, overlong encodings, surrogates, and code points beyond Unicode.
  for (const std::string bad :
       {"\xff", "\x80", "\xc0\x80", "\xc1\xbf", "\xed\xa0\x80", "\xed\xbf\xbf", "\xf4\x90\x80\x80", "\xe0\x80\x80",
        "\xe0\x9f\xbf", "\xf0\x80\x80\x80", "\xf0\x8f\xbf\xbf", "\xc3z", "\xe2\x82z", "\xf5\x80\x80\x80"}) {
    EXPECT_EQ(decode_utf8("ab" + bad).bytes, 2u);
    EXPECT_FALSE(first_character(bad).cut_off);
  }
}

TEST(Utf8, TellsWhatIsCutOff) {
  for (const std::string whole : {"α", "€", "😀"})
    for (std::size_t bytes = 1; bytes < whole.size(); ++bytes) {
      const Utf8Character character = first_character(std::string_view(whole).substr(0, bytes));
      EXPECT_TRUE(character.cut_off);
      EXPECT_EQ(character.bytes, 0u);
    }
}

}  // namespace
}  // namespace lockstep
