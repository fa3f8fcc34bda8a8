// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>

namespace lockstep {

/// Means over examples.
struct Metrics {
  double loss = 0;
  std::optional<double> accuracy;  ///< of classes only; of a sequence: the fraction of its tokens
};

/// What curves show of a step.
struct StepNumbers {
  Metrics metrics;
  double gradient_norm = 0;  ///< of the mean gradient
};

}  // namespace lockstep
