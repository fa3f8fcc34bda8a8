// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/experiment/starting_weights.hpp"

#include <fmt/ranges.h>
#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <optional>
#include <ranges>
#include <utility>

#include "base/log.hpp"
#include "base/text.hpp"
#include "checkpoint/training_arrays.hpp"
#include "run/deck/deck_changes.hpp"
#include "run/deck/deck_values.hpp"
#include "run/experiment/provenance.hpp"

namespace lockstep {
namespace {

const std::string prefix = "/model/";

/// How values come from a flatten whose element order matters, or from a reshape that acts as one. The flattened shape
/// is [H, W, C], [T, C] or [D, H, W, C] with several places and channels.
struct Flattened {
  std::optional<Shape> image;  ///< the values are a flatten of this shape, element by element
  bool mixed = false;          ///< the values were joined with others, added to others, or reshaped since
  bool moved = false;          ///< the channels may not be the last extent, so that a flatten of the values cannot be
                               ///< followed

  explicit operator bool() const { return image || mixed; }
  friend bool operator==(const Flattened&, const Flattened&) = default;
};

/// Whether channels-first and channels-last are two different orders of values of this shape.
bool has_two_orders(const Shape& shape) { return shape[-1] > 1 && shape[-1] < shape.count(); }

/// Whether each output depends on all values of an example.
bool mixes(const GraphNode& node) {
  return node.shape.rank() == 1 && !node.parameters.empty() && node.parameters[0].shape.rank() == 2;  // a linear layer
}

Flattened read_by(const GraphNode& node, const std::vector<Flattened>& written) {
  std::optional<Flattened> all;
  for (const int input : node.inputs) {
    const Flattened one = input == GraphNode::data ? Flattened() : written[static_cast<std::size_t>(input)];
    if (!all) all = one;
    if (*all != one) all = *all || one ? Flattened{.mixed = true} : Flattened{.moved = true};
  }
  // In a network with channels first, the groups would hold other values.
  return all->image && node.layer->type() == "group_norm" ? Flattened{.mixed = true} : *all;
}

/// Whether the node merges places and channels into one extent, or into others. A vector that becomes an image counts
/// too: with channels first, its values would be other pixels.
bool crosses_channels(const GraphNode& node) {
  const std::string_view type = node.layer->type();
  if (type != "flatten" && type != "reshape" && type != "patchify") return false;
  const Shape& input = node.input_shapes[0];
  return node.shape[-1] != input[-1] && has_two_orders(input.rank() == 1 ? node.shape : input);
}

/// Whether the last extent of the output may be another extent of the input.
bool moves_channels(const GraphNode& node) {
  const std::string_view type = node.layer->type();
  return type == "permute" || type == "sum" || type == "mean";
}

Flattened written_by(const GraphNode& node, const Flattened& read) {
  const Shape& input = node.input_shapes[0];
  if (mixes(node)) return {};
  if (read) return node.shape == input ? read : Flattened{.mixed = true};
  if (crosses_channels(node))
    return node.shape.rank() == 1 && !read.moved ? Flattened{.image = input} : Flattened{.mixed = true};
  return {.moved = node.shape.rank() > 1 && (read.moved || moves_channels(node))};
}

/// Returns, for each node, how the values that it reads come from a flatten.
std::vector<Flattened> flattened_inputs(const Graph& graph) {
  std::vector<Flattened> read, written;
  for (const GraphNode& node : graph.nodes()) {
    read.push_back(read_by(node, written));
    written.push_back(written_by(node, read.back()));
  }
  return read;
}

/// Whether the parameter has a value, or a column, for each value that its layer reads.
bool has_one_for_each_input(const GraphNode& node, const Parameter& parameter) {
  return node.parameters[0].shape.rank() != 2 || parameter.shape.rank() == 2;
}

/// Permutes columns from the order channel, row, column of an image to row, column, channel; likewise for sequences and
/// volumes.
NamedArray channels_last(const NamedArray& array, const Shape& image) {
  const std::int64_t channels = image[-1], inputs = image.count(), pixels = inputs / channels;
  validate(array.shape[-1] == inputs, ExitStatus::internal,
           "{}: {} columns cannot be permuted as a flatten of {} (it has {} values); please report this", array.name,
           array.shape[-1], to_string(image), inputs);
  const std::size_t element = size_of(array.dtype);
  const std::shared_ptr<std::byte[]> data(new std::byte[array.bytes()]);
  const auto at = [&](auto* values, std::int64_t i) { return values + static_cast<std::size_t>(i) * element; };
  for (std::int64_t row = 0; row < array.shape.count() / inputs; ++row)
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t p = 0; p < pixels; ++p)
        std::memcpy(at(data.get(), row * inputs + p * channels + c),
                    at(array.data.get(), row * inputs + c * pixels + p), element);
  NamedArray permuted = array;
  permuted.data = data;
  return permuted;
}

/// Advice on what to write as model.weights.layout.
std::string_view advice_for(const Flattened& values) {
  if (!values.image) return "give NHWC if it had them in the order of this network";
  if (values.image->rank() == 2)
    return "give NCHW after PyTorch's Conv1d (N×C×T), or NHWC after its LSTM, Embedding or attention (N×T×C)";
  return "give NCHW for a network with channels first, such as PyTorch's, or NHWC";
}

std::string listed(const std::string& title, const std::vector<std::string>& names) {
  return names.empty() ? "" : fmt::format("\n  {}: {}", title, fmt::join(names, ", "));
}

}  // namespace

