// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Visits the state that a component keeps in a checkpoint. Writing a checkpoint reads the values; restoring one sets
/// them, and throws Error(bad_data) if a value is missing or has the wrong type.
class StateFields {
 public:
  virtual ~StateFields() = default;

  virtual void integer(std::string_view key, std::int64_t& value) = 0;
  /// A number, which need not be finite.
  virtual void real(std::string_view key, double& value) = 0;
  virtual void flag(std::string_view key, bool& value) = 0;
  virtual void text(std::string_view key, std::string& value) = 0;
  virtual void reals(std::string_view key, std::vector<double>& values) = 0;

  using Describe = std::function<void(StateFields&)>;
  /// An object with keys of its own.
  virtual void section(std::string_view key, const Describe& describe) = 0;
  /// An array. Its entries are the values that `describe` visits, in that order; their keys are ignored.
  virtual void array(std::string_view key, const Describe& describe) = 0;
  /// Returns the number of entries of the array being described: `count` when writing, the stored number when
  /// restoring.
  virtual std::int64_t length(std::int64_t count) = 0;

  /// Returns whether the value exists and is not null: `wanted` when writing, what the checkpoint holds when restoring.
  virtual bool has(std::string_view key, bool wanted = true) = 0;
  /// True when restoring: values are set, not read.
  virtual bool restores() const = 0;
};

/// A component with state beyond its parameters. The state of a run is that of all its components.
class Stateful {
 public:
  virtual ~Stateful() = default;
  /// Visits each value once; called both to write a checkpoint and to restore one.
  virtual void describe_state(StateFields& fields) = 0;
};

}  // namespace lockstep
