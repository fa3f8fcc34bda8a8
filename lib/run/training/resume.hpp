// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "parameters/parameter_layout.hpp"
#include "run/deck/run_config.hpp"

namespace lockstep {

/// Throws KeyError if run.resume names a file that does not exist.
void require_resumed_file(const RunConfig& config);

/// Opens the checkpoint of run.branch_from. Throws KeyError if there is none. Calls `progress` while it reads.
Checkpoint open_branching_point(const RunConfig& config, const std::function<void()>& progress = [] {});

/// Throws unless a run of this deck can go on from the checkpoint: KeyError for changes that would alter the order of
/// the examples, and for another network or optimizer than that of the run in the deck's folder (run.resume: auto);
/// bad_data if a checkpoint that run.resume names has another one.
void check_resume(const Checkpoint& checkpoint, const std::string& file, const RunConfig& config,
                  std::int64_t dataset_size, const std::vector<Parameter>& parameters);

/// Throws unless the checkpoint's arrays are those of these parameters and this optimizer: bad_data, or KeyError if
/// other layers are frozen.
void check_training_arrays(const Checkpoint& checkpoint, const std::string& file, const OptimizerConfig& optimizer,
                           const std::vector<Parameter>& parameters);

/// Throws KeyError (`key`) if the optimizer counts steps, and workers or groups have done other steps than the run.
void check_own_steps(const Checkpoint& checkpoint, const std::string& file, const OptimizerConfig& optimizer,
                     const std::string& key);

/// Throws what check_training_arrays throws, and KeyError if a run that begins with this checkpoint (run.branch_from)
/// could not know how many steps have made its optimizer's states.
void check_branch(const Checkpoint& checkpoint, const std::string& file, const OptimizerConfig& optimizer,
                  const std::vector<Parameter>& parameters);

/// The point from which a run goes on.
struct ResumePoint {
  std::string file;           ///< path of the checkpoint
  std::int64_t step = 0;      ///< number of steps done so far
  std::int64_t applied = 0;   ///< number of these that were not skipped
  std::int64_t examples = 0;  ///< number of training examples
  bool complete = false;      ///< the run has ended, and nothing is left to do
};

/// Throws DeckError if the resolved deck differs from the checkpoint's in a way that the run cannot take up: in what a
/// step computes, if the run has ended; in data.validation_seed, if it has not.
void check_changes(const RunConfig& config, const std::string& deck, const Checkpoint& checkpoint,
                   const ResumePoint& point);
/// Logs the differences between the resolved deck and the checkpoint's, and what follows, for a run that has not ended.
void say_what_has_changed(const RunConfig& config, const std::string& deck, const Checkpoint& checkpoint,
                          const ResumePoint& point);

}  // namespace lockstep
