// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "data/dataset.hpp"
#include "nn/model.hpp"
#include "optim/optimizer.hpp"
#include "train/guard/step_decision.hpp"

namespace lockstep {

/// Says where numbers are no longer finite, and which examples may have brought that about.
class NonfiniteReport {
 public:
  /// `data`: that is trained on; it and `model` outlive this.
  NonfiniteReport(const Communicator& comm, const Dataset& data, const Model& model);

  /// A step begins, with these examples of this rank.
  void begin_step(std::int64_t step, std::span<const std::int64_t> examples);

  /// Counts gradients that are not finite, where the mean loss is not, unless steps have halted. They are those summed
  /// over ranks: the same on all. Collective where each rank has a part of them, unless this one looks at those that it
  /// has computed (`whole`).
  void count_gradients(const ExecSpace& space, const SummedLoss& loss, const StepDecision* decision, bool whole) const;
  /// f64, in the step's memory: what that has found, by tensor.
  const Tensor& gradient_counts() const { return gradient_counts_.get(); }

  /// "the gradient of layer 'conv1' (100 %) and of 3 others", of those that were counted; empty where all were finite.
  std::string gradients(const ExecSpace& space) const;
  /// "the parameters of layer 'conv1' (100 %) and of 3 others"; empty where all parameters are finite. Collective where
  /// each rank has a part of them.
  std::string parameters(const ExecSpace& space) const;

  /// Whether this rank's parameters are finite: by what the optimizer has found of those that it moves, and by a look
  /// at the layers' statistics.
  bool parameters_are_finite(const ExecSpace& space, const Optimizer& optimizer) const;

  /// "the inputs of examples 17, 2045 of its batch are not finite", or that they all are, and row numbers those of
  /// tables; whole on the first of `ranks`. Of one of the last three steps. Collective over
  /// them.
  std::string inputs(const Communicator& ranks, std::int64_t step) const;

 private:
  /// Of a layer's numbers, those that are not finite.
  struct Share {
    double bad = 0, all = 0;
    void add(double found, std::int64_t count) { bad += found, all += static_cast<double>(count); }
  };
  std::string layers(const char* numbers, const std::function<Share(std::size_t node)>& share_of) const;

  double count_in(const ExecSpace& space, const Tensor& numbers) const;
  double count_in_store(const ExecSpace& space, ParameterRange range) const;
  std::vector<double> count_divided(std::span<const ParameterRange> tensors,
                                    const std::function<double(ParameterRange)>& count_in_range) const;

  Communicator comm_;
  const Dataset& data_;
  const Model& model_;
  OwnedTensor count_;  // f64 [1]
  std::vector<ParameterRange> gradient_ranges_;
  Buffer gradient_tensors_;      // where each begins in the flat buffer, and how many elements it has; node by node
  OwnedTensor gradient_counts_;  // f64 [tensors]
  std::array<std::vector<std::int64_t>, 3> examples_;  ///< of step n in n % 3
};

/// Whether a number of an example, in host memory, is no row number of its table. `tables`: see Graph::tables_of_data.
bool has_unknown_row(const std::byte* input, DType dtype, std::span<const std::int64_t> tables);

/// How many of `count` numbers of a floating-point type, in host memory, are not finite.
std::int64_t count_nonfinite(const std::byte* numbers, DType dtype, std::int64_t count);

}  // namespace lockstep
