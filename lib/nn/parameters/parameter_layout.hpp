// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nn/graph.hpp"

namespace lockstep {

/// A stretch of the flat buffer, in elements.
struct ParameterRange {
  std::int64_t first = 0;
  std::int64_t count = 0;

  std::int64_t end() const { return first + count; }
  /// What both have; nothing where its count is 0.
  ParameterRange within(const ParameterRange& other) const {
    const std::int64_t begin = std::max(first, other.first);
    return {begin, std::max<std::int64_t>(0, std::min(end(), other.end()) - begin)};
  }
  friend bool operator==(const ParameterRange&, const ParameterRange&) = default;
};

struct Parameter {
  std::string name;  ///< "conv1/weight"
  Shape shape;
  ParameterRange range;
  std::size_t node;  ///< of the graph
  Initializer initializer;
  ParameterSpec::Kind kind;
  std::uint64_t number;  ///< from the network's input on; separates random streams
};

/// Parameters, and where in a flat buffer each is, in rising order. Copies have the same ones, and take no memory.
class SharedLayout {
 public:
  SharedLayout() : SharedLayout(std::vector<Parameter>()) {}
  SharedLayout(std::vector<Parameter> parameters)
      : parameters_(std::make_shared<const std::vector<Parameter>>(std::move(parameters))) {}

  operator const std::vector<Parameter>&() const { return *parameters_; }
  auto begin() const { return parameters_->begin(); }
  auto end() const { return parameters_->end(); }
  std::size_t size() const { return parameters_->size(); }
  const Parameter& operator[](std::size_t i) const { return (*parameters_)[i]; }
  /// Elements up to the last that is something.
  std::int64_t elements() const { return parameters_->empty() ? 0 : parameters_->back().range.end(); }

 private:
  std::shared_ptr<const std::vector<Parameter>> parameters_;
};

/// The name of one of a node's parameters, or of the one that it is tied to.
std::string parameter_name(const GraphNode& node, const ParameterSpec& spec);

/// The parameters that optimizers keep states of.
std::vector<Parameter> trained_parameters(const std::vector<Parameter>& parameters);

/// Elements from the beginning of a parameter of `count` to that of the next.
std::int64_t padded_count(std::int64_t count, DType master);

/// Where the parameters of a network lie in the flat buffers, and which of them are this rank's to update. First comes
/// what is trained, the last layer first, then what layers keep as statistics, and what is frozen. Parameters begin at
/// multiples of 64 bytes, those of large layers with a block (array_block).
class ParameterLayout {
 public:
  /// `dtype`: of the activations.
  ParameterLayout(const Graph& graph, DType dtype);

  DType master() const { return master_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  // In elements, gaps included:
  std::int64_t trained_size() const { return trained_size_; }
  std::int64_t summed_size() const { return summed_size_; }  ///< trained, and statistics
  std::int64_t size() const { return size_; }
  ParameterRange statistics() const { return {trained_size_, summed_size_ - trained_size_}; }
  ParameterRange others() const { return {trained_size_, size_ - trained_size_}; }  ///< statistics, and what is frozen
  /// What is trained, cut between layers into stretches that follow each other: of at most so many megabytes, but for
  /// what large layers, and the small ones beside them, have as a whole. They begin with blocks.
  std::vector<ParameterRange> units(double megabytes) const;

  /// What is trained by this rank's optimizer, in rising order: at first all of it.
  const std::vector<ParameterRange>& owned() const { return owned_; }
  std::int64_t owned_count() const;
  /// The parameters that lie in owned() as a whole.
  std::vector<Parameter> owned_parameters() const;
  /// Of ranks that divide what is trained; one of them may own all of it. Before the optimizer is made.
  void own(std::vector<ParameterRange> ranges) {
    owned_ = std::move(ranges);
    is_divided_ = true;
  }
  bool is_divided() const { return is_divided_; }

 private:
  DType master_;
  std::vector<Parameter> parameters_;
  std::int64_t trained_size_ = 0, summed_size_ = 0, size_ = 0;
  std::vector<ParameterRange> owned_;
  bool is_divided_ = false;
};

}  // namespace lockstep
