// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "io/output_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "base/duration.hpp"
#include "base/error.hpp"
#include "base/heartbeat.hpp"
#include "base/log.hpp"
#include "base/process.hpp"

namespace lockstep {
namespace {

/// Stands between a file's name and the host and number of the process that writes its temporary file.
constexpr std::string_view marker = ".tmp-";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Follows links; the final target need not exist.
std::filesystem::path target_of(const std::filesystem::path& path) {
  constexpr int most_links = 40;  // the limit of Linux
  std::filesystem::path target = path;
  std::error_code code;
  for (int links = 0; std::filesystem::is_symlink(target, code); ++links) {
    validate(links < most_links, ExitStatus::cannot_create,
             "{}: cannot be created (too many symbolic links); choose another name", path.string());
    target = target.parent_path() / std::filesystem::read_symlink(target, code);
  }
  return target;
}

}  // namespace

std::optional<std::string> ReplaceFile::left_of(std::string_view name) {
  const auto found = name.rfind(marker);
  if (found == std::string_view::npos) return std::nullopt;
  const auto process = name.substr(found + marker.size());
  const auto number = process.substr(process.rfind('-') + 1);
  if (number.empty() || number.size() == process.size() || !std::ranges::all_of(number, is_digit)) return std::nullopt;
  return std::string(name.substr(0, found));
}

void ReplaceFile::require_replaceable(const std::filesystem::path& path) {
  std::error_code ignored;  // other problems show when the file is made
  const auto status = std::filesystem::status(path, ignored);
  validate(!std::filesystem::is_directory(status), ExitStatus::cannot_create,
           "{}: cannot be created (a folder has that name); choose another name", path.string());
  validate(!std::filesystem::exists(status) || std::filesystem::is_regular_file(status), ExitStatus::cannot_create,
           "{}: is not a file (a device or a pipe has that name), and is not replaced by one; choose another name",
           path.string());
}

void ReplaceFile::remove_leftovers(const std::filesystem::path& path) {
  const std::filesystem::path target = target_of(path);
  const std::string own = process_name(), host = own.substr(0, own.rfind('-') + 1);
  const std::string begin = target.filename().string() + std::string(marker) + host;
  std::error_code ignored;  // problems of the folder show when the file is made
  const auto folder = target.parent_path();
  std::filesystem::directory_iterator entry(folder.empty() ? "." : folder, ignored);
  for (; !ignored && entry != std::filesystem::directory_iterator(); entry.increment(ignored)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(begin) || !left_of(name)) continue;
    const std::optional<double> process = number_of(std::string_view(name).substr(begin.size()));
    if (process && process_has_ended(static_cast<std::int64_t>(*process))) ::unlink(entry->path().c_str());
  }
}

ReplaceFile::ReplaceFile(std::filesystem::path path)
    : path_(std::move(path)), target_(target_of(path_)), temporary_(target_) {
  temporary_ += fmt::format("{}{}", marker, process_name());
  require_replaceable(path_);
  const auto make = [&] {
    return ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  };
  int file = make();
  // A leftover of an ended process with this number; it may be a link, so it is unlinked.
  if (file < 0 && errno == EEXIST) {
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
  RawFile file = open();
  file.flush_to_disk();
  file.close();
  std::error_code code;
  std::filesystem::rename(temporary_, target_, code);
  validate(!code, ExitStatus::io_error, "{}: cannot be renamed into place ({})", path_.string(), code.message());
  committed_ = true;
  const auto folder = target_.parent_path();
  RawFile(folder.empty() ? "." : folder, RawFile::Access::folder).flush_to_disk();
}

void check_output(const std::filesystem::path& output, bool overwrite, const std::vector<std::string>& inputs) {
  std::error_code ignored;  // other problems show when the file is made
  for (const std::string& input : inputs)
    validate(!std::filesystem::equivalent(output, input, ignored), ExitStatus::bad_usage,
             "{}: is {}, which is an input (the output would replace it); choose another name", output.string(), input);
  ReplaceFile::require_replaceable(output);
  validate(overwrite || !std::filesystem::exists(output, ignored), ExitStatus::cannot_create,
           "{}: exists already; choose another name, or add --overwrite", output.string());
  ReplaceFile::remove_leftovers(output);
  const ReplaceFile can_be_made(output);
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
