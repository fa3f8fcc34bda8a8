// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <filesystem>
#include <string>

namespace lockstep {

/// What to do where there is no file of this name.
std::string advice_on_missing(const std::filesystem::path& file);

}  // namespace lockstep
