// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "base/text_file.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/error.hpp"
#include "base/missing_file.hpp"

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

}  // namespace lockstep
