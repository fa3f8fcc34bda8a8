// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace lockstep {

/// Returns the whole text of a file. Throws Error: missing_file, bad_data for a folder, or io_error if it cannot be
/// read.
std::string read_text_file(const std::string& path);

/// Returns the whole text of a file; empty if it cannot be read.
std::string text_if_readable(const std::filesystem::path& path);

/// Whether the first bytes of a file are these; false if it cannot be read.
bool file_begins_with(const std::filesystem::path& path, std::string_view begin);

/// Advice for the error message about a file that does not exist.
std::string advice_on_missing(const std::filesystem::path& file);

}  // namespace lockstep
