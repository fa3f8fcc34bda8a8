// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

namespace lockstep {

/// Unbuffered access to a file. Short and interrupted reads and writes are continued; failures throw io_error, naming
/// the file and the reason.
class RawFile {
 public:
  enum class Access { read, change, create, folder };  ///< create: empty, readable and writable by its owner only
  RawFile(const std::filesystem::path& path, Access access) : RawFile(path, access, path.string()) {}
  /// `name`: the file's name in messages.
  RawFile(const std::filesystem::path& path, Access access, std::string name);
  /// Takes ownership of an open file descriptor.
  RawFile(std::string name, int file) : name_(std::move(name)), file_(file) {}
  RawFile(const RawFile&) = delete;
  RawFile& operator=(const RawFile&) = delete;
  ~RawFile();

  const std::string& name() const { return name_; }
  std::uint64_t size() const;
  /// Reads all of [offset, offset + bytes), which must exist.
  void read(std::uint64_t offset, void* to, std::size_t bytes) const;
  void write(std::uint64_t offset, const void* from, std::size_t bytes);
  /// Allocates disk space for [offset, offset + bytes). Returns 0 or an errno value: EOPNOTSUPP on file systems that
  /// cannot reserve space.
  int reserve(std::uint64_t offset, std::uint64_t bytes);
  /// Waits until everything written is on disk. (Network file systems that cannot flush folders are tolerated; their
  /// renames are durable by themselves.)
  void flush_to_disk();
  /// Closes the file. Throws io_error for failures that only closing reveals, which the destructor would hide.
  void close();

 private:
  std::string name_;
  int file_;
};

}  // namespace lockstep
