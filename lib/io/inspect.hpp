// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <filesystem>
#include <string>

namespace lockstep {

/// Output of `lockstep inspect`, and whether the file can be trusted.
struct Inspection {
  std::string text;     ///< one line per dataset, then the beginning of each text
  std::string problem;  ///< empty if every checksum holds; else the message of the bad_data error
};

/// Throws missing_file, or bad_data if the file cannot be described at all.
Inspection inspect_file(const std::filesystem::path& path);

}  // namespace lockstep
