// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "nn/presets.hpp"

namespace lockstep {

/// Naumov et al., "Deep learning recommendation model for personalization and recommendation systems", 2019: an MLP
/// over the dense values of an example, and a row of a table for each of its categories, become vectors of `features`
/// numbers; an MLP over their dot products gives the logit of a click. An example is its dense values, and a row number
/// for each table after them.
struct RecommenderConfig : PresetConfig {
  std::int64_t dense = 13;
  std::vector<std::int64_t> vocabularies = std::vector<std::int64_t>(26, 1000);
  std::int64_t features = 16;
  std::vector<std::int64_t> bottom{512, 256, 64};
  std::vector<std::int64_t> top{512, 256};

  void describe(Fields& fields) override;
  std::string list() const override;
  std::vector<std::int64_t> input() const override { return {dense + static_cast<std::int64_t>(vocabularies.size())}; }
};

}  // namespace lockstep
