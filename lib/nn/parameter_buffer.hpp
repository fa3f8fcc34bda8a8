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
  ParameterSpec::Kind kind;
  std::uint64_t number;  ///< from the network's input on; separates random streams
};

/// All parameters of a network and their places in the flat buffer, `dtype` being that of the
/// activations; allocates nothing.
std::vector<Parameter> plan_parameters(const Graph& graph, DType dtype);
/// Of the gradients of all of them.
std::size_t gradient_bytes(const Graph& graph, DType dtype);

/// All parameters in one allocation and all gradients in another, of the last layer first: in the
/// order in which a backward pass makes gradients final. So a bucket of a reduction is a range, and
/// an optimizer step is one kernel. What layers keep as statistics comes after all that is trained,
/// and what is to be added to them stands in the gradients' buffer; what is frozen comes last, and has no gradients.
/// Parameters begin at multiples of 64 bytes; the gaps are zero. All are of master_dtype; beside 16-bit activations
/// there is a rounded copy, which the large products read.
class ParameterBuffer {
 public:
  /// `dtype`: of the activations. `gradient_memory`: of gradient_bytes; empty: the gradients get their own.
  ParameterBuffer(const Graph& graph, DType dtype, const Buffer& gradient_memory = {});

  DType dtype() const { return master_; }
  std::int64_t size() const { return size_; }  ///< in elements, gaps included
  std::int64_t trained_size() const { return trained_size_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }

  Tensor values() const { return values_.tensor(0, master_, {size_}); }
  /// All that is summed over ranks: gradients, and what is to be added to statistics.
  Tensor gradients() const {
    return gradients_.tensor(0, master_, {static_cast<std::int64_t>(gradients_.size() / size_of(master_))});
  }
  Tensor trained_values() const { return values_.tensor(0, master_, {trained_size_}); }
  Tensor trained_gradients() const { return gradients_.tensor(0, master_, {trained_size_}); }
  /// The trained values in 16 bits; empty when activations are of master_dtype.
  Tensor rounded() const { return rounds() ? rounded_.tensor(0, dtype_, {trained_size_}) : Tensor{}; }
  Tensor values(const Parameter& parameter) const { return slice(values_, parameter); }
  Tensor gradients(const Parameter& parameter) const { return slice(gradients_, parameter); }
  Tensor values(ParameterRange range) const {
    return values_.tensor(static_cast<std::size_t>(range.first) * size_of(master_), master_, {range.count});
  }
  Tensor gradients(ParameterRange range) const {
    return gradients_.tensor(static_cast<std::size_t>(range.first) * size_of(master_), master_, {range.count});
  }

  /// Views for the layers, in the order of their ParameterSpecs.
  const std::vector<Tensor>& values_of(std::size_t node) const { return node_values_[node]; }
  const std::vector<Tensor>& gradients_of(std::size_t node) const { return node_gradients_[node]; }
  /// Views of one layer's parameters, but for its statistics, as the large products read them.
  const std::vector<Tensor>& weights_of(std::size_t node) const { return node_weights_[node]; }
  /// Everything trained of one layer; empty for layers without.
  ParameterRange range_of(std::size_t node) const { return node_ranges_[node]; }
  /// All statistics.
  ParameterRange statistics_range() const { return {trained_size_, summed_size_ - trained_size_}; }

  void initialize(const ExecSpace& space, std::uint64_t seed);
  /// To be called when values were written by anybody but the optimizer.
  void round(const ExecSpace& space);
  /// Adds to the statistics what a backward pass has left for them, times `scale` (one over the global examples).
  void update_statistics(const ExecSpace& space, double scale);

 private:
  bool rounds() const { return dtype_ != master_; }
  Tensor slice(const Buffer& buffer, const Parameter& parameter) const;

  DType dtype_, master_;
  std::vector<Parameter> parameters_;
  std::int64_t trained_size_ = 0, summed_size_ = 0, size_ = 0;  ///< summed: trained, and statistics
  Buffer values_;
  Buffer gradients_;
  Buffer rounded_;
  std::vector<std::vector<Tensor>> node_values_;
  std::vector<std::vector<Tensor>> node_gradients_;
  std::vector<std::vector<Tensor>> node_weights_;
  std::vector<ParameterRange> node_ranges_;
};

}  // namespace lockstep
