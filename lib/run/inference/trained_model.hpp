// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>
#include <string>

#include "checkpoint/checkpoint.hpp"
#include "comm/communicator.hpp"
#include "nn/model.hpp"
#include "run/deck/run_config.hpp"

namespace lockstep {

/// What is needed of a checkpoint without training: its deck and its parameters.
struct TrainedModel {
  std::string name;  ///< name of the file
  std::string deck;
  std::string provenance;  ///< see run/experiment/provenance.hpp; empty in files of other programs
  RunConfig config;
  ParameterFile file;  ///< on the rank that has read the file; elsewhere empty

  /// Reads a checkpoint. Throws bad_data if the file is no checkpoint of a run.
  static TrainedModel read(const std::string& file);

  /// Format of the network's inputs, as far as the checkpoint records it.
  std::optional<ExampleFormat> inputs() const;

  /// Sends what rank 0 has read, except the parameters, to all ranks. Collective.
  void share(const Communicator& comm);
  /// Loads rank 0's parameters into the model of each rank. Collective.
  void load(const Communicator& comm, Model& model) const;
  /// Loads this rank's parameters into its model.
  void load(Model& model) const;
};

}  // namespace lockstep
