// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <vector>

#include "nn/graph.hpp"
#include "nn/parameters/parameter_buffer.hpp"

namespace lockstep::test {

/// A network computed in the plainest way: every output, gradient and saved tensor has memory of its
/// own, and gradients of an output that is read several times are kept apart and added on the host.
/// What nn/model.cpp does with one arena must give the same numbers.
class PlainModel {
 public:
  PlainModel(Graph graph, DType dtype, std::int64_t n, const ProvidersConfig& providers);

  ParameterBuffer& parameters() { return parameters_; }
  Tensor forward(const StepContext& context, const Tensor& input);
  /// doutput → parameter gradients, and returns the gradient of the input (empty when nothing reads it).
  std::vector<double> backward(const StepContext& context, const Tensor& input, const std::vector<double>& doutput);

 private:
  Tensor output(int node, const Tensor& input) const;

  Graph graph_;
  DType dtype_;
  std::int64_t n_;
  ParameterBuffer parameters_;
  std::vector<OwnedTensor> outputs_, saved_, workspaces_;
};

}  // namespace lockstep::test
