// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/model_config.hpp"

#include <algorithm>
#include <optional>
#include <string_view>

#include "nn/layer.hpp"
#include "nn/presets/presets.hpp"

namespace lockstep {
namespace {

/// Returns the text before and after the *; without a *, the whole pattern and nullopt.
std::pair<std::string_view, std::optional<std::string_view>> ends_of(std::string_view pattern) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return {pattern, std::nullopt};
  return {pattern.substr(0, star), pattern.substr(star + 1)};
}

}  // namespace

void WeightsConfig::describe(Fields& fields) {
  fields.path("file", file, "HDF5 file with the parameters, such as a checkpoint", Presence::required);
  static constexpr std::string_view matches[] = {"strict", "shapes"};
  fields.choice("match", match, matches,
                "strict: the file and the network must have the same parameters; shapes: only parameters whose name "
                "and shape match are taken, and the log lists the others");
  fields.text_pairs("rename", rename,
                    "names of parameters in the file and their names in the network, as `{\"encoder/*\": \"body/*\"}`, "
                    "where `*` stands for any text; the first pattern that matches a name applies");
  fields.texts("freeze", freeze,
               "layers that are not trained, as `[conv1, \"body*\"]`, where `*` stands for any text; a frozen "
               "batch_norm normalizes by its running statistics");
  static constexpr std::string_view layouts[] = {"auto", "NCHW", "NHWC"};
  fields.choice("layout", layout, layouts,
                "order in which the file's network flattens images or sequences: NHWC as Lockstep does, or NCHW as "
                "PyTorch does for images and the sequences of its Conv1d (the parameters of the next layers are then "
                "permuted); auto: NHWC for Lockstep's checkpoints; other files need this key where the order matters");
  for (const auto& [from, to] : rename) {
    const auto stars = std::ranges::count(from, '*');
    fields.check(stars <= 1 && stars == std::ranges::count(to, '*'), "rename",
                 fmt::format("'{}' → '{}': the two patterns must have one * each, or none; correct them", from, to));
  }
}

std::string WeightsConfig::renamed(const std::string& name) const {
  for (const auto& [from, to] : rename) {
    const auto [begin, end] = ends_of(from);
    if (!end) {
      if (name == from) return to;
      continue;
    }
    if (name.size() < begin.size() + end->size() || !name.starts_with(begin) || !name.ends_with(*end)) continue;
    const auto [new_begin, new_end] = ends_of(to);
    return fmt::format("{}{}{}", new_begin, name.substr(begin.size(), name.size() - begin.size() - end->size()),
                       *new_end);
  }
  return name;
}

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
