// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <filesystem>
#include <string>

namespace lockstep {

/// Advice for the error message about a file that does not exist.
std::string advice_on_missing(const std::filesystem::path& file);

}  // namespace lockstep
