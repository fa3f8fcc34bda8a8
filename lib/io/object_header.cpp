// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "io/object_header.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

namespace lockstep {
namespace {

constexpr std::uint64_t layout_message = 0x08, continuation_message = 0x10;

/// Bytes of a file from `from` on; fewer than requested at the end of the file.
class Block {
 public:
  Block(const RawFile& file, std::uint64_t from, std::uint64_t bytes) {
    const std::uint64_t size = file.size();
    bytes_.resize(from < size ? std::min(bytes, size - from) : 0);
    file.read(from, bytes_.data(), bytes_.size());
  }

  std::size_t size() const { return bytes_.size(); }
  bool begins(std::string_view text) const {
    return std::string_view(reinterpret_cast<const char*>(bytes_.data()), bytes_.size()).starts_with(text);
  }
  /// Little-endian number; bytes beyond the end count as 0.
  std::uint64_t number(std::size_t at, std::size_t count) const {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < std::min<std::size_t>(count, 8) && at + i < bytes_.size(); ++i)
      value |= std::uint64_t{bytes_[at + i]} << (8 * i);
    return value;
  }

 private:
  std::vector<unsigned char> bytes_;
};

struct ByteRange {
  std::uint64_t from, bytes;
};

}  // namespace

bool has_new_layout(const RawFile& file, const AddressFormat& format, std::uint64_t address) {
  constexpr std::uint64_t longest_prefix = 30, longest_block = std::uint64_t{1} << 24;
  const std::uint64_t begin = format.base + address;
  const Block prefix(file, begin, longest_prefix);
  const bool version_2 = prefix.begins("OHDR");
  std::size_t type_bytes = 2, head_bytes = 8;  // size of a message's type, and of its whole header
  std::vector<ByteRange> left;                   // ranges of messages still to be parsed
  if (version_2) {
    const std::uint64_t flags = prefix.number(5, 1), size_bytes = std::uint64_t{1} << (flags & 3);
    const std::size_t size_at = 6 + ((flags & 0x20) != 0 ? 16 : 0) + ((flags & 0x10) != 0 ? 4 : 0);
    type_bytes = 1, head_bytes = (flags & 4) != 0 ? 6 : 4;
    left.push_back({begin + size_at + size_bytes, prefix.number(size_at, size_bytes)});
  } else {
    left.push_back({begin + 16, prefix.number(8, 4)});
  }
  for (std::uint64_t seen = 0; !left.empty();) {
    const ByteRange range = left.back();
    left.pop_back();
    // A longer block, or more bytes than the file has, is damage, such as a cycle of continuation blocks.
    if (range.bytes > longest_block || (seen += range.bytes) > file.size()) return true;
    const Block block(file, range.from, range.bytes);
    for (std::size_t at = 0; at + head_bytes <= block.size();) {
      const std::uint64_t type = block.number(at, type_bytes);
      const std::size_t bytes = block.number(at + type_bytes, 2), data = at + head_bytes;
      if (type == layout_message && block.number(data, 1) >= 4 && block.number(data + 1, 1) >= 2) return true;
      if (type == continuation_message) {
        const ByteRange next{format.base + block.number(data, format.address_bytes),
                           block.number(data + format.address_bytes, format.length_bytes)};
        // In version 2, a signature and a checksum enclose the messages.
        left.push_back(version_2 ? ByteRange{next.from + 4, std::max<std::uint64_t>(next.bytes, 8) - 8} : next);
      }
      at = data + bytes;
    }
  }
  return false;
}

}  // namespace lockstep
