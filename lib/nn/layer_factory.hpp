// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <span>

#include "nn/layer.hpp"

namespace lockstep {

/// Every type of layer that a deck can name. A new layer is one line of this table.
std::span<const Alternative> layer_alternatives();

}  // namespace lockstep
