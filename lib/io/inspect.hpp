// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <filesystem>
#include <string>

namespace lockstep {

/// What `lockstep inspect` prints, and whether the file can be trusted.
struct Inspection {
  std::string text;     ///< a line per dataset, then the beginning of each text
  std::string problem;  ///< empty: every checksum holds; else what to fail with (bad_data)
};

/// Throws missing_file, or bad_data when the file cannot be described at all.
Inspection inspect_file(const std::filesystem::path& path);

}  // namespace lockstep
