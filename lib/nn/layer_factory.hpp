// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <span>

#include "nn/layer.hpp"

namespace lockstep {

/// Every type of layer that a deck can name. A new layer is one line of this table.
std::span<const Alternative> layer_alternatives();

/// An entry for presets: a layer type with its config, name and inputs.
ListItem layer_item(std::string type, std::shared_ptr<LayerConfig> config, std::string name = "",
                    std::vector<std::string> from = {});

}  // namespace lockstep
