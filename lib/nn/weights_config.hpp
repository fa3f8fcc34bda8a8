// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "config/fields.hpp"

namespace lockstep {

/// The deck's model.weights: parameters of a file to start with.
struct WeightsConfig {
  enum class Match { strict, shapes };
  enum class Layout { automatic, nchw, nhwc };

  bool present = false;
  std::string file;
  Match match = Match::strict;
  std::vector<std::pair<std::string, std::string>> rename;  ///< of the file → of the network
  std::vector<std::string> freeze;                          ///< see Graph::freeze
  Layout layout = Layout::automatic;

  void describe(Fields& fields);

  /// The network's name for what the file calls `name`: "encoder/weight". The first pattern that fits counts.
  std::string renamed(const std::string& name) const;
};

}  // namespace lockstep
