// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "nn/graph.hpp"
#include "nn/parameters/parameter_buffer.hpp"
#include "nn/weights_config.hpp"

namespace lockstep {

/// What of a file's parameters a network takes.
struct ChosenWeights {
  std::vector<NamedArray> taken;    ///< named and ordered as the network has them: "/model/conv1/weight"
  std::vector<std::string> left;    ///< of the network: what the file lacks, or has in another shape
  std::vector<std::string> unused;  ///< of the file
  std::string text;                 ///< all that, for the log
};

/// The parameters in the file that the deck's model.weights names. Throws KeyError where there is none.
ParameterFile read_weights(const WeightsConfig& config);

/// By model.weights. Throws bad_data for a file that does not fit as it must (`match`), and KeyError where the order of
/// a flatten's values is to be told (`layout`).
ChosenWeights choose_weights(const WeightsConfig& config, const ParameterFile& file, const Graph& graph,
                             const std::vector<Parameter>& parameters);

/// All parameters of `file` for a network that learns no more: a checkpoint as it is, other files as model.weights
/// says.
void load_parameters(const ExecSpace& space, const WeightsConfig& config, const std::string& file, const Graph& graph,
                     ParameterBuffer& parameters);

}  // namespace lockstep
