// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "io/raw_file.hpp"

namespace lockstep {

/// A text file to which lines are appended, and which can be read at any time. Lines that a full disk refuses are kept
/// and written with the next ones, or by flush_to_disk. Thread-safe.
class GrowingFile {
 public:
  /// Creates the file with this text, replacing an existing one. Throws what ReplaceFile throws.
  GrowingFile(const std::filesystem::path& path, std::string_view text);

  /// Appends lines; warns if they cannot be written.
  void append(std::string_view lines);
  /// Waits until all lines are on disk; for a checkpoint that relies on them. Throws io_error.
  void flush_to_disk();

 private:
  void write_waiting();

  std::mutex mutex_;  // protects the members below
  std::optional<RawFile> file_;
  std::uint64_t bytes_ = 0;  ///< bytes written to the file
  std::string waiting_;      ///< lines not written yet
  bool fails_ = false;       ///< the last attempt to write failed
};

}  // namespace lockstep
