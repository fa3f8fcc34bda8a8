// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "data/dataset.hpp"
#include "nn/model.hpp"
#include "optim/optimizer.hpp"

namespace lockstep {

/// Says where numbers are no longer finite, and which examples may have brought that about.
class NonfiniteReport {
 public:
  /// `data`: that is trained on. All outlive this.
  NonfiniteReport(const Communicator& comm, const Dataset& data, const Model& model)
      : comm_(comm), data_(data), model_(model), count_("lockstep::nonfinite_count", DType::f64, {1}) {}

  /// A step begins, with these examples of this rank.
  void begin_step(std::span<const std::int64_t> examples);

  /// "the gradient of layer 'conv1' (100 %) and of 3 others"; empty where all gradients are finite. They are those
  /// summed over ranks: the same on all.
  std::string gradients(const ExecSpace& space) const { return layers(space, Numbers::gradients); }
  /// "the parameters of layer 'conv1' (100 %) and of 3 others"; empty where all parameters are finite.
  std::string parameters(const ExecSpace& space) const { return layers(space, Numbers::parameters); }

  /// Whether this rank's parameters are finite: by what the optimizer has found of those that it moves, and by a look
  /// at the layers' statistics.
  bool parameters_are_finite(const ExecSpace& space, const Optimizer& optimizer) const;

  enum class Batch { of_this_step, of_the_step_before };
  /// "the inputs of examples 17, 2045 of its batch are not finite", or that they all are, and row numbers those of
  /// tables; whole on rank 0. Collective.
  std::string inputs(Batch batch) const;

 private:
  enum class Numbers { gradients, parameters };
  std::string layers(const ExecSpace& space, Numbers numbers) const;

  const Communicator& comm_;
  const Dataset& data_;
  const Model& model_;
  OwnedTensor count_;  // f64 [1]
  std::vector<std::int64_t> examples_, examples_before_;
};

/// Whether a number of an example, in host memory, is no row number of its table. `tables`: see Graph::tables_of_data.
bool has_unknown_row(const std::byte* input, DType dtype, std::span<const std::int64_t> tables);

/// How many of `count` numbers of a floating-point type, in host memory, are not finite.
std::int64_t count_nonfinite(const std::byte* numbers, DType dtype, std::int64_t count);

}  // namespace lockstep
