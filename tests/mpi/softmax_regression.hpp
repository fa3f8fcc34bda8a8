// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "data/dataset/dataset.hpp"
#include "parameters/parameter_buffer.hpp"
#include "support/fixtures.hpp"

// Softmax regression in plain loops. Its parameters are weights [classes, inputs], then biases.
namespace lockstep::test::softmax_regression {

inline constexpr int inputs = 6, classes = 5;

/// The parameters of a network of one linear layer named fc.
inline std::vector<double> numbers_of(const ParameterBuffer& parameters) {
  std::vector<double> all;
  for (const char* name : {"fc/weight", "fc/bias"})
    for (const Parameter& parameter : parameters.parameters())
      if (parameter.name == name)
        for (const double value : values_of(parameters.values(parameter))) all.push_back(value);
  return all;
}

/// The mean gradient over some examples, at least one, at the parameters x.
inline std::vector<double> gradient_of(const Dataset& data, std::span<const std::int64_t> batch,
                                       const std::vector<double>& x) {
  std::vector<double> gradient(x.size());
  for (const std::int64_t example : batch) {
    std::vector<float> input(inputs);
    std::int32_t target = 0;
    data.read({&example, 1}, input.data(), &target);
    double outputs[classes], sum = 0;
    for (int k = 0; k < classes; ++k) {
      outputs[k] = x[classes * inputs + k];
      for (int i = 0; i < inputs; ++i) outputs[k] += x[k * inputs + i] * input[i];
      sum += std::exp(outputs[k]);
    }
    for (int k = 0; k < classes; ++k) {
      const double d = (std::exp(outputs[k]) / sum - (k == target ? 1 : 0)) / static_cast<double>(batch.size());
      for (int i = 0; i < inputs; ++i) gradient[k * inputs + i] += d * input[i];
      gradient[classes * inputs + k] += d;
    }
  }
  return gradient;
}

}  // namespace lockstep::test::softmax_regression
