// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace lockstep {

/// Exit status of the process; the numbers are those of sysexits.h.
enum class ExitStatus : int {
  done = 0,
  bad_usage = 64,
  bad_data = 65,
  missing_file = 66,
  internal = 70,
  cannot_create = 73,
  io_error = 74,
  stopped_early = 75,
  rank_lost = 76,
  bad_deck = 78,
};

/// A failure that a user can understand: "where: problem (why); what to do".
class Error : public std::runtime_error {
 public:
  Error(ExitStatus status, const std::string& message) : std::runtime_error(message), status_(status) {}

  ExitStatus status() const { return status_; }

 private:
  ExitStatus status_;
};

/// An error that all ranks throw at the same place, so that one of them can report it for all.
struct SharedError : Error {
  using Error::Error;
};

inline constexpr char out_of_memory[] = "out of memory; use a smaller batch.global or batch.micro, or more ranks";

/// Converts any exception to the error shown to the user. Exhausted memory or threads, and filesystem errors, are the
/// user's to fix; any other unexpected exception is reported as a fault of Lockstep.
Error as_error(const std::exception& exception);

/// Throws `Error` unless `ok`. For mistakes that users can make, so always on; mistakes that only the code can make are
/// asserted.
template <class... Args>
void validate(bool ok, ExitStatus status, fmt::format_string<Args...> message, Args&&... args) {
  if (!ok) throw Error(status, fmt::format(message, std::forward<Args>(args)...));
}

}  // namespace lockstep
