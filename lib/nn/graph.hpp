// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "nn/layer.hpp"

namespace lockstep {

/// A layer of the network as it is computed, with its inputs resolved and its shapes inferred.
struct GraphNode : LayerSpecs {
  static constexpr int data = -1;  ///< the input index that stands for the examples themselves

  std::unique_ptr<Layer> layer;
  std::vector<int> inputs;  ///< indices of earlier nodes, or `data`
  std::vector<Shape> input_shapes;
  Shape shape;               ///< shape of one example's output
  bool view = false;         ///< true if the output shares its input's memory; the layer then never runs
  std::uint64_t number = 0;  ///< position in the deck, from 0; fusions do not change it
  std::size_t readers = 0;   ///< number of inputs of later nodes that read this node
  bool lends = false;        ///< true if a later layer shares this node's parameter (ParameterSpec::tied_to)
};

/// The layers in an order in which they can be computed: the deck's order, except that a layer that has taken over a
/// later addition stands where that addition stood.
class Graph {
 public:
  /// Throws DeckError for the first layer that does not fit. `input` is the shape of one example.
  Graph(std::span<const ListItem> layers, const Shape& input);

  std::vector<GraphNode>& nodes() { return nodes_; }
  const std::vector<GraphNode>& nodes() const { return nodes_; }
  const Shape& input_shape() const { return input_shape_; }
  const Shape& output_shape() const { return nodes_.back().shape; }
  std::int64_t parameter_count() const;
  /// What each node asks for, as a ParameterLayout is planned from it.
  std::vector<LayerSpecs> layer_specs() const;

  /// Freezes each layer whose name, or the names of all of whose parameters ("conv1/weight"), match one of the shell
  /// patterns (* stands for anything). A layer and the layer that it is tied to must be frozen together. Throws
  /// KeyError(`key`) if a pattern matches nothing or only some of a layer's parameters, if only one of two tied layers
  /// is frozen, and if nothing is left to train.
  void freeze(std::span<const std::string> patterns, const std::string& key);
  /// For each number of an example: the row count of the embedding table that the number indexes, or 0 if it indexes
  /// none. Empty if the network reads no row numbers from the data. Row numbers are traced from the tables to the data
  /// through views and slices.
  std::vector<std::int64_t> tables_of_data() const;
  /// For each node: true if it takes part in the backward pass, because it or a node before it has trained parameters.
  std::vector<bool> needs_gradient() const;

 private:
  /// Indices of the nodes added so far by name, and their counts by type; spares a linear search for every layer.
  struct Names {
    std::unordered_map<std::string, int> places, of_type;
  };
  void add_node(const ListItem& item, Names& names);
  /// Checks the layer that `parameter` is tied to, and marks it as lending. Throws Error if it does not fit.
  void tie(const ParameterSpec& parameter, const Names& names);
  void refuse_unused(std::span<const ListItem> layers) const;
  void fuse_additions();
  void fuse_activations();
  void move(std::size_t from, std::size_t to);
  /// True if exactly one input of one later node reads `node`.
  bool read_once(int node) const;

  Shape input_shape_;
  std::vector<GraphNode> nodes_;
};

}  // namespace lockstep
