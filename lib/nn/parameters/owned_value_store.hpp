// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep {

/// Holds the values that a rank owns if they are not in device memory. Values have the master type, and are
/// addressed by their position among all values that the rank owns (ParameterShard::value_at). All functions throw
/// io_error if they fail.
class OwnedValueStore {
 public:
  virtual ~OwnedValueStore() = default;

  /// Starts copying values to host memory, concurrently with the step. Of values that an optimizer update is working
  /// on, the new ones are copied if the update is done with them. `to` must not be used until has_fetched().
  virtual void start_fetch(std::int64_t first, std::int64_t count, std::byte* to) = 0;
  /// True if all fetches that were started are complete.
  virtual bool has_fetched() = 0;

  // Copy values at once. Must not be called during an update.
  virtual void read(std::int64_t first, std::int64_t count, std::byte* to) const = 0;
  virtual void write(std::int64_t first, std::int64_t count, const std::byte* from) const = 0;
};

}  // namespace lockstep
