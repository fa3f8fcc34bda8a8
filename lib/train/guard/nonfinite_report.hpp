// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "data/dataset/dataset.hpp"
#include "nn/model.hpp"
#include "optim/optimizer.hpp"
#include "parameters/parameter_buffer.hpp"
#include "train/guard/step_decision.hpp"

namespace lockstep {

/// Looks for gradients that are not finite, layer by layer and before they are summed over ranks, to explain why a step
/// is left out.
class OverflowWatch {
 public:
  /// `sums` is the number of gradient sums that a rank computes in a step; of further ones, only the last is kept.
  OverflowWatch(const ParameterBuffer& parameters, const Graph& graph, std::int64_t sums);

  void begin(const ExecSpace& space);
  /// Call when a range of this rank's gradients is final, for one sum after the other.
  void inspect(const ExecSpace& space, const ParameterBuffer& parameters, ElementRange range);
  void end_sum() { sum_ = std::min(sum_ + 1, sums_ - 1); }
  /// Ends step number `step`.
  void end(const ExecSpace& space, std::int64_t step) const;
  /// Returns what overflowed first and on which rank, the same text on all ranks. `step` is the last step that has
  /// ended or the one before it. `numbers` are the ranks' numbers in the text; empty: those in `comm`. Collective.
  std::string describe(const ExecSpace& space, const Communicator& comm, std::span<const std::int64_t> numbers,
                       std::int64_t step) const;

 private:
  struct Layer {
    std::string name;
    ElementRange range;
    std::int64_t numbers;  ///< of its elements, gaps not counted
  };
  std::vector<Layer> layers_;  ///< in the order of the flat buffer, which is that of the backward pass
  std::int64_t sums_, sum_ = 0;
  OwnedTensor own_;        // f64 [sums, layers], of the current step
  OwnedTensor counts_[2];  // f64 [sums, layers], of the last even and the last odd step
};

/// Reports where numbers are no longer finite, and which examples may have caused that.
class NonfiniteReport {
 public:
  /// `data` is the training set. `data` and `model` must outlive this object.
  NonfiniteReport(const Communicator& comm, const Dataset& data, const Model& model);

  /// Begins step number `step`, in which this rank computes `examples`.
  void begin_step(std::int64_t step, std::span<const std::int64_t> examples);

  /// Counts gradients that are not finite, if the mean loss is not finite and steps have not halted. The gradients are
  /// those summed over ranks. Collective if each rank has only the sums that it owns (`are_divided`).
  void count_gradients(const ExecSpace& space, const SummedLoss& loss, const StepDecision* decision,
                       bool are_divided) const;
  /// f64 [tensors] in device memory: the counts that count_gradients has found.
  const Tensor& gradient_counts() const { return gradient_counts_.get(); }

  /// Returns "the gradient of layer 'conv1' (100 %) and of 3 others" by the last counts; empty if all gradients were
  /// finite.
  std::string gradients(const ExecSpace& space) const;
  /// Returns "the parameters of layer 'conv1' (100 %) and of 3 others"; empty if all parameters are finite. Collective
  /// if each rank has only a part of them.
  std::string parameters(const ExecSpace& space) const;

  /// Whether this rank's parameters are finite, by what the optimizer has found in those that it updates and by a count
  /// over the layers' statistics.
  bool parameters_are_finite(const ExecSpace& space, const Optimizer& optimizer) const;

  /// Returns "in its batch, the inputs of examples 17, 2045 of … are not finite", or the targets, or that all are
  /// finite and all row numbers are those of tables. The text is the same on all of `ranks`. `step` must be one of the
  /// last three steps. Collective over `ranks`.
  std::string inputs(const Communicator& ranks, std::int64_t step) const;

 private:
  /// How many of a layer's numbers are not finite, of how many.
  struct Share {
    double bad = 0, all = 0;
    void add(double found, std::int64_t count) { bad += found, all += static_cast<double>(count); }
  };
  std::string layers(const char* numbers, const std::function<Share(std::size_t node)>& share_of) const;

  double count_in(const ExecSpace& space, const Tensor& numbers) const;
  double count_in_store(const ExecSpace& space, ElementRange range) const;
  std::vector<double> count_divided(std::span<const ElementRange> tensors,
                                    const std::function<double(ElementRange)>& count_in_range) const;

  Communicator comm_;
  const Dataset& data_;
  const Model& model_;
  OwnedTensor count_;  // f64 [1]
  std::vector<ElementRange> gradient_ranges_;
  Buffer gradient_tensors_;      // first element in the flat buffer and length of each tensor, node by node
  OwnedTensor gradient_counts_;  // f64 [tensors]
  std::array<std::vector<std::int64_t>, 3> examples_;  ///< those of step n in n % 3
};

/// Returns the first number that stands for a missing one: one of `fill_values`, or one that other programs write in
/// such places (−9999, and numbers beyond 1e18, as netCDF's 9.96921e36 and CF's 1e20). Empty if there is none.
std::optional<double> first_fill_value(const std::byte* numbers, DType dtype, std::int64_t count,
                                       std::span<const double> fill_values);

/// Whether an example, in host memory, holds a number that is no row number of its table. `tables`: see
/// Graph::tables_of_data.
bool has_unknown_row(const std::byte* input, DType dtype, std::span<const std::int64_t> tables);

/// Returns how many of `count` numbers of a floating-point type, in host memory, are not finite.
std::int64_t count_nonfinite(const std::byte* numbers, DType dtype, std::int64_t count);

}  // namespace lockstep
