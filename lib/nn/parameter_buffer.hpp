// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/tensor.hpp"
#include "nn/parameter_layout.hpp"

namespace lockstep {

/// Memory that parameters lie in; what is empty, they take themselves.
struct ParameterMemory {
  Buffer gradients;  ///< of ParameterLayout::gradient_bytes
  Buffer values;     ///< zeroed, as many elements as the layout has
  Buffer rounded;    ///< likewise, of 16 bits
};

/// All parameters in one allocation and all gradients in another, of the last layer first: in the
/// order in which a backward pass makes gradients final. So a bucket of a reduction is a range, and
/// an optimizer step is one kernel. What layers keep as statistics comes after all that is trained,
/// and what is to be added to them stands in the gradients' buffer; what is frozen comes last, and has no gradients.
/// Parameters begin at multiples of 64 bytes; the gaps are zero. All are of master_dtype; beside 16-bit activations
/// there is a rounded copy, which the large products read.
class ParameterBuffer {
 public:
  /// `dtype`: of the activations.
  ParameterBuffer(const Graph& graph, DType dtype, const ParameterMemory& memory = {});

  DType dtype() const { return master_; }
  const ParameterLayout& layout() const { return layout_; }
  ParameterLayout& layout() { return layout_; }
  std::int64_t size() const { return layout_.size(); }
  std::int64_t trained_size() const { return layout_.trained_size(); }
  const std::vector<Parameter>& parameters() const { return layout_.parameters(); }

  Tensor values() const { return values_.tensor(0, master_, {size()}); }
  /// All that is summed over ranks: gradients, and what is to be added to statistics.
  Tensor gradients() const {
    return gradients_.tensor(0, master_, {static_cast<std::int64_t>(gradients_.size() / size_of(master_))});
  }
  Tensor trained_values() const { return values_.tensor(0, master_, {trained_size()}); }
  Tensor trained_gradients() const { return gradients_.tensor(0, master_, {trained_size()}); }
  /// The trained values in 16 bits; empty when activations are of master_dtype.
  Tensor rounded() const { return rounds() ? rounded_.tensor(0, dtype_, {trained_size()}) : Tensor{}; }
  Tensor values(const Parameter& parameter) const { return slice(values_, parameter); }
  Tensor gradients(const Parameter& parameter) const { return slice(gradients_, parameter); }
  Tensor values(ParameterRange range) const {
    return values_.tensor(static_cast<std::size_t>(range.first) * size_of(master_), master_, {range.count});
  }
  Tensor gradients(ParameterRange range) const {
    return gradients_.tensor(static_cast<std::size_t>(range.first) * size_of(master_), master_, {range.count});
  }

  /// Views for the layers, in the order of their ParameterSpecs. Layers that are tied see the same memory.
  const std::vector<Tensor>& values_of(std::size_t node) const { return node_values_[node]; }
  const std::vector<Tensor>& gradients_of(std::size_t node) const { return node_gradients_[node]; }
  /// Views of one layer's parameters, but for its statistics, as the large products read them.
  const std::vector<Tensor>& weights_of(std::size_t node) const { return node_weights_[node]; }
  /// The stretch of one layer's own trained parameters; empty for layers without.
  ParameterRange range_of(std::size_t node) const { return node_ranges_[node]; }
  /// The first element of a layer's parameters, those that it is tied to included; size() for layers without.
  std::int64_t first_of(std::size_t node) const { return node_first_[node]; }
  /// All statistics.
  ParameterRange statistics_range() const { return {trained_size(), layout_.summed_size() - trained_size()}; }

  void initialize(const ExecSpace& space, std::uint64_t seed);
  /// To be called when values were written by anybody but the optimizer.
  void round(const ExecSpace& space) { round(space, {0, size()}); }
  void round(const ExecSpace& space, ParameterRange range);
  /// Adds to the statistics what a backward pass has left for them, times `scale` (one over the global examples).
  void update_statistics(const ExecSpace& space, double scale, const std::int32_t* left_out = nullptr);

 private:
  bool rounds() const { return dtype_ != master_; }
  /// Shows a node the next of its parameters.
  void add_view(std::size_t node, const Parameter& parameter);
  Tensor slice(const Buffer& buffer, const Parameter& parameter) const;

  DType dtype_, master_;
  ParameterLayout layout_;
  Buffer values_;
  Buffer gradients_;
  Buffer rounded_;
  std::vector<std::vector<Tensor>> node_values_;
  std::vector<std::vector<Tensor>> node_gradients_;
  std::vector<std::vector<Tensor>> node_weights_;
  std::vector<ParameterRange> node_ranges_;
  std::vector<std::int64_t> node_first_;
};

}  // namespace lockstep
