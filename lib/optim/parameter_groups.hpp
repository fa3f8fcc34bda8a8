// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/fields.hpp"
#include "core/element_range.hpp"
#include "core/execution.hpp"
#include "parameters/parameter_buffer.hpp"

namespace lockstep {

/// An entry of `optimizer.groups`: the settings that differ for parameters whose names match.
struct GroupOptions {
  std::string match;
  std::optional<double> weight_decay;
  double learning_rate_scale = 1;

  void describe(Fields& fields);
};

/// The optimizer's settings for a group of parameters.
struct GroupSettings {
  double learning_rate_scale = 1;
  double weight_decay = 0;
  bool trust_ratio = true;  ///< true if LARS and LAMB scale their steps by the trust ratio
  friend bool operator==(const GroupSettings&, const GroupSettings&) = default;
};

/// The largest number of groups; kernels hold one rule for each.
inline constexpr std::size_t most_groups = 16;

/// A trained parameter. Its blocks are consecutive.
struct TrainedParameter {
  std::int64_t first_block = 0, end_block = 0;  ///< block numbers
  std::int64_t count = 0;                       ///< number of elements
  std::int32_t group = 0;
};

/// The trained parameters, their blocks and their groups.
struct ParameterGroups {
  std::vector<GroupSettings> groups;
  std::vector<ParameterBlock> blocks;  ///< blocks that this rank owns
  std::vector<TrainedParameter> parameters;

  std::int64_t all_blocks() const { return parameters.empty() ? 0 : parameters.back().end_block; }

  /// Each parameter has the settings `usual`, changed by the first of `options` that matches its name. `exclude`:
  /// parameters of one dimension (biases and those of norms) have no trust ratio, and no decay unless an entry gives
  /// one. Throws KeyError (optimizer.groups) for patterns that match nothing, and for more than most_groups groups.
  ParameterGroups(const ParameterLayout& layout, const std::vector<GroupOptions>& options, const GroupSettings& usual,
                  bool exclude);
  /// Changes the blocks' indices from those in the flat buffers to those in `owned`.
  void stand_in(const ParameterShard& owned);
};

}  // namespace lockstep
