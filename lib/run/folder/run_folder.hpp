// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "checkpoint/checkpoint.hpp"
#include "run/deck/run_config.hpp"
#include "run/folder/run_lock.hpp"

namespace lockstep {

/// Paths of the parts of a run.output_dir.
class RunPaths {
 public:
  explicit RunPaths(std::filesystem::path path) : path_(std::move(path)) {}

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path summary() const { return path_ / "summary.json"; }
  std::filesystem::path metrics() const { return path_ / "metrics.csv"; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  /// A file that anyone may make to ask the run to stop.
  std::filesystem::path stop_file() const { return path_ / "stop"; }
  /// Folder in which ranks of different nodes say that they wait: see NodeLiveness. Any rank may use it.
  std::filesystem::path waiting() const { return path_ / "waiting"; }

 private:
  std::filesystem::path path_;
};

/// First words of a deck.yaml that a run has written.
inline constexpr std::string_view resolved_deck_begins = "# Resolved by Lockstep";

/// The folder run.output_dir. Rank 0 alone uses it, unless a member says otherwise. Files in it that Lockstep has not
/// written stay as they are.
class RunFolder : public RunPaths {
 public:
  explicit RunFolder(const RunConfig& config)
      : RunPaths(config.output_dir()),
        options_(config.run),
        weights_(config.model.weights.file),
        record_(config.parallel.record()),
        input_deck_(config.source) {}
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  /// Releases the claim, and removes the folder if `claim` has made it and it is empty.
  ~RunFolder();

  /// Makes the folder, if there is none, and claims it; to be called before reading anything in it that may then be
  /// changed. Throws cannot_create, also if another run has claimed it (RunLock). An existing folder that cannot be
  /// written may hold a run that has ended: it is not claimed here, and `prepare` refuses it.
  void claim();
  /// Takes the folder over from an earlier attempt at this run: goes on from the newest checkpoint, whatever run.resume
  /// says, and begins as that attempt did if there is none.
  void continue_attempt();
  /// The claim to the folder. `claim` must have made it.
  RunLock& lock() { return *lock_; }

  struct Found {
    std::string file;
    Checkpoint checkpoint;
  };
  /// Returns the newest checkpoint of this folder; warns of damaged or unreadable ones and passes them over. Throws
  /// bad_data or io_error if there are only such. `but`: name of a checkpoint that is taken only if there is no other.
  std::optional<Found> newest_checkpoint(const std::string& but = "") const;
  /// Returns the checkpoint to go on from, by run.resume; none if the run is to start at step 0.
  std::optional<Checkpoint> find_checkpoint();
  /// Path of the checkpoint that the last find_checkpoint returned; empty: it returned none.
  const std::string& resumed_from() const { return resumed_from_; }
  /// Whether a restart goes on from the newest checkpoint, instead of beginning once more where this start began.
  bool resumes_automatically() const { return options_.resume == "auto"; }

  /// Whether the run goes on from a checkpoint of this folder, so that its curves are continued.
  bool continues_own_run() const;

  /// Throws cannot_create if a run that begins after `step`, with this resolved `deck`, must not write here. The folder
  /// may be read-only, or have a file of another program that would be replaced. If the run does not go on from a
  /// checkpoint of this folder, there are more reasons: an earlier run that run.overwrite does not remove, a start from
  /// a file of that run, and, at step 0, another run's record of the order of gradients. With run.resume: auto, what a
  /// run without a checkpoint has left is no reason, unless that run has ended. Changes nothing.
  void check(std::int64_t step, const std::string& deck) const;
  /// Makes way for this run, after `check`, and writes its resolved `deck`. If this folder's own run goes on, its
  /// checkpoints of later steps (damaged ones, or those of a branch that was left) are set aside; otherwise what an
  /// earlier run has left is removed.
  void prepare(std::int64_t step, const std::string& deck);
  /// Whether the run that goes on here has ended already, by its summary: it was not stopped, and has not failed.
  bool has_ended() const;
  void write_text(const std::string& name, const std::string& text) const;

 private:
  RunOptions options_;
  std::string weights_;  ///< model.weights.file
  std::string record_;   ///< path of the record of the order of gradients; empty: none
  DeckNode input_deck_;
  std::string resumed_from_;
  bool made_ = false;  ///< `claim` has made the folder
  std::unique_ptr<RunLock> lock_;
};

}  // namespace lockstep
