// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/graph.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace lockstep {
namespace {

[[noreturn]] void refuse(const ListItem& item, const std::string& problem) {
  throw DeckError(item.config->position, item.config->path, problem);
}

}  // namespace

Graph::Graph(std::span<const ListItem> layers, const Shape& input) : input_shape_(input) {
  Names names;
  for (const auto& item : layers) add_node(item, names);
  refuse_unused(layers);
  fuse_additions();
  fuse_activations();
}

void Graph::add_node(const ListItem& item, Names& names) {
  GraphNode node;
  node.name = item.name.empty() ? fmt::format("{}_{}", item.type, names.of_type[item.type] + 1) : item.name;
  if (node.name.find('/') != std::string::npos || node.name == "." || node.name == ".." ||
      std::ranges::any_of(node.name, is_control))
    refuse(item,
           fmt::format("'{}' cannot be a layer's name (it becomes a group in HDF5 files); use letters, digits, _ or -",
                       node.name));
  constexpr std::size_t longest_name = 200;
  if (node.name.size() > longest_name)
    refuse(item, fmt::format("the layer's name has {} bytes (at most {} are allowed); give it a shorter one",
                             node.name.size(), longest_name));
  if (!names.places.emplace(node.name, static_cast<int>(nodes_.size())).second)
    refuse(item, fmt::format("the layer name '{}' is given twice; rename one of the layers", node.name));

  if (item.from.empty()) node.inputs.push_back(static_cast<int>(nodes_.size()) - 1);
  for (const auto& name : item.from) {
    const auto found = names.places.find(name);
    if (found == names.places.end() || found->second == static_cast<int>(nodes_.size())) {
      std::vector<std::string> earlier;
      for (const auto& other : nodes_) earlier.push_back(other.name);
      const std::string near = nearest(name, earlier);
      refuse(item, fmt::format("from: no earlier layer is named '{}'; {}", name,
                               near.empty() ? "name one that comes before this layer"
                                            : fmt::format("did you mean '{}'?", near)));
    }
    node.inputs.push_back(found->second);
  }
  for (const int input : node.inputs)
    node.input_shapes.push_back(input == GraphNode::data ? input_shape_
                                                         : nodes_[static_cast<std::size_t>(input)].shape);

  node.layer = dynamic_cast<const LayerConfig&>(*item.config).make_layer();
  try {
    validate(node.inputs.size() <= node.layer->traits().max_inputs, ExitStatus::bad_deck,
             "too many inputs ({} takes at most {}, but {} are named); name fewer", item.type,
             node.layer->traits().max_inputs, node.inputs.size());
    validate(node.layer->traits().vocabulary == 0 || node.inputs == std::vector<int>{GraphNode::data},
             ExitStatus::bad_deck, "{} reads tokens, but its input is another layer's output; make it the first layer",
             item.type);
    node.shape = node.layer->output_shape(node.input_shapes);
    node.parameters = node.layer->parameters(node.input_shapes);
    for (const auto& parameter : node.parameters) {
      double count = 1;  // floating-point, since the product might overflow an integer
      for (const auto extent : parameter.shape.extents()) count *= static_cast<double>(extent);
      validate(count < 1e15, ExitStatus::bad_deck,
               "its {} has {:.0e} values (more than any machine can hold); make it smaller", parameter.name, count);
      if (!parameter.tied_to.empty()) tie(parameter, names);
    }
  } catch (const Error& error) {
    refuse(item, fmt::format("layer '{}': {}", node.name, error.what()));
  }
  node.view = node.layer->traits().is_view;
  node.number = nodes_.size();
  for (const int input : node.inputs)
    if (input != GraphNode::data) ++nodes_[static_cast<std::size_t>(input)].readers;
  ++names.of_type[item.type];
  nodes_.push_back(std::move(node));
}

void Graph::tie(const ParameterSpec& parameter, const Names& names) {
  const auto found = names.places.find(parameter.tied_to);
  validate(
      found != names.places.end() && found->second < static_cast<int>(nodes_.size()), ExitStatus::bad_deck,
      "tied_to: no earlier layer is named '{}' (whose {} would be shared here); name an embedding that comes before "
      "this layer",
      parameter.tied_to, parameter.name);
  GraphNode& owner = nodes_[static_cast<std::size_t>(found->second)];
  validate(owner.layer->traits().vocabulary > 0, ExitStatus::bad_deck,
           "tied_to: '{}' has type {} (only the weight of an embedding, one row per token, can be shared); name an "
           "embedding",
           owner.name, owner.layer->type());
  const Shape& shape = owner.parameters[0].shape;
  validate(
      shape == parameter.shape, ExitStatus::bad_deck,
      "tied_to: the {} of '{}' is {}, but {} is needed here (outputs × inputs); set features to the vocabulary, and "
      "make its input as wide as the embedding",
      parameter.name, owner.name, to_string(shape), to_string(parameter.shape));
  validate(
      !owner.lends, ExitStatus::bad_deck,
      "tied_to: the {} of '{}' is already shared with another layer (only one can share it); give this layer its own",
      parameter.name, owner.name);
  owner.lends = true;
}

void Graph::refuse_unused(std::span<const ListItem> layers) const {
  for (std::size_t i = 0; i + 1 < nodes_.size(); ++i)
    if (nodes_[i].readers == 0)
      refuse(layers[i],
             fmt::format(
                 "no layer reads layer '{}' (only the last layer is the network's output); name it in a `from`, or "
                 "remove it",
                 nodes_[i].name));
}

