// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/model_config.hpp"

#include "nn/layer_factory.hpp"
#include "nn/presets.hpp"

namespace lockstep {

void ModelConfig::describe(Fields& fields) {
  fields.one_of("preset", preset, preset_config, preset_alternatives(),
                "name of a well-known network, whose options stand next to this key (give either preset or layers)");
  fields.list_of("layers", layers, layer_alternatives(), "the network layer by layer (give either preset or layers)");
  if (!preset.empty() && input.empty()) input = dynamic_cast<const PresetConfig&>(*preset_config).input();
  fields.integers("input", input, {1, 1e9},
                  "shape of one example, as [28, 28, 1]; data of another shape are refused (when not given: the "
                  "preset's usual shape, or for layers that of the data)");
  fields.check(input.size() <= 4, "input",
               "has more than four dimensions; give [features], [positions, channels], [height, width, channels] or "
               "[depth, height, width, channels]");
  fields.optional_section(
      "weights", weights.present, [this](Fields& section) { weights.describe(section); },
      "Initial parameters from a file, in place of random ones", "file");
  static constexpr std::string_view checkpointings[] = {"none", "blocks"};
  fields.choice("activation_checkpointing", checkpointing, checkpointings,
                "none: all activations are kept for the backward pass; blocks: only those between blocks of layers are "
                "kept, and the others are computed again in the backward pass (the same results with less memory, in "
                "up to a third more time)");
  static constexpr std::string_view networks[] = {"preset", "layers"};
  fields.need(Needs::exactly_one, networks, "the network would have no layers");
}

std::vector<ListItem> ModelConfig::resolved_layers() const {
  return preset.empty() ? layers : dynamic_cast<const PresetConfig&>(*preset_config).layers();
}

}  // namespace lockstep
