// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>

#include "core/dtype.hpp"

namespace lockstep {

struct Algorithm;

/// How ranks sum.
struct SumOptions {
  const Algorithm* all_reduce = nullptr;     ///< null: what is fastest
  DType wire = DType::f32;                   ///< in which numbers travel (collective.hpp)
  const Algorithm* between_nodes = nullptr;  ///< of hierarchical sums, by messages; null: what is fastest
  std::optional<std::int64_t> leaders;       ///< ranks of each node that sum between nodes; none: as many as help
};

}  // namespace lockstep
