// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "hdf5_files.hpp"

#include <hdf5.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep::fuzz {
namespace {

/// Bob Jenkins' lookup3 (public domain, 2006) from 0, the checksum of HDF5's metadata.
std::uint32_t lookup3(const std::uint8_t* key, std::size_t length) {
  std::uint32_t a = 0xdeadbeefu + static_cast<std::uint32_t>(length), b = a, c = a;
  const auto word = [](const std::uint8_t* from) {
    return from[0] | std::uint32_t{from[1]} << 8 | std::uint32_t{from[2]} << 16 | std::uint32_t{from[3]} << 24;
  };
  const auto add = [&](const std::uint8_t* from) { a += word(from), b += word(from + 4), c += word(from + 8); };
  while (length > 12) {
    add(key);
    a -= c, a ^= std::rotl(c, 4), c += b;
    b -= a, b ^= std::rotl(a, 6), a += c;
    c -= b, c ^= std::rotl(b, 8), b += a;
    a -= c, a ^= std::rotl(c, 16), c += b;
    b -= a, b ^= std::rotl(a, 19), a += c;
    c -= b, c ^= std::rotl(b, 4), b += a;
    key += 12, length -= 12;
  }
  if (length == 0) return c;
  std::uint8_t last[12] = {};
  std::copy_n(key, length, last);
  add(last);
  c ^= b, c -= std::rotl(b, 14);
  a ^= c, a -= std::rotl(c, 11);
  b ^= a, b -= std::rotl(a, 25);
  c ^= b, c -= std::rotl(b, 16);
  a ^= c, a -= std::rotl(c, 4);
  b ^= a, b -= std::rotl(a, 14);
  c ^= b, c -= std::rotl(b, 24);
  return c;
}

/// Writes the checksum of `length` bytes from `begin` right after them.
void mend(std::span<std::uint8_t> bytes, std::size_t begin, std::uint64_t length) {
  if (length > bytes.size() || begin + length + 4 > bytes.size()) return;
  const std::uint32_t sum = lookup3(bytes.data() + begin, length);
  for (std::size_t i = 0; i < 4; ++i) bytes[begin + length + i] = static_cast<std::uint8_t>(sum >> (8 * i));
}

std::uint64_t number_at(std::span<const std::uint8_t> bytes, std::size_t begin, std::size_t width) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < width && begin + i < bytes.size(); ++i)
    value |= std::uint64_t{bytes[begin + i]} << (8 * i);
  return value;
}

/// Calls f(begin) for each occurrence of `word`.
template <class F>
void at_each(std::string_view word, std::span<const std::uint8_t> bytes, F&& f) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) f(at);
}

}  // namespace

void mend_hdf5_checksums(std::span<std::uint8_t> bytes) {
  std::size_t base = 0;  // file addresses are relative to the superblock
  at_each("\x89HDF\r\n\x1a\n", bytes, [&](std::size_t at) {
    mend(bytes, at, 44);
    base = at;
  });
  at_each("OHDR", bytes, [&](std::size_t at) {
    const std::uint64_t flags = number_at(bytes, at + 5, 1);
    const std::size_t width = std::size_t{1} << (flags & 3u);
    const std::size_t sizes = at + 6 + (flags & 0x20u ? 16 : 0) + (flags & 0x10u ? 4 : 0);
    mend(bytes, at, sizes + width - at + number_at(bytes, sizes, width));
  });
  at_each("OCHK", bytes, [&](std::size_t at) {  // the length follows the address in the header that it continues
    std::string address(8, '\0');
    for (std::size_t i = 0; i < 8; ++i) address[i] = static_cast<char>((at - base) >> (8 * i));
    at_each(address, bytes, [&](std::size_t place) { mend(bytes, at, number_at(bytes, place + 8, 8) - 4); });
  });
}

void keep_hdf5_memory() {
  constexpr int kept = 8 << 20, kept_of_a_kind = 2 << 20;
  constexpr int arrays = 4 << 20, arrays_of_a_kind = 256 << 10, blocks = 16 << 20,
                blocks_of_a_size = 1 << 20;  // the library's defaults
  H5set_free_list_limits(kept, kept_of_a_kind, arrays, arrays_of_a_kind, blocks, blocks_of_a_size);
}

}  // namespace lockstep::fuzz
