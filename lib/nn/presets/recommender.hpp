// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "nn/presets.hpp"

namespace lockstep {

/// Naumov et al., "Deep learning recommendation model for personalization and recommendation systems", 2019. An MLP
/// maps the dense values of an example to a vector of `features` numbers, and each of its categories selects such a
/// vector from a table; an MLP over the dot products of all these vectors gives the logit of a click. An example
/// consists of its dense values followed by a row number for each table.
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