ParameterFile read_weights(const WeightsConfig& config) {
  require_file_of("model.weights.file", config.file);
  return read_parameters(config.file);
}

ChosenWeights choose_weights(const WeightsConfig& config, const ParameterFile& file, const Graph& graph,
                             const std::vector<Parameter>& parameters) {
  using Layout = WeightsConfig::Layout;
  std::vector<NamedArray> arrays = file.arrays;
  for (NamedArray& array : arrays) array.name = prefix + config.renamed(array.name.substr(prefix.size()));
  if (config.match == WeightsConfig::Match::strict) check_arrays(arrays, "/model", config.file, parameters);

  const std::vector<Flattened> flattened = flattened_inputs(graph);
  ChosenWeights chosen;
  for (const Parameter& parameter : parameters) {
    const auto found = std::ranges::find(arrays, prefix + parameter.name, &NamedArray::name);
    if (found == arrays.end()) {
      chosen.left.push_back(parameter.name);
      continue;
    }
    if (found->shape != parameter.shape) {
      chosen.left.push_back(
          fmt::format("{} ({}; {} in the file)", parameter.name, to_string(parameter.shape), to_string(found->shape)));
      arrays.erase(found);
      continue;
    }
    check_arrays({*found}, "/model", config.file, {parameter});
    const GraphNode& node = graph.nodes()[parameter.node];
    const Flattened& values = flattened[parameter.node];
    if (values && !file.is_checkpoint() && has_one_for_each_input(node, parameter)) {
      validate_key(
          config.layout != Layout::automatic, "model.weights.layout",
          "must be given ({} is not a checkpoint of Lockstep, and layer '{}' reads {}, whose order in the file's "
          "network is not known); {}",
          config.file, node.name,
          values.image ? "a flatten of " + to_string(*values.image) : "values of a flatten or reshape",
          advice_for(values));
      validate_key(
          config.layout == Layout::nhwc || !values.mixed, "model.weights.layout",
          "NCHW cannot be followed to layer '{}' (its values from a flatten or reshape are concatenated with others, "
          "added to others, grouped, reshaped or permuted); bring its parameters in {}, or those before the reshape, "
          "into this network's order, and give NHWC",
          node.name, config.file);
      if (config.layout == Layout::nchw) *found = channels_last(*found, *values.image);
    }
    chosen.taken.push_back(std::move(*found));
    arrays.erase(found);
  }
  for (const NamedArray& array : arrays) chosen.unused.push_back(array.name.substr(prefix.size()));
  validate(!chosen.taken.empty(), ExitStatus::bad_data,
           "{}: none of its parameters has the name and shape of a parameter of the network (the file holds {}); see "
           "model.weights.rename, and `lockstep check` for the network's names",
           config.file, fmt::join(chosen.unused, ", "));
  const auto frozen = std::ranges::count_if(graph.nodes(), [](const GraphNode& node) { return node.frozen; });
  chosen.text = fmt::format("{}: {} of {} parameters loaded", config.file, chosen.taken.size(), parameters.size()) +
                (frozen > 0 ? fmt::format("; {} frozen", counted(frozen, "layer")) : "") +
                listed("left at their initial values", chosen.left) + listed("unused in the file", chosen.unused);
  return chosen;
}

