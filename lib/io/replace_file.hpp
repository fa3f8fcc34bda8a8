// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/raw_file.hpp"

namespace lockstep {

/// A file that comes into being all at once: written under a temporary name beside its own,
/// flushed to disk, renamed. Without `commit`, nothing is left and nothing is replaced. Where a name is a link, it is
/// the file that it leads to which is replaced.
class ReplaceFile {
 public:
  /// Throws what require_replaceable throws, and cannot_create when the folder is missing or cannot be written to.
  explicit ReplaceFile(std::filesystem::path path);
  ReplaceFile(const ReplaceFile&) = delete;
  ReplaceFile& operator=(const ReplaceFile&) = delete;
  ~ReplaceFile();

  /// Removes what processes of this host have left of that file that are there no more.
  static void remove_leftovers(const std::filesystem::path& path);
  /// Throws cannot_create where something is there that is no file: a folder, a device, a pipe.
  static void require_replaceable(const std::filesystem::path& path);
  /// "metrics.csv" for "metrics.csv.tmp-nodea-4711", which a killed process has left; none for other names.
  static std::optional<std::string> left_of(std::string_view name);

  const std::filesystem::path& temporary() const { return temporary_; }
  /// What users call it, for messages of whoever writes the temporary file.
  std::string name() const { return path_.string(); }
  /// The temporary file; its messages name the file that it is to become.
  RawFile open() const { return {temporary_, RawFile::Access::change, name()}; }
  /// The writer has closed the temporary file. Throws io_error.
  void commit();

 private:
  std::filesystem::path path_;    ///< as it was given
  std::filesystem::path target_;  ///< the same, but for links
  std::filesystem::path temporary_;
  bool committed_ = false;
};

/// Throws bad_usage when it is one of the files that are read, whose only copy it would replace, and cannot_create when
/// there is such a file already and it is not to be replaced, or something that is no file, or where none can be made,
/// as in a folder that is missing. To be asked first, before anything is read or measured; what killed processes have
/// left of that output makes room. `inputs`: files; those that are not there, and empty names, are passed over.
void check_output(const std::filesystem::path& output, bool overwrite, const std::vector<std::string>& inputs);

/// A whole file of text, put in place so. Throws what ReplaceFile does, and io_error.
void replace_text_file(const std::filesystem::path& path, std::string_view text);

}  // namespace lockstep
