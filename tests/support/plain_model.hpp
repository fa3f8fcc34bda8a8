// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <vector>

#include "nn/graph.hpp"
#include "parameters/parameter_buffer.hpp"

namespace lockstep::test {

/// Reference implementation of a network: every output, gradient and saved tensor has memory of its own, and the
/// gradients of an output that is read several times are stored separately and added on the host. nn/model.cpp, which
/// uses one arena, must give the same numbers.
class PlainModel {
 public:
  PlainModel(Graph graph, DType dtype, std::int64_t n, const ProvidersConfig& providers);

  ParameterBuffer& parameters() { return parameters_; }
  Tensor forward(const PassContext& context, const Tensor& input);
  /// Computes parameter gradients from `doutput` and returns the gradient of the input (empty if nothing reads the
  /// input).
  std::vector<double> backward(const PassContext& context, const Tensor& input, const std::vector<double>& doutput);

 private:
  Tensor output(int node, const Tensor& input) const;

  Graph graph_;
  DType dtype_;
  std::int64_t n_;
  ParameterBuffer parameters_;
  std::vector<OwnedTensor> outputs_, saved_, workspaces_;
};

}  // namespace lockstep::test
