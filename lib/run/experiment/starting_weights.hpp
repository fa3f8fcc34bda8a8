// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <map>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "comm/communicator.hpp"
#include "nn/graph.hpp"
#include "nn/model.hpp"
#include "nn/model_config.hpp"
#include "parameters/parameter_buffer.hpp"
#include "run/deck/run_config.hpp"

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

/// Warns if parameters were trained in a network that computes otherwise than this deck's: with other options of
/// layers, another normalization of the inputs, or another loss. `texts`: those of their file, which may have the deck
/// that they were trained by.
void warn_of_other_network(const std::map<std::string, std::string>& texts, const std::string& file, RunConfig config);

/// Warns if a run that begins with a checkpoint (run.branch_from, model.weights) would validate on examples of its own
/// training file that the checkpoint's run has trained on. `texts`: the checkpoint's.
void warn_of_trained_examples(const std::map<std::string, std::string>& texts, const std::string& file,
                              const RunConfig& config);

/// Chooses parameters as model.weights says. Throws bad_data if the file does not fit as `match` demands, or no
/// parameter fits; KeyError if `layout` is missing, or cannot be followed, for values that come from a flatten.
ChosenWeights choose_weights(const WeightsConfig& config, const ParameterFile& file, const Graph& graph,
                             const std::vector<Parameter>& parameters);

/// Sets `parameters` to what was read from `file`, for a network that is not trained further: a checkpoint as it is,
/// other files as model.weights says.
void load_parameters(const ExecSpace& space, const WeightsConfig& config, const std::string& file,
                     const ParameterFile& stored, const Graph& graph, ParameterBuffer& parameters);

/// Sets the parameters with which training begins: by run.seed, and by model.weights if given, which is then logged.
/// Returns what it has taken of model.weights. On rank 0, whose parameters the others get when they are shared; except
/// for what ranks own if the values are divided.
std::vector<NamedArray> initialize_parameters(const RunConfig& config, Model& model);
/// If the values are divided, sets what the other ranks own. `weights`: on rank 0, what initialize_parameters has
/// returned. Collective.
void initialize_other_ranks(const RunConfig& config, Model& model, std::vector<NamedArray> weights,
                            const Communicator& comm);
/// Sets the parameters with which training begins, on each rank what it holds. Collective.
void initialize_on_all_ranks(const RunConfig& config, Model& model, const Communicator& comm);

}  // namespace lockstep
