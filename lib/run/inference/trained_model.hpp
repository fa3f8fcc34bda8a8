// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>
#include <string>

#include "checkpoint/checkpoint.hpp"
#include "comm/communicator.hpp"
#include "nn/model.hpp"
#include "run/deck/run_config.hpp"

namespace lockstep {

/// A checkpoint as one who does not train needs it: the deck that it was made by, and the parameters.
struct TrainedModel {
  std::string name;  ///< of the file
  std::string deck;
  std::string provenance;  ///< see run/experiment/provenance.hpp; empty in files of other programs
  RunConfig config;
  ParameterFile file;  ///< on the rank that has read it

  /// Throws bad_data for what is no checkpoint of a run.
  static TrainedModel read(const std::string& file);

  /// What the network's inputs are like, as far as the checkpoint says.
  std::optional<ExampleFormat> inputs() const;

  /// What rank 0 has read goes to all of them, but for the parameters. Collective.
  void share(const Communicator& comm);
  /// From rank 0 into the model of each rank. Collective.
  void load(const Communicator& comm, Model& model) const;
  /// Into that of this one.
  void load(Model& model) const;
};

}  // namespace lockstep
