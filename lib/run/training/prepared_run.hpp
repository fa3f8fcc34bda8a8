// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "data/open_datasets.hpp"
#include "run/deck/run_config.hpp"
#include "run/trainers/run_trainer.hpp"

namespace lockstep {

/// A deck that all ranks have agreed on, with the data that it names and a trainer of its network.
struct PreparedRun {
  /// Opens the deck's files and makes the trainer. The parameters are not initialised. Collective; whatever is wrong on
  /// any rank is thrown on all of them.
  PreparedRun(const RunConfig& deck, const Communicator& ranks);

  std::int64_t examples() const { return data.train->size(); }  ///< number of training examples
  std::int64_t largest_batch() const { return std::min(config.batch.largest(), examples()); }
  Trainer& trainer() const { return run_trainer->trainer(); }
  RunLength length() const { return run_length(config, examples()); }
  std::int64_t total_steps() const { return length().steps(); }

  Communicator comm;
  RunConfig config;
  std::string text;  ///< the resolved deck
  Datasets data;
  std::string provenance;  ///< see run/experiment/provenance.hpp; JSON
  std::unique_ptr<RunTrainer> run_trainer;
  BatchPartition partition;  ///< how all ranks divide a batch
};

}  // namespace lockstep
