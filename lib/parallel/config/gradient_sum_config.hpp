// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "comm/collective/algorithm.hpp"
#include "config/fields.hpp"

namespace lockstep {

/// The keys of the deck's `parallel` section that say how gradients are summed over ranks.
struct GradientSumConfig {
  enum class Overlap { automatic, none, poll, thread };
  enum class Wire { fp32, bf16, fp16 };

  double bucket_mb = 25;
  const Algorithm* all_reduce = nullptr;     ///< null: auto
  std::string all_reduce_table;              ///< path; empty: none
  const Algorithm* between_nodes = nullptr;  ///< between the leaders of nodes; null: auto
  std::optional<std::int64_t> leaders;       ///< none: as many as help
  Wire wire = Wire::fp32;
  Overlap overlap = Overlap::automatic;

  SumOptions options() const;
  void describe(Fields& fields);
};

}  // namespace lockstep
