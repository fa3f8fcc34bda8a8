// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <filesystem>
#include <string_view>

namespace lockstep {

/// A file that comes into being all at once: written under a temporary name beside its own,
/// flushed to disk, renamed. Without `commit`, nothing is left and nothing is replaced.
class ReplaceFile {
 public:
  /// Between a file's name and the process number, in its temporary name.
  static constexpr std::string_view marker = ".tmp";

  /// Throws cannot_create when the folder is missing or cannot be written to.
  explicit ReplaceFile(std::filesystem::path path);
  ReplaceFile(const ReplaceFile&) = delete;
  ReplaceFile& operator=(const ReplaceFile&) = delete;
  ~ReplaceFile();

  const std::filesystem::path& temporary() const { return temporary_; }
  /// The writer has closed the temporary file. Throws io_error.
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  bool committed_ = false;
};

}  // namespace lockstep
