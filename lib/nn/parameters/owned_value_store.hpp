// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep {

/// The values that a rank owns, where these are not in the step's memory: numbers of the master type, by their place
/// among all that it owns (OwnedParameters::value_at). What fails throws io_error.
class OwnedValueStore {
 public:
  virtual ~OwnedValueStore() = default;

  /// Copies values to memory of the host, beside the step's work; of those that an update is at, what it has made of
  /// them if it is done with them. Until has_fetched the memory is nobody else's.
  virtual void start_fetch(std::int64_t first, std::int64_t count, std::byte* to) = 0;
  /// Whether all that was to be fetched is there.
  virtual bool has_fetched() = 0;

  // At once; between updates.
  virtual void read(std::int64_t first, std::int64_t count, std::byte* to) const = 0;
  virtual void write(std::int64_t first, std::int64_t count, const std::byte* from) const = 0;
};

}  // namespace lockstep
