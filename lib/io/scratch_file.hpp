// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

#include "io/raw_file.hpp"

namespace lockstep {

/// Bytes on a disk in the place of memory. The file has no name, so nothing is left of it when the process ends,
/// however it does; and it is read and written past the page cache (O_DIRECT), which would take the memory that it is
/// to save: places, lengths and addresses of memory are multiples of `alignment`.
class ScratchFile {
 public:
  static constexpr std::size_t alignment = 4096;

  /// Empty. Throws missing_file where there is no such folder; cannot_create where no file can be made there, or none
  /// that goes past the page cache, or where the folder is in memory (tmpfs).
  explicit ScratchFile(const std::filesystem::path& folder);

  const std::string& name() const { return file_.name(); }
  /// Has `bytes` from here on, of which those that are new are zero, and have their place on the disk: nothing that is
  /// written there finds it full. Throws io_error where there is no room.
  void reserve(std::uint64_t bytes);
  void read(std::uint64_t offset, void* to, std::size_t bytes) const { file_.read(offset, to, bytes); }
  void write(std::uint64_t offset, const void* from, std::size_t bytes) { file_.write(offset, from, bytes); }

 private:
  RawFile file_;
  std::uint64_t bytes_ = 0;
};

/// Memory that such a file is read into and written from.
using ScratchMemory = std::unique_ptr<std::byte[], void (*)(std::byte*)>;
ScratchMemory scratch_memory(std::size_t bytes);

}  // namespace lockstep
