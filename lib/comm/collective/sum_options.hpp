// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>

#include "core/dtype.hpp"

namespace lockstep {

struct Algorithm;

/// How sums over ranks are made.
struct SumOptions {
  const Algorithm* all_reduce = nullptr;     ///< null: the fastest
  DType wire = DType::f32;                   ///< type of numbers in messages (collective.hpp)
  const Algorithm* between_nodes = nullptr;  ///< message-based algorithm of hierarchical sums; null: the fastest
  std::optional<std::int64_t> leaders;       ///< ranks of each node that sum between nodes; empty: as many as help
};

}  // namespace lockstep
