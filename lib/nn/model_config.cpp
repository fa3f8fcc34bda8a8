// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/model_config.hpp"

#include "nn/layer_factory.hpp"
#include "nn/presets.hpp"

namespace lockstep {

void ModelConfig::describe(Fields& fields) {
  fields.one_of("preset", preset, preset_config, preset_alternatives(),
                "a network known by name; its options stand beside it");
  fields.list_of("layers", layers, layer_alternatives(), "the network layer by layer");
  if (!preset.empty() && input.empty()) input = dynamic_cast<const PresetConfig&>(*preset_config).input();
  fields.integers(
      "input", input, {1, 1e9},
      "shape of one example, as [28, 28, 1]; data of another shape are refused (of presets the one that they are "
      "known for, of layers the data's, when not given)");
  fields.check(input.size() <= 4, "input",
               "has more than four dimensions; give [features], [positions, channels], [height, width, channels] or "
               "[depth, height, width, channels]");
  fields.optional_section(
      "weights", weights.present, [this](Fields& section) { weights.describe(section); }, "parameters to start with",
      "file");
  static constexpr std::string_view checkpointings[] = {"none", "blocks"};
  fields.choice(
      "activation_checkpointing", checkpointing, checkpointings,
      "blocks: keeps only the activations between blocks of layers, and computes the others again in the backward "
      "pass (the same numbers, less memory, up to a third more time)");
  static constexpr std::string_view networks[] = {"preset", "layers"};
  fields.need(Needs::exactly_one, networks, "the network would have no layers");
}

std::vector<ListItem> ModelConfig::resolved_layers() const {
  return preset.empty() ? layers : dynamic_cast<const PresetConfig&>(*preset_config).layers();
}

}  // namespace lockstep
