// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads checkpoints, whole or as `model.weights`: the last byte of an input says which, and the rest is the file.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "checkpoint/checkpoint_reader.hpp"
#include "hdf5_files.hpp"
#include "io/checksum.hpp"
#include "support.hpp"

namespace lockstep::fuzz {
namespace {

/// Removes from `text` all before the next `end`, and that `end`; returns the part before it.
std::string_view cut(std::string_view& text, char end) {
  const std::string_view head = text.substr(0, text.find(end));
  text.remove_prefix(std::min(head.size() + 1, text.size()));
  return head;
}

std::size_t number(std::string_view text) {
  std::size_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// Renews the manifest (io/checksum.hpp) for the file's bytes: parts keep their lengths and names.
void mend_manifest(std::span<std::uint8_t> file) {
  constexpr std::string_view magic = "lockstep manifest 1, bytes ";
  std::string_view old(reinterpret_cast<const char*>(file.data()), file.size());
  if (!old.starts_with(magic)) return;
  old.remove_prefix(magic.size());
  const std::size_t block = number(old);
  if (block > file.size()) return;
  std::string text = fmt::format("{}{} of {}\n", magic, block, file.size());
  cut(old, '\n');
  for (std::size_t first = block; first < file.size();) {
    std::string_view line = cut(old, '\n');
    cut(line, ' '), cut(line, ' ');  // the hash, and the first byte's place
    std::size_t bytes = std::min(number(cut(line, ' ')), file.size() - first);
    if (bytes == 0) bytes = file.size() - first;  // the last part, or one without a line
    text += fmt::format("{:016x} {} {} {}\n", hash_of(file.data() + first, bytes), first, bytes, line);
    first += bytes;
  }
  text += fmt::format("{:016x} end\n", hash_of(text.data(), text.size()));
  text.resize(std::max(block, text.size()), '\0');
  if (text.size() == block) std::ranges::copy(text, file.begin());
}

/// Reads a whole checkpoint, as a run that resumes does.
void read_numbers(const std::string& path) {
  constexpr std::int64_t piece = 1000;
  std::byte room[piece * 8];
  const Checkpoint checkpoint = open_checkpoint(path);
  CheckpointReader numbers(path);
  for (const NamedArray& array : checkpoint.arrays)
    for (std::int64_t first = 0; first < array.shape.count(); first += piece)
      numbers.read(array.name, first, std::min(piece, array.shape.count() - first), array.dtype, room);
}

}  // namespace

void read(Bytes bytes) {
  static const Folder folder;
  static ScratchFile file(folder / "checkpoint.h5");
  [[maybe_unused]] static const bool once = (keep_hdf5_memory(), true);
  if (bytes.empty()) return;
  const std::string& path = file.holding(bytes.first(bytes.size() - 1));
  may_refuse([&] {
    if (bytes.back() & 1) read_parameters(path);
    else read_numbers(path);
  });
}

void mend(std::span<std::uint8_t> bytes) {
  if (bytes.empty()) return;
  mend_hdf5_checksums(bytes);
  mend_manifest(bytes.first(bytes.size() - 1));
}

}  // namespace lockstep::fuzz
