// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

namespace lockstep {

/// The bytes of a file, without anybody's buffer in between. Short reads and writes, and those that a signal cuts off,
/// are gone on with; what fails throws io_error, naming the file and the reason.
class RawFile {
 public:
  enum class Access { read, change, create, folder };  ///< create: anew, for its owner alone
  RawFile(const std::filesystem::path& path, Access access) : RawFile(path, access, path.string()) {}
  /// `name` is for messages.
  RawFile(const std::filesystem::path& path, Access access, std::string name);
  /// Takes over a file that is open.
  RawFile(std::string name, int file) : name_(std::move(name)), file_(file) {}
  RawFile(const RawFile&) = delete;
  RawFile& operator=(const RawFile&) = delete;
  ~RawFile();

  const std::string& name() const { return name_; }
  std::uint64_t size() const;
  /// All of [offset, offset + bytes), which must be there.
  void read(std::uint64_t offset, void* to, std::size_t bytes) const;
  void write(std::uint64_t offset, const void* from, std::size_t bytes);
  /// Gives [offset, offset + bytes) its place on the disk. Returns 0, or the number of the error: EOPNOTSUPP on file
  /// systems that reserve nothing.
  int reserve(std::uint64_t offset, std::uint64_t bytes);
  /// Returns when what was written is on disk. (Some network file systems cannot flush folders; their renames are
  /// durable by themselves.)
  void flush_to_disk();
  /// The destructor would keep silent about what only closing a file brings to light.
  void close();

 private:
  std::string name_;
  int file_;
};

}  // namespace lockstep
