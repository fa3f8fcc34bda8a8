// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "io/replace_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "base/error.hpp"
#include "base/process.hpp"
#include "io/raw_file.hpp"

namespace lockstep {
namespace {

/// Between a file's name, and the host and number of the process that writes it.
constexpr std::string_view marker = ".tmp-";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::optional<std::string> ReplaceFile::left_of(std::string_view name) {
  const auto found = name.rfind(marker);
  if (found == std::string_view::npos) return std::nullopt;
  const auto process = name.substr(found + marker.size());
  const auto number = process.substr(process.rfind('-') + 1);
  if (number.empty() || number.size() == process.size() || !std::ranges::all_of(number, is_digit)) return std::nullopt;
  return std::string(name.substr(0, found));
}

ReplaceFile::ReplaceFile(std::filesystem::path path) : path_(std::move(path)), temporary_(path_) {
  temporary_ += fmt::format("{}{}", marker, process_name());
  std::error_code ignored;  // what else is wrong is found by open
  validate(!std::filesystem::is_directory(path_, ignored), ExitStatus::cannot_create,
           "{}: cannot be created (a folder has that name); choose another name", path_.string());
  const auto make = [&] {
    return ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  };
  int file = make();
  if (file < 0 && errno == EEXIST) {  // of a dead process of this number: unlinked, wherever it may lead
    ::unlink(temporary_.c_str());
    file = make();
  }
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

void replace_text_file(const std::filesystem::path& path, std::string_view text) {
  ReplaceFile replacement(path);
  std::ofstream out(replacement.temporary(), std::ios::binary);
  out << text;
  out.close();
  validate(out.good(), ExitStatus::io_error, "{}: cannot be written ({}); check the disk", path.string(),
           std::strerror(errno));
  replacement.commit();
}

}  // namespace lockstep
