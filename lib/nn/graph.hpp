// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "nn/layer.hpp"

namespace lockstep {

/// The network as it is computed, with inputs resolved and shapes inferred.
struct GraphNode {
  static constexpr int data = -1;  ///< the input that stands for the examples themselves

  std::string name;
  std::unique_ptr<Layer> layer;
  std::vector<int> inputs;  ///< indices of earlier nodes, or `data`
  std::vector<Shape> input_shapes;
  Shape shape;  ///< of one example's output
  std::vector<ParameterSpec> parameters;
  bool view = false;         ///< shares its input's memory, and never runs
  std::uint64_t number = 0;  ///< place in the deck
  std::size_t readers = 0;   ///< how many inputs of later nodes it is
  bool frozen = false;       ///< its parameters stay as they are
  bool lends = false;        ///< a later layer has its parameter, too (ParameterSpec::tied_to)
};

/// Layers in the order in which they can be computed: the deck's, but that a layer that has taken over a
/// later addition stands where that addition stood.
class Graph {
 public:
  /// Throws DeckError at the layer that does not fit. `input` is the shape of one example.
  Graph(std::span<const ListItem> layers, const Shape& input);

  std::vector<GraphNode>& nodes() { return nodes_; }
  const std::vector<GraphNode>& nodes() const { return nodes_; }
  const Shape& input_shape() const { return input_shape_; }
  const Shape& output_shape() const { return nodes_.back().shape; }
  std::int64_t parameter_count() const;

  /// Freezes the layers whose names, or all whose parameters' names ("conv1/weight"), match one of the patterns (of the
  /// shell: * stands for anything). Throws KeyError(`key`) for a pattern that matches none, or a part of a layer, and
  /// if nothing is left to train.
  /// A layer and what it is tied to are frozen both or neither.
  void freeze(std::span<const std::string> patterns, const std::string& key);
  /// For each number of an example: how many rows the table has of which it is a row number; 0: it is none. Empty: none
  /// is. Followed through views and slices.
  std::vector<std::int64_t> tables_of_data() const;
  /// For each node: whether it takes part in the backward pass, because something in it or before it is trained.
  std::vector<bool> needs_gradient() const;

 private:
  /// Names and types of the nodes so far: a search through thousands of layers for each of them would take its time.
  struct Names {
    std::unordered_map<std::string, int> places, of_type;
  };
  void add_node(const ListItem& item, Names& names);
  /// Finds what a parameter is tied to.
  void tie(const ParameterSpec& parameter, const Names& names);
  void refuse_unused(std::span<const ListItem> layers) const;
  void fuse_additions();
  void fuse_activations();
  void move(std::size_t from, std::size_t to);
  /// Whether a node, and no more than one, reads `node`.
  bool read_once(int node) const;

  Shape input_shape_;
  std::vector<GraphNode> nodes_;
};

}  // namespace lockstep