/// An addition of two inputs becomes part of the layer that produces one of them, if that layer can take it over and no
/// other node reads that layer's output.
void Graph::fuse_additions() {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (!nodes_[i].layer->traits().is_sum || nodes_[i].inputs.size() != 2 || nodes_[i].inputs[0] == nodes_[i].inputs[1])
      continue;
    for (std::size_t k = 0; k < 2; ++k) {
      const int maker = nodes_[i].inputs[k], other = nodes_[i].inputs[1 - k];
      if (maker == GraphNode::data || nodes_[static_cast<std::size_t>(maker)].view || !read_once(maker)) continue;
      GraphNode& before = nodes_[static_cast<std::size_t>(maker)];
      if (!before.layer->fuse_addition()) continue;
      before.inputs.push_back(other);
      before.input_shapes.push_back(before.shape);
      nodes_[i].inputs = {maker};
      nodes_[i].input_shapes.resize(1);
      nodes_[i].view = true;
      move(static_cast<std::size_t>(maker), i - 1);  // both inputs now stand before it, and its readers after it
      break;
    }
  }
}

void Graph::move(std::size_t from, std::size_t to) {
  const auto place = [&](int old) {
    const auto i = static_cast<std::size_t>(old);
    if (old == GraphNode::data || i < from || i > to) return old;
    return i == from ? static_cast<int>(to) : old - 1;
  };
  const auto begin = nodes_.begin();
  std::rotate(begin + static_cast<std::ptrdiff_t>(from), begin + static_cast<std::ptrdiff_t>(from) + 1,
              begin + static_cast<std::ptrdiff_t>(to) + 1);
  for (auto& node : nodes_)
    for (int& input : node.inputs) input = place(input);
}

void Graph::fuse_activations() {
  for (auto& node : nodes_) {
    const Activation activation = node.layer->traits().activation;
    if (activation == Activation::none) continue;
    int maker = node.inputs[0];
    bool alone = read_once(maker);
    while (alone && nodes_[static_cast<std::size_t>(maker)].view &&
           nodes_[static_cast<std::size_t>(maker)].layer->traits().is_sum) {
      maker = nodes_[static_cast<std::size_t>(maker)].inputs[0];  // the layer that has taken over the addition
      alone = read_once(maker);
    }
    if (!alone) continue;
    GraphNode& before = nodes_[static_cast<std::size_t>(maker)];
    if (!before.view && before.layer->fuse(activation)) node.view = true;
  }
}

bool Graph::read_once(int node) const {
  return node != GraphNode::data && nodes_[static_cast<std::size_t>(node)].readers == 1;
}

std::int64_t Graph::parameter_count() const {
  std::int64_t count = 0;
  for (const auto& node : nodes_)
    for (const auto& parameter : node.parameters)
      if (parameter.tied_to.empty()) count += parameter.shape.count();
  return count;
}

std::vector<LayerSpecs> Graph::layer_specs() const { return std::vector<LayerSpecs>(nodes_.begin(), nodes_.end()); }

void Graph::freeze(std::span<const std::string> patterns, const std::string& key) {
  for (const std::string& pattern : patterns) {
    bool found = false;
    for (GraphNode& node : nodes_) {
      if (node.parameters.empty()) continue;
      const auto count = static_cast<std::size_t>(std::ranges::count_if(
          node.parameters,
          [&](const ParameterSpec& spec) { return matches_pattern(pattern, node.name + "/" + spec.name); }));
      if (count == 0 && !matches_pattern(pattern, node.name)) continue;
      validate_key(count == 0 || count == node.parameters.size(), key,
                   "'{}' matches {} of the {} parameters of layer '{}' (a layer is frozen as a whole); write '{}/*'",
                   pattern, count, node.parameters.size(), node.name, node.name);
      found = node.frozen = true;
      node.layer->freeze();
    }
    validate_key(found, key, "'{}' matches no layer with parameters; `lockstep check` lists their names", pattern);
  }
  for (const GraphNode& node : nodes_)
    for (const ParameterSpec& spec : node.parameters) {
      if (spec.tied_to.empty()) continue;
      const GraphNode& owner = *std::ranges::find(nodes_, spec.tied_to, &GraphNode::name);
      validate_key(node.frozen == owner.frozen, key,
                   "freezes '{}' but not '{}' (they share their {} through tied_to); name both or neither",
                   node.frozen ? node.name : owner.name, node.frozen ? owner.name : node.name, spec.name);
    }
  validate_key(patterns.empty() || needs_gradient().back(), key,
               "no parameters are left to train; freeze fewer layers");
}

std::vector<std::int64_t> Graph::tables_of_data() const {
  std::vector<std::int64_t> tables;
  for (const GraphNode& node : nodes_) {
    const auto own = node.layer->traits().tables;
    if (own.empty()) continue;
    std::int64_t first = 0;
    int input = node.inputs[0];
    while (input != GraphNode::data) {
      const GraphNode& before = nodes_[static_cast<std::size_t>(input)];
      const auto offset = before.layer->traits().is_view ? 0 : before.layer->contiguous_offset(before.input_shapes[0]);
      if (!offset) break;
      first += *offset;
      input = before.inputs[0];
    }
    if (input != GraphNode::data) continue;
    tables.resize(static_cast<std::size_t>(input_shape_.count()));
    std::ranges::copy(own, tables.begin() + first);
  }
  return tables;
}

std::vector<bool> Graph::needs_gradient() const {
  std::vector<bool> needs;
  for (const GraphNode& node : nodes_)
    needs.push_back((!node.frozen && std::ranges::any_of(node.parameters,
                                                         [](const ParameterSpec& spec) {
                                                           return spec.kind == ParameterSpec::Kind::trained;
                                                         })) ||
                    std::ranges::any_of(node.inputs, [&](int input) {
                      return input != GraphNode::data && needs[static_cast<std::size_t>(input)];
                    }));
  return needs;
}

}  // namespace lockstep
