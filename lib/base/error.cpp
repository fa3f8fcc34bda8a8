// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "base/error.hpp"

#include <filesystem>
#include <new>
#include <system_error>

namespace lockstep {

Error as_error(const std::exception& exception) {
  if (const auto* error = dynamic_cast<const Error*>(&exception)) return *error;
  if (dynamic_cast<const std::bad_alloc*>(&exception)) return {ExitStatus::internal, out_of_memory};
  if (const auto* error = dynamic_cast<const std::filesystem::filesystem_error*>(&exception))
    return {ExitStatus::io_error, fmt::format("{}: {}; check the path and its permissions", error->path1().string(),
                                              error->code().message())};
  const auto* system = dynamic_cast<const std::system_error*>(&exception);
  if (system && system->code() == std::errc::resource_unavailable_try_again)
    return {ExitStatus::internal,
            fmt::format("no further thread can be started ({}); raise the limit on processes (ulimit -u, or that of "
                        "the job or container) or on memory (ulimit -v), or start fewer ranks per node",
                        system->code().message())};
  return {ExitStatus::internal, fmt::format("{}; this is a fault of Lockstep, please report it", exception.what())};
}

}  // namespace lockstep
