// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

#include "io/raw_file.hpp"

namespace lockstep {

/// A temporary file used instead of memory. It has no name, so nothing is left when the process ends, however it ends.
/// It bypasses the page cache (O_DIRECT), which would use the memory to be saved: offsets, lengths and memory addresses
/// must be multiples of `alignment`.
class ScratchFile {
 public:
  static constexpr std::size_t alignment = 4096;

  /// Creates an empty file. Throws missing_file if there is no such folder, io_error if the disk is full, and
  /// cannot_create if no file can be made there, the file system has no O_DIRECT, or the folder is in memory (tmpfs).
  explicit ScratchFile(const std::filesystem::path& folder);

  const std::string& name() const { return file_.name(); }
  /// Makes the file at least `bytes` long. New bytes are zero and their disk space is allocated, so that later writes
  /// do not find the disk full. Throws io_error if there is no room.
  void reserve(std::uint64_t bytes);
  void read(std::uint64_t offset, void* to, std::size_t bytes) const { file_.read(offset, to, bytes); }
  void write(std::uint64_t offset, const void* from, std::size_t bytes) { file_.write(offset, from, bytes); }

 private:
  RawFile file_;
  std::uint64_t bytes_ = 0;
};

/// Memory suitable for transfers to and from a ScratchFile.
using ScratchMemory = std::unique_ptr<std::byte[], void (*)(std::byte*)>;
ScratchMemory scratch_memory(std::size_t bytes);

}  // namespace lockstep
