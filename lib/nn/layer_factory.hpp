// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <span>

#include "nn/layer.hpp"

namespace lockstep {

/// All layer types that a deck can name. A new layer type needs one line in this table.
std::span<const Alternative> layer_alternatives();

}  // namespace lockstep
