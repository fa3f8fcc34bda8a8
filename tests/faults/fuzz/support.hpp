// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/error.hpp"
#include "target.hpp"

namespace lockstep::fuzz {

/// A folder for this process's files, gone at its end. In $TMPDIR: one that is held in memory is many times as fast.
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

  std::string file(const std::string& name) const { return path_ / name; }
  /// A file of these bytes.
  std::string file(const std::string& name, Bytes bytes) const {
    const std::string path = file(name);
    std::FILE* to = std::fopen(path.c_str(), "wb");
    const bool written = to && std::fwrite(bytes.data(), 1, bytes.size(), to) == bytes.size();
    if (!to || std::fclose(to) != 0 || !written) {
      std::perror(path.c_str());
      std::abort();
    }
    return path;
  }

 private:
  std::filesystem::path path_;
};

/// Ends the program, as a failed assertion does, where the reader has broken a promise.
inline void require(bool ok, const char* promise, const std::string& shown) {
  if (ok) return;
  std::fprintf(stderr, "broken promise: %s: %s\n", promise, shown.c_str());
  std::abort();
}

/// Runs `work`; a refusal must be one line that a user can read, with a status that says whose fault it is.
template <class Work>
void may_refuse(Work&& work) {
  try {
    work();
  } catch (const Error& error) {
    const std::string message = error.what();
    require(!message.empty() && message.size() < 4096 && message.find_first_of("\n\r\x1b") == std::string::npos,
            "a refusal is one line of plain text", message);
    require(error.status() == ExitStatus::bad_data || error.status() == ExitStatus::bad_deck,
            "a refusal says that the file is bad", message);
  }
}

}  // namespace lockstep::fuzz
