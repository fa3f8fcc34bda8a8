// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "hdf5_checksums.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <string_view>

namespace lockstep::fuzz {
namespace {

/// Bob Jenkins' lookup3 (public domain, 2006), byte by byte, from 0: what HDF5 takes for metadata.
std::uint32_t lookup3(const std::uint8_t* key, std::size_t length) {
  std::uint32_t a = 0xdeadbeefu + static_cast<std::uint32_t>(length), b = a, c = a;
  const auto add = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      std::uint32_t& word = i < 4 ? a : i < 8 ? b : c;
      word += std::uint32_t{key[i]} << (8 * (i % 4));
    }
  };
  while (length > 12) {
    add(12);
    a -= c, a ^= std::rotl(c, 4), c += b;
    b -= a, b ^= std::rotl(a, 6), a += c;
    c -= b, c ^= std::rotl(b, 8), b += a;
    a -= c, a ^= std::rotl(c, 16), c += b;
    b -= a, b ^= std::rotl(a, 19), a += c;
    c -= b, c ^= std::rotl(b, 4), b += a;
    key += 12, length -= 12;
  }
  if (length == 0) return c;
  add(length);
  c ^= b, c -= std::rotl(b, 14);
  a ^= c, a -= std::rotl(c, 11);
  b ^= a, b -= std::rotl(a, 25);
  c ^= b, c -= std::rotl(b, 16);
  a ^= c, a -= std::rotl(c, 4);
  b ^= a, b -= std::rotl(a, 14);
  c ^= b, c -= std::rotl(b, 24);
  return c;
}

/// The checksum of `length` bytes from `begin` stands right behind them.
void mend(std::vector<std::uint8_t>& bytes, std::size_t begin, std::size_t length) {
  if (begin + length + 4 > bytes.size()) return;
  const std::uint32_t sum = lookup3(bytes.data() + begin, length);
  for (std::size_t i = 0; i < 4; ++i) bytes[begin + length + i] = static_cast<std::uint8_t>(sum >> (8 * i));
}

std::uint64_t number_at(const std::vector<std::uint8_t>& bytes, std::size_t begin, std::size_t width) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < width && begin + i < bytes.size(); ++i)
    value |= std::uint64_t{bytes[begin + i]} << (8 * i);
  return value;
}

bool stands_at(const std::vector<std::uint8_t>& bytes, std::size_t begin, std::string_view word) {
  return begin + word.size() <= bytes.size() &&
         std::equal(word.begin(), word.end(), bytes.begin() + static_cast<std::ptrdiff_t>(begin),
                    [](char a, std::uint8_t b) { return static_cast<std::uint8_t>(a) == b; });
}

}  // namespace

void mend_hdf5_checksums(std::vector<std::uint8_t>& bytes) {
  using std::string_view_literals::operator""sv;
  for (std::size_t at = 0; at + 12 < bytes.size(); ++at) {
    if (stands_at(bytes, at, "\x89HDF\r\n\x1a\n"sv)) {
      mend(bytes, at, 44);
    } else if (stands_at(bytes, at, "OHDR"sv)) {
      const unsigned flags = bytes[at + 5];
      const std::size_t width = std::size_t{1} << (flags & 3u);
      const std::size_t sizes = at + 6 + (flags & 0x20u ? 16 : 0) + (flags & 0x10u ? 4 : 0);
      const std::uint64_t messages = number_at(bytes, sizes, width);
      if (messages < bytes.size()) mend(bytes, at, sizes + width - at + messages);
    }
  }
}

}  // namespace lockstep::fuzz
