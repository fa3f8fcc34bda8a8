// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>

#include "comm/communicator.hpp"
#include "run/deck/run_config.hpp"
#include "train/metrics.hpp"

namespace lockstep {

/// The data that `lockstep evaluate` reads, and the file that it writes.
struct EvaluationData {
  std::string place;                 ///< FILE or FILE:/GROUP; empty: the deck's own data
  std::string split = "validation";  ///< name of the split to evaluate
  std::string confusion_matrix;      ///< file to make (ArrayFile), with a row for the targets of each class; empty:
                                     ///< none
  bool overwrite = false;            ///< whether to replace that file if it exists
};

/// Returns the metrics of the parameters in `file`: what `lockstep evaluate` does. Collective.
Metrics evaluate_file(const RunConfig& config, const std::string& file, const EvaluationData& what,
                      const Communicator& comm);

}  // namespace lockstep
