// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "nn/graph.hpp"
#include "nn/model_config.hpp"
#include "parameters/parameter_buffer.hpp"

namespace lockstep {

/// The parameters of a file that a network takes.
struct ChosenWeights {
  std::vector<NamedArray> taken;    ///< in the network's order and under its names, as "/model/conv1/weight"
  std::vector<std::string> left;    ///< parameters of the network that the file lacks, or has in another shape
  std::vector<std::string> unused;  ///< parameters of the file that the network does not take
  std::string text;                 ///< all of this, for the log
};

/// Reads the parameters of the file that model.weights names. Throws KeyError if there is no such file.
ParameterFile read_weights(const WeightsConfig& config);

/// Chooses parameters as model.weights says. Throws bad_data if the file does not fit as `match` demands, or no
/// parameter fits; KeyError if `layout` is missing, or cannot be followed, for values that come from a flatten.
ChosenWeights choose_weights(const WeightsConfig& config, const ParameterFile& file, const Graph& graph,
                             const std::vector<Parameter>& parameters);

/// Sets `parameters` to what was read from `file`, for a network that is not trained further: a checkpoint as it is,
/// other files as model.weights says.
void load_parameters(const ExecSpace& space, const WeightsConfig& config, const std::string& file,
                     const ParameterFile& stored, const Graph& graph, ParameterBuffer& parameters);

}  // namespace lockstep
