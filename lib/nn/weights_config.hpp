// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "config/fields.hpp"

namespace lockstep {

/// The deck's model.weights: a file whose parameters the network starts with.
struct WeightsConfig {
  enum class Match { strict, shapes };
  enum class Layout { automatic, nchw, nhwc };

  bool present = false;
  std::string file;
  Match match = Match::strict;
  std::vector<std::pair<std::string, std::string>> rename;  ///< pairs (name in the file, name in the network)
  std::vector<std::string> freeze;                          ///< see Graph::freeze
  Layout layout = Layout::automatic;

  void describe(Fields& fields);

  /// The network's name for the parameter that the file calls `name`, as in "encoder/weight". The first matching
  /// pattern applies.
  std::string renamed(const std::string& name) const;
};

}  // namespace lockstep
