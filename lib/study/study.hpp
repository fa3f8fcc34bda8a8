// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>

#include "comm/communicator.hpp"
#include "study/study_config.hpp"

namespace lockstep {

/// Runs `lockstep study`: trains the study's trials on all ranks, and goes on where an earlier start has stopped.
/// `base`: text of the base deck. Collective.
ExitStatus run_study(StudyConfig study, const std::string& base, const Communicator& world);

}  // namespace lockstep
