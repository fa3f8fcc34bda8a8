// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/raw_file.hpp"

namespace lockstep {

/// Replaces a file atomically: the new one is written under a temporary name in the same folder, flushed to disk and
/// renamed by `commit`. Without `commit`, nothing is left and nothing is replaced. If the name is a link, the file that
/// it leads to is replaced.
class ReplaceFile {
 public:
  /// Throws what require_replaceable throws, cannot_create if the folder is missing or not writable, and io_error if
  /// the disk is full.
  explicit ReplaceFile(std::filesystem::path path);
  ReplaceFile(const ReplaceFile&) = delete;
  ReplaceFile& operator=(const ReplaceFile&) = delete;
  ~ReplaceFile();

  /// Removes temporary files of `path` left by processes of this host that have ended.
  static void remove_leftovers(const std::filesystem::path& path);
  /// Throws cannot_create if the name belongs to something other than a file: a folder, a device, a pipe.
  static void require_replaceable(const std::filesystem::path& path);
  /// Returns "metrics.csv" for "metrics.csv.tmp-nodea-4711", the temporary file of a killed process; empty for other
  /// names.
  static std::optional<std::string> left_of(std::string_view name);

  const std::filesystem::path& temporary() const { return temporary_; }
  /// The final name as given by the user, for messages of the writer.
  std::string name() const { return path_.string(); }
  /// Opens the temporary file; messages use the final name.
  RawFile open() const { return {temporary_, RawFile::Access::change, name()}; }
  /// Flushes and renames the temporary file, which the writer must have closed. Throws io_error.
  void commit();

 private:
  std::filesystem::path path_;    ///< name as given
  std::filesystem::path target_;  ///< name with links resolved
  std::filesystem::path temporary_;
  bool committed_ = false;
};

/// Checks that an output file can be made; to be called before anything is read or computed. Throws bad_usage if it is
/// one of `inputs`, and cannot_create if it exists and `overwrite` is false, if the name belongs to something other
/// than a file, or if no file can be created there. Missing inputs and empty names are ignored. Removes temporary files
/// of killed processes.
void check_output(const std::filesystem::path& output, bool overwrite, const std::vector<std::string>& inputs);

/// Writes a whole text file by ReplaceFile. Throws what ReplaceFile throws, and io_error.
void replace_text_file(const std::filesystem::path& path, std::string_view text);

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
