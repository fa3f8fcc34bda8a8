// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/tensor.hpp"
#include "nn/parameters/owned_parameters.hpp"
#include "nn/parameters/parameter_windows.hpp"

namespace lockstep {

/// Memory that parameters lie in; what is empty, they take themselves.
struct ParameterMemory {
  Buffer gradients;  ///< of ParameterWindows::gradient_count
  Buffer values;     ///< zeroed, of ParameterWindows::value_count
  Buffer rounded;    ///< likewise, of 16 bits
};

/// All parameters in one allocation and all gradients in another, of the last layer first: in the
/// order in which a backward pass makes gradients final. So a bucket of a reduction is a range, and
/// an optimizer step is one kernel. What layers keep as statistics comes after all that is trained,
/// and what is to be added to them stands in the gradients' buffer; what is frozen comes last, and has no gradients.
/// Parameters begin at multiples of 64 bytes; the gaps are zero. All are of master_dtype; beside 16-bit activations
/// there is a rounded copy, which the large products read.
///
/// Where ranks have divided the values, or the gradients, layers see them in windows, unit after unit; what this rank
/// keeps of them is in owned().
class ParameterBuffer {
 public:
  /// `dtype`: of the activations.
  ParameterBuffer(const Graph& graph, DType dtype, const ParameterMemory& memory = {}, ParameterWindows windows = {});

  DType dtype() const { return master_; }
  const ParameterLayout& layout() const { return layout_; }
  ParameterLayout& layout() { return layout_; }
  std::int64_t size() const { return layout_.size(); }
  std::int64_t trained_size() const { return layout_.trained_size(); }
  const std::vector<Parameter>& parameters() const { return layout_.parameters(); }
  const ParameterWindows& windows() const { return windows_; }
  const OwnedParameters& owned() const { return owned_; }
  /// See ParameterLayout::own.
  void own(std::vector<ParameterRange> ranges);
  /// See OwnedParameters.
  void keep_values_in(OwnedValueStore& store) { owned_.keep_values_in(store); }

  // All of them; where they are divided, their windows.
  Tensor values() const { return all_of(values_); }
  /// Gradients, and what is to be added to statistics.
  Tensor gradients() const { return all_of(gradients_); }
  // As layers see them; where they are divided, a range is of one unit.
  Tensor values(ParameterRange range) const { return at(values_, windows_.value_place(range.first), {range.count}); }
  Tensor gradients(ParameterRange range) const {
    return at(gradients_, windows_.gradient_place(range.first), {range.count});
  }
  Tensor values(const Parameter& parameter) const { return values(parameter.range).reshaped(parameter.shape); }
  Tensor gradients(const Parameter& parameter) const { return gradients(parameter.range).reshaped(parameter.shape); }
  /// The trained values in 16 bits, which optimizers write; empty when activations are of master_dtype, and where
  /// values are divided.
  Tensor rounded() const {
    return rounds() && !windows_.division.values ? rounded_.tensor(0, dtype_, {trained_size()}) : Tensor{};
  }

  /// Views for the layers, in the order of their ParameterSpecs. Layers that are tied see the same memory.
  const std::vector<Tensor>& values_of(std::size_t node) const { return node_values_[node]; }
  const std::vector<Tensor>& gradients_of(std::size_t node) const { return node_gradients_[node]; }
  /// The ranges of a layer's parameters, in the same order.
  const std::vector<ParameterRange>& ranges_of(std::size_t node) const { return node_parameters_[node]; }
  /// Views of one layer's parameters, but for its statistics, as the large products read them.
  const std::vector<Tensor>& weights_of(std::size_t node) const { return node_weights_[node]; }
  /// The stretch of one layer's own trained parameters; empty for layers without.
  ParameterRange range_of(std::size_t node) const { return node_ranges_[node]; }
  /// The first element of a layer's parameters, those that it is tied to included; size() for layers without.
  std::int64_t first_of(std::size_t node) const { return node_first_[node]; }

  /// Where values are divided, those that this rank owns.
  void initialize(const ExecSpace& space, std::uint64_t seed);
  /// To be called when values were written by anybody but the optimizer.
  void round(const ExecSpace& space) {
    round(space, windows_.division.values ? layout_.others() : ParameterRange{0, size()});
  }
  /// Where values are divided, those of a unit, or what is not trained.
  void round(const ExecSpace& space, ParameterRange range);
  /// Calls fill(range, values), which gives them values, for each stretch of a parameter that this rank keeps: mostly
  /// all of it; where values are divided, what it owns, and where these are elsewhere, piece by piece.
  using Fill = std::function<void(ParameterRange range, const Tensor& values)>;
  void fill_kept(const ExecSpace& space, const Parameter& parameter, const Fill& fill);
  /// Adds to the statistics what a backward pass has left for them, times `scale` (one over the global examples).
  void update_statistics(const ExecSpace& space, double scale, const std::int32_t* left_out = nullptr);

 private:
  bool rounds() const { return dtype_ != master_; }
  void fill_store(const ExecSpace& space, ParameterRange part, const Fill& fill);
  /// Shows a node the next of its parameters.
  void add_view(std::size_t node, const Parameter& parameter);
  Tensor at(const Buffer& buffer, std::int64_t first, const Shape& shape) const {
    return buffer.tensor(static_cast<std::size_t>(first) * size_of(master_), master_, shape);
  }
  Tensor all_of(const Buffer& buffer) const {
    return at(buffer, 0, {static_cast<std::int64_t>(buffer.size() / size_of(master_))});
  }

  DType dtype_, master_;
  ParameterLayout layout_;
  ParameterWindows windows_;
  Buffer values_, gradients_, rounded_;  ///< as layers see them
  OwnedParameters owned_;
  std::vector<std::vector<Tensor>> node_values_;
  std::vector<std::vector<Tensor>> node_gradients_;
  std::vector<std::vector<Tensor>> node_weights_;
  std::vector<std::vector<ParameterRange>> node_parameters_;
  std::vector<ParameterRange> node_ranges_;
  std::vector<std::int64_t> node_first_;
};

}  // namespace lockstep
