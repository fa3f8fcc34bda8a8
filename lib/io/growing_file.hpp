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

/// A text file that grows by lines, which can be read at once. Those that a full disk does not take wait for the next
/// ones, or for flush_to_disk.
class GrowingFile {
 public:
  /// Begins with this text, in the place of what there was. Throws what ReplaceFile does.
  GrowingFile(const std::filesystem::path& path, std::string_view text);

  /// Where they cannot be written, warns.
  void append(std::string_view lines);
  /// On disk, not only on its way: before a checkpoint that counts on the lines. From any thread. Throws io_error.
  void flush_to_disk();

 private:
  void write_waiting();

  std::mutex mutex_;  // guards what follows
  std::optional<RawFile> file_;
  std::uint64_t bytes_ = 0;  ///< in the file
  std::string waiting_;      ///< lines that are not
  bool fails_ = false;       ///< the last attempt to write them
};

}  // namespace lockstep