void warn_of_other_network(const std::map<std::string, std::string>& texts, const std::string& file, RunConfig config) {
  constexpr std::size_t most = 8;
  std::vector<std::string> named;
  for (const DeckChange& change : changes_since(texts, write_config(config))) {
    const bool of_network = std::ranges::any_of(
        std::initializer_list<const char*>{"model", "data.normalize", "data.scale", "loss"},
        [&](const char* section) { return is_below(change.key, section); });
    if (!of_network || change.effect != DeckChange::Effect::training || is_below(change.key, "model.weights")) continue;
    named.push_back(fmt::format("{} was {} and is {} in this deck", change.key, change.was, change.is));
  }
  if (named.empty()) return;
  warn("{}: its parameters were trained otherwise: {}{}; give what they were trained with, unless the change is meant",
       file, fmt::join(named | std::views::take(most), ", "), named.size() > most ? ", …" : "");
}

void warn_of_trained_examples(const std::map<std::string, std::string>& texts, const std::string& file,
                              const RunConfig& config) {
  const auto deck = texts.find("deck");
  if (deck == texts.end()) return;
  try {
    const RunConfig run = read_run_config(parse_deck(deck->second, file));
    const DataConfig &was = run.data, &is = config.data;
    if (is.validation == 0 || was.file != is.file) return;
    // A smaller fraction of the same seed is a part of a larger one.
    if (is.validation_seed == was.validation_seed && is.validation <= was.validation) return;
    warn(
        "{}: was trained on examples that this run validates on (data.validation was {} with validation_seed {}); keep "
        "both keys",
        file, was.validation, was.validation_seed);
  } catch (const Error&) {  // the deck is of another version
  }
}

void load_parameters(const ExecSpace& space, const WeightsConfig& config, const std::string& file,
                     const ParameterFile& stored, const Graph& graph, ParameterBuffer& parameters) {
  WeightsConfig all = config;
  all.file = file;
  all.match = WeightsConfig::Match::strict;
  if (stored.is_checkpoint()) all.rename.clear();
  set_parameters(space, choose_weights(all, stored, graph, parameters.parameters()).taken, parameters);
}

std::vector<NamedArray> initialize_parameters(const RunConfig& config, Model& model) {
  const ExecSpace space;
  ParameterBuffer& parameters = model.parameters();
  parameters.initialize(space, static_cast<std::uint64_t>(config.run.seed));
  const WeightsConfig& weights = config.model.weights;
  if (!weights.present) return {};
  auto [chosen, texts] = with_positions(config.source, [&] {
    ParameterFile file = read_weights(weights);
    return std::pair(choose_weights(weights, file, model.graph(), parameters.parameters()), std::move(file.texts));
  });
  set_parameters(space, chosen.taken, parameters);
  log("{}", chosen.text);
  warn_of_other_network(texts, weights.file, config);
  warn_of_trained_examples(texts, weights.file, config);
  return std::move(chosen.taken);
}

void initialize_other_ranks(const RunConfig& config, Model& model, std::vector<NamedArray> weights,
                            const Communicator& comm) {
  ParameterBuffer& parameters = model.parameters();
  if (comm.size() == 1 || !parameters.windows().division.values) return;
  const ExecSpace space;
  comm.run_collectively([&] {
    if (!comm.is_root()) parameters.initialize(space, static_cast<std::uint64_t>(config.run.seed));
  });
  weights.resize(static_cast<std::size_t>(comm.from_root(std::ssize(weights))));
  for (NamedArray& array : weights) {  // other ranks have one at a time
    comm.broadcast(array.name);
    array.dtype = static_cast<DType>(comm.from_root(static_cast<std::int64_t>(array.dtype)));
    array.shape = {comm.from_root(array.shape.count())};
    std::shared_ptr<std::byte[]> numbers;
    comm.run_collectively([&] {
      numbers = std::make_shared_for_overwrite<std::byte[]>(array.bytes());
      if (comm.is_root()) std::memcpy(numbers.get(), array.data.get(), array.bytes());
    });
    comm.broadcast(std::span(numbers.get(), array.bytes()));
    array.data = std::move(numbers);
    comm.run_collectively([&] {
      if (!comm.is_root()) set_parameters(space, {array}, parameters);
    });
    array.data = nullptr;
  }
}

void initialize_on_all_ranks(const RunConfig& config, Model& model, const Communicator& comm) {
  std::vector<NamedArray> weights;
  comm.run_on_root([&] { weights = initialize_parameters(config, model); });
  initialize_other_ranks(config, model, std::move(weights), comm);
}

}  // namespace lockstep
