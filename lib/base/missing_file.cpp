// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "base/missing_file.hpp"

#include <fmt/format.h>

namespace lockstep {

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
