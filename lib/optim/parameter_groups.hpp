// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/fields.hpp"
#include "core/array_block.hpp"
#include "core/execution.hpp"
#include "nn/parameters/owned_parameters.hpp"

namespace lockstep {

/// An entry of `optimizer.groups`: what is different for parameters of these names.
struct GroupOptions {
  std::string match;
  std::optional<double> weight_decay;
  double learning_rate_scale = 1;

  void describe(Fields& fields);
};

/// What the optimizer does with some parameters.
struct GroupSettings {
  double learning_rate_scale = 1;
  double weight_decay = 0;
  bool trust_ratio = true;  ///< whether LARS and LAMB scale their steps by it
  friend bool operator==(const GroupSettings&, const GroupSettings&) = default;
};

/// Kernels hold a rule for each.
inline constexpr std::size_t most_groups = 16;

/// Neighbouring elements of one parameter, which kernels take together: what it has of one of the flat buffer's blocks.
struct ParameterBlock {
  std::int64_t first = 0;     ///< place of the first one among the values (OwnedParameters)
  std::int64_t gradient = 0;  ///< among the gradients
  std::int64_t state = 0;     ///< in the optimizer's state
  std::int64_t count = 0;     ///< up to array_block
  std::int64_t number = 0;    ///< among the blocks of all ranks
  std::int32_t group = 0;
  std::int32_t parameter = 0;  ///< among those of all ranks
};

/// A parameter that is trained: the blocks of one stand one after the other.
struct TrainedParameter {
  std::int64_t first_block = 0, end_block = 0;  ///< numbers
  std::int64_t count = 0;                       ///< elements
  std::int32_t group = 0;
};

/// What optimizers move, cut into blocks, and the groups of these.
struct ParameterGroups {
  std::vector<GroupSettings> groups;
  std::vector<ParameterBlock> blocks;  ///< that this rank owns
  std::vector<TrainedParameter> parameters;

  std::int64_t all_blocks() const { return parameters.empty() ? 0 : parameters.back().end_block; }

  /// Each parameter takes `usual`, or what the first of `options` that matches its name changes of that. `exclude`:
  /// those of one dimension, which are biases and the parameters of norms, have no decay, unless an entry gives one,
  /// and no trust ratio. Throws KeyError (optimizer.groups) for patterns that match nothing, and for more groups than
  /// most_groups.
  ParameterGroups(const ParameterLayout& layout, const std::vector<GroupOptions>& options, const GroupSettings& usual,
                  bool exclude);
  /// Blocks stand where `owned` has their elements; before, as if all were in the flat buffers.
  void stand_in(const OwnedParameters& owned);
};

}  // namespace lockstep
