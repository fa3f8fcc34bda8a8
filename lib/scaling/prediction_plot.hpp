// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <span>
#include <string>

#include "scaling/prediction.hpp"

namespace lockstep {

/// Draws the time of a step over ranks, and perfect scaling, into an SVG file. Throws Error(cannot_create).
void write_prediction_plot(const std::string& file, const std::string& machine,
                           std::span<const Prediction> predictions);

}  // namespace lockstep
