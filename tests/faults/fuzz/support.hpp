// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "target.hpp"

namespace lockstep::fuzz {

/// A folder in $TMPDIR for this process's files, removed by the destructor. In a file system in memory, fuzzing is many
/// times as fast.
class Folder {
 public:
  Folder() {
    std::string name = std::filesystem::temp_directory_path() / "lockstep-fuzz-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) {
      std::perror(name.c_str());
      std::abort();
    }
    path_ = name;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

/// A file whose bytes are replaced in place: creating a new one each time takes longer than many readers do.
class ScratchFile {
 public:
  explicit ScratchFile(const std::filesystem::path& path)
      : path_(path), file_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    if (file_ < 0) fail();
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  ~ScratchFile() { ::close(file_); }

  /// Replaces the file's bytes; returns its path.
  const std::string& holding(Bytes bytes) {
    const auto size = static_cast<ssize_t>(bytes.size());
    if (::pwrite(file_, bytes.data(), bytes.size(), 0) != size) fail();
    if (size != size_ && ::ftruncate(file_, size) != 0) fail();
    size_ = size;
    return path_;
  }

 private:
  [[noreturn]] void fail() const {
    std::perror(path_.c_str());
    std::abort();
  }

  std::string path_;
  int file_;
  ssize_t size_ = 0;
};

/// Aborts, as a failed assertion does, if a reader has broken a promise.
inline void require(bool ok, const char* promise, const std::string& shown) {
  if (ok) return;
  std::fprintf(stderr, "broken promise: %s: %s\n", promise, shown.c_str());
  std::abort();
}

/// Runs `work`, which may refuse its file: by a line that a user can read, or one for each mistake, with the status of
/// bad data or of a bad deck.
template <class Work>
void may_refuse(Work&& work) {
  try {
    work();
  } catch (const Error& error) {
    const std::string message = error.what();
    constexpr std::size_t most_lines = 11, longest = 4096;
    std::size_t lines = 0;
    for (std::size_t begin = 0; begin <= message.size(); ++lines) {
      const std::size_t end = std::min(message.find('\n', begin), message.size());
      const std::string_view line = std::string_view(message).substr(begin, end - begin);
      require(!line.empty() && line.size() < longest && line.find_first_of("\r\x1b") == std::string_view::npos,
              "a refusal is lines of plain text", message);
      begin = end + 1;
    }
    require(lines <= most_lines, "a refusal has few lines", message);
    require(error.status() == ExitStatus::bad_data || error.status() == ExitStatus::bad_deck,
            "a refusal says that the file is bad", message);
  }
}

}  // namespace lockstep::fuzz
