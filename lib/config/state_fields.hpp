// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Visits what a component has to remember in a checkpoint: when one is written, it takes the values; when a run goes
/// on from one, it sets them. Throws Error(bad_data) where a value is missing, or of another kind.
class StateFields {
 public:
  virtual ~StateFields() = default;

  virtual void integer(std::string_view key, std::int64_t& value) = 0;
  /// Also of numbers that are not finite.
  virtual void real(std::string_view key, double& value) = 0;
  virtual void flag(std::string_view key, bool& value) = 0;
  virtual void text(std::string_view key, std::string& value) = 0;
  virtual void reals(std::string_view key, std::vector<double>& values) = 0;

  using Describe = std::function<void(StateFields&)>;
  /// An object: what it holds has names of its own.
  virtual void section(std::string_view key, const Describe& describe) = 0;
  /// An array, of which what it holds are the entries, in their order; names within it say nothing.
  virtual void array(std::string_view key, const Describe& describe) = 0;
  /// Entries of the array that is being described; as many as `count` says when it is written.
  virtual std::int64_t length(std::int64_t count) = 0;

  /// Whether there is a value that is not null: `wanted` when one is written, else what the checkpoint holds.
  virtual bool has(std::string_view key, bool wanted = true) = 0;
  /// Values are set, not taken.
  virtual bool restores() const = 0;
};

/// A component with a state beyond parameters. The state of a run is a walk over all of them.
class Stateful {
 public:
  virtual ~Stateful() = default;
  /// Names each value once, for writing and for going on.
  virtual void describe_state(StateFields& fields) = 0;
};

}  // namespace lockstep
