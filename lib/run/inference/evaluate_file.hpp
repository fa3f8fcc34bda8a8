// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>

#include "comm/communicator.hpp"
#include "run/deck/run_config.hpp"
#include "train/metrics.hpp"

namespace lockstep {

/// What `lockstep evaluate` looks at.
struct EvaluationData {
  std::string place;                 ///< FILE or FILE:/GROUP; empty: the deck's own data
  std::string split = "validation";  ///< of them
  std::string confusion_matrix;      ///< file to make (ArrayFile): a row for the targets of each class; empty: none
  bool overwrite = false;            ///< that file, where there is one
};

/// What `lockstep evaluate` does: metrics of the parameters in `file`. Collective.
Metrics evaluate_file(const RunConfig& config, const std::string& file, const EvaluationData& what,
                      const Communicator& comm);

}  // namespace lockstep
