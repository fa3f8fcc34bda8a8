// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "io/checkpoint.hpp"
#include "train/run_config.hpp"

namespace lockstep {

/// run.output_dir: rank 0 alone touches it, unless said otherwise.
class RunFolder {
 public:
  explicit RunFolder(const RunConfig& config) : path_(config.output_dir()), options_(config.run) {}

  struct Found {
    std::string file;
    Checkpoint checkpoint;
  };
  /// Of this folder; those that are damaged or cannot be read are named and passed over. Throws bad_data, or io_error,
  /// when there are only such. `but`: the name of one that is taken only if there is no other.
  std::optional<Found> newest_checkpoint(const std::string& but = "") const;
  /// The checkpoint to go on from, by run.resume; none to start at step 0.
  std::optional<Checkpoint> find_checkpoint();
  /// Where the last find_checkpoint found it; empty when it did not.
  const std::string& resumed_from() const { return resumed_from_; }
  /// Whether another start goes on from the newest checkpoint, and not once more from where this one began.
  bool goes_on_by_itself() const { return options_.resume == "auto"; }

  /// Whether this folder's own run goes on, so that its curves are continued.
  bool goes_on() const;

  /// Creates the folder. Unless its own run goes on, where an earlier run has left something: removes that with
  /// run.overwrite or run.resume: auto (which has found no checkpoint), else refuses (cannot_create). Where its own
  /// run goes on after `step`, sets aside the checkpoints of later steps (damaged ones, or of a branch that was left).
  void prepare(std::int64_t step);
  /// Whether the run that goes on here has ended already, up to its summary, and was not stopped.
  bool has_ended() const;
  /// What an ended run has left is no longer true of one that goes on.
  void remove_summary() const;
  void write_text(const std::string& name, const std::string& text) const;

  std::filesystem::path summary() const { return path_ / "summary.json"; }
  std::filesystem::path metrics() const { return path_ / "metrics.csv"; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  /// Whoever makes it asks the run to stop.
  std::filesystem::path stop_file() const { return path_ / "stop"; }
  /// Of a hang: see RollCall. Any rank may touch it.
  std::filesystem::path waiting() const { return path_ / "waiting"; }

 private:
  bool holds_a_run() const;
  void remove_run() const;
  /// What killed processes had begun.
  void remove_leftovers() const;

  std::filesystem::path path_;
  RunOptions options_;
  std::string resumed_from_;
};

}  // namespace lockstep
