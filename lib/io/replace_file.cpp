// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "io/replace_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "io/raw_file.hpp"

namespace lockstep {
namespace {

/// Between a file's name and the process number.
constexpr std::string_view marker = ".tmp";

}  // namespace

std::optional<std::string> ReplaceFile::left_of(std::string_view name) {
  const auto found = name.rfind(marker);
  if (found == std::string_view::npos) return std::nullopt;
  const auto digits = name.substr(found + marker.size());
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  return std::string(name.substr(0, found));
}

ReplaceFile::ReplaceFile(std::filesystem::path path) : path_(std::move(path)), temporary_(path_) {
  temporary_ += fmt::format("{}{}", marker, ::getpid());
  std::error_code ignored;  // what else is wrong is found by open
  validate(!std::filesystem::is_directory(path_, ignored), ExitStatus::cannot_create,
           "{}: cannot be created (a folder has that name); choose another name", path_.string());
  const int file = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) {
    const int error = errno;
    validate(error != ENOSPC && error != EDQUOT, ExitStatus::io_error, "{}: cannot be created ({}); make room",
             path_.string(), std::strerror(error));
    throw Error(ExitStatus::cannot_create,
                fmt::format("{}: cannot be created ({}); choose a folder that exists and is writable", path_.string(),
                            std::strerror(error)));
  }
  ::close(file);
}

ReplaceFile::~ReplaceFile() {
  std::error_code ignored;
  if (!committed_) std::filesystem::remove(temporary_, ignored);
}

void ReplaceFile::commit() {
  RawFile file(temporary_, RawFile::Access::change);
  file.flush_to_disk();
  file.close();
  std::error_code code;
  std::filesystem::rename(temporary_, path_, code);
  validate(!code, ExitStatus::io_error, "{}: cannot be put in place ({})", path_.string(), code.message());
  committed_ = true;
  const auto folder = path_.parent_path();
  RawFile(folder.empty() ? "." : folder, RawFile::Access::folder).flush_to_disk();
}

}  // namespace lockstep
