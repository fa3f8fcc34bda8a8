// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "base/text_file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/error.hpp"

namespace lockstep {

std::string read_text_file(const std::string& path) {
  std::error_code code;
  const auto status = std::filesystem::status(path, code);
  validate(status.type() != std::filesystem::file_type::not_found, ExitStatus::missing_file, "{}: no such file; {}",
           path, advice_on_missing(path));
  validate(status.type() != std::filesystem::file_type::directory, ExitStatus::bad_data,
           "{}: is a folder, not a file; name a file in it", path);
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (in.peek() != std::ifstream::traits_type::eof()) text << in.rdbuf();
  validate(in.is_open() && !in.bad() && text.good(), ExitStatus::io_error,
           "{}: cannot be read ({}); check its permissions", path, std::strerror(errno));
  return text.str();
}

std::string text_if_readable(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

bool file_begins_with(const std::filesystem::path& path, std::string_view begin) {
  std::ifstream file(path, std::ios::binary);
  std::string found(begin.size(), '\0');
  file.read(found.data(), static_cast<std::streamsize>(found.size()));
  return file && found == begin;
}

std::string advice_on_missing(const std::filesystem::path& file) {
  const std::filesystem::path latest = file.parent_path() / "latest";
  std::error_code code;
  if (file.filename() == "best" && std::filesystem::exists(latest, code))
    return fmt::format("this run keeps no best checkpoint (checkpoint.keep_best); use {}", latest.string());
  const std::string name = file.string();
  const auto colon = name.rfind(':');
  if (colon != std::string::npos && std::filesystem::is_regular_file(name.substr(0, colon), code))
    return fmt::format("the path in {0} must begin with a /: write {0}:/{1}", name.substr(0, colon),
                       name.substr(colon + 1));
  return "check the path (relative paths start at the working folder)";
}

}  // namespace lockstep
