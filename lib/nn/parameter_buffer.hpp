// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/tensor.hpp"
#include "nn/graph.hpp"

namespace lockstep {

/// A stretch of the flat buffer, in elements.
struct ParameterRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

struct Parameter {
  std::string name;  ///< "conv1/weight"
  Shape shape;
  ParameterRange range;
  std::size_t node;  ///< of the graph
  Initializer initializer;
};

/// All parameters of a network and their places in the flat buffer; allocates nothing.
std::vector<Parameter> plan_parameters(const Graph& graph, DType dtype);

/// All parameters in one allocation and all gradients in another, of the last layer first: in the
/// order in which a backward pass makes gradients final. So a bucket of a reduction is a range, and
/// an optimizer step is one kernel. Parameters begin at multiples of 64 bytes; the gaps are zero.
class ParameterBuffer {
 public:
  ParameterBuffer(const Graph& graph, DType dtype);

  DType dtype() const { return dtype_; }
  std::int64_t size() const { return size_; }  ///< in elements, gaps included
  const std::vector<Parameter>& parameters() const { return parameters_; }

  Tensor values() const { return values_.tensor(0, dtype_, {size_}); }
  Tensor gradients() const { return gradients_.tensor(0, dtype_, {size_}); }
  Tensor values(const Parameter& parameter) const { return slice(values_, parameter); }
  Tensor gradients(const Parameter& parameter) const { return slice(gradients_, parameter); }

  /// Views for the layers, in the order of their ParameterSpecs.
  const std::vector<Tensor>& values_of(std::size_t node) const { return node_values_[node]; }
  const std::vector<Tensor>& gradients_of(std::size_t node) const { return node_gradients_[node]; }
  /// Everything of one layer; empty for layers without parameters.
  ParameterRange range_of(std::size_t node) const { return node_ranges_[node]; }

  void initialize(const ExecSpace& space, std::uint64_t seed);

 private:
  Tensor slice(const Buffer& buffer, const Parameter& parameter) const;

  DType dtype_;
  std::vector<Parameter> parameters_;
  std::int64_t size_;
  Buffer values_;
  Buffer gradients_;
  std::vector<std::vector<Tensor>> node_values_;
  std::vector<std::vector<Tensor>> node_gradients_;
  std::vector<ParameterRange> node_ranges_;
};

}  // namespace lockstep
