// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "io/growing_file.hpp"

#include <utility>

#include "base/error.hpp"
#include "base/heartbeat.hpp"
#include "base/log.hpp"
#include "io/replace_file.hpp"

namespace lockstep {

GrowingFile::GrowingFile(const std::filesystem::path& path, std::string_view text) : bytes_(text.size()) {
  ReplaceFile replacement(path);
  replacement.open().write(0, text.data(), text.size());
  replacement.commit();
  file_.emplace(path, RawFile::Access::change);
}

void GrowingFile::append(std::string_view lines) {
  const UsesFiles files;
  const std::lock_guard lock(mutex_);
  waiting_ += lines;
  try {
    write_waiting();
  } catch (const Error& error) {
    if (!std::exchange(fails_, true))
      warn("{}; the run continues, and the rows are kept until they can be written", error.what());
  }
}

void GrowingFile::write_waiting() {
  file_->write(bytes_, waiting_.data(), waiting_.size());
  bytes_ += waiting_.size();
  waiting_.clear();
  fails_ = false;
}

void GrowingFile::flush_to_disk() {
  {
    const std::lock_guard lock(mutex_);
    write_waiting();
  }
  file_->flush_to_disk();  // without the lock, so that lines can be appended meanwhile
}

}  // namespace lockstep
