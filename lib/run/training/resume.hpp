// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "nn/parameters/parameter_layout.hpp"
#include "run/deck/run_config.hpp"

namespace lockstep {

/// Throws KeyError where run.resume names a file that is not there.
void require_resumed_file(const RunConfig& config);

/// The checkpoint of run.branch_from; throws KeyError where there is none. `progress` is called while it is read.
Checkpoint open_branching_point(const RunConfig& config, const std::function<void()>& progress = [] {});

/// Throws unless a run of this deck can go on from the checkpoint: KeyError for what would change the order of
/// the examples, and for another network or optimizer than that of the run in the deck's folder (run.resume: auto);
/// bad_data where a checkpoint that is named has another one.
void check_resume(const Checkpoint& checkpoint, const std::string& file, const RunConfig& config,
                  std::int64_t dataset_size, const std::vector<Parameter>& parameters);

/// Throws unless its arrays are those of these parameters and this optimizer: bad_data, or KeyError where other layers
/// are frozen.
void check_training_arrays(const Checkpoint& checkpoint, const std::string& file, const OptimizerConfig& optimizer,
                           const std::vector<Parameter>& parameters);

/// Throws KeyError (`key`) where workers, or groups, have done other steps than the run, and the optimizer counts them.
void check_own_steps(const Checkpoint& checkpoint, const std::string& file, const OptimizerConfig& optimizer,
                     const std::string& key);

/// Throws what check_training_arrays throws, and KeyError where a run that begins with this checkpoint
/// (run.branch_from) could not know how many steps its optimizer's states come of.
void check_branch(const Checkpoint& checkpoint, const std::string& file, const OptimizerConfig& optimizer,
                  const std::vector<Parameter>& parameters);

/// Where a run goes on.
struct ResumePoint {
  std::string file;           ///< of the checkpoint
  std::int64_t step = 0;      ///< done so far
  std::int64_t applied = 0;   ///< of these, those that were not skipped
  std::int64_t examples = 0;  ///< to train on
  bool complete = false;      ///< nothing is left to do
};

/// Throws where the resolved deck is not the checkpoint's in a way that the run cannot take up, as one that has come to
/// its end.
void check_changes(const RunConfig& config, const std::string& deck, const Checkpoint& checkpoint,
                   const ResumePoint& point);
/// Says what follows where it is another one, of a run that is not complete.
void say_what_has_changed(const RunConfig& config, const std::string& deck, const Checkpoint& checkpoint,
                          const ResumePoint& point);

}  // namespace lockstep
