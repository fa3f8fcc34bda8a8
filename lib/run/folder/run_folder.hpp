// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "run/deck/run_config.hpp"
#include "run/folder/run_lock.hpp"
#include "run/folder/run_paths.hpp"

namespace lockstep {

/// How a deck.yaml begins that a run has left.
inline constexpr std::string_view resolved_deck_begins = "# Resolved by Lockstep";

/// run.output_dir: rank 0 alone touches it, unless said otherwise. What Lockstep has not written there stays as it is.
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
  /// A folder that was made for nothing goes away.
  ~RunFolder();

  /// Makes the folder, where there is none, and claims it: before anything in it is looked at that is to be changed.
  /// Throws cannot_create, also where another run writes there (RunLock). One that is there but cannot be written may
  /// hold a run that has ended: `prepare` refuses it.
  void claim();
  /// Takes it for what an earlier attempt at this run has left there: goes on from the newest checkpoint, whatever
  /// run.resume says, and where there is none begins as that did.
  void take_up();
  /// The claim to the folder.
  RunLock& lock() { return *lock_; }

  struct Found {
    std::string file;
    Checkpoint checkpoint;
  };
  /// The newest checkpoint of this folder; those that are damaged or cannot be read are named and passed over. Throws
  /// bad_data, or io_error, when there are only such. `but`: the name of one that is taken only if there is no other.
  std::optional<Found> newest_checkpoint(const std::string& but = "") const;
  /// The checkpoint to go on from, by run.resume; none to start at step 0.
  std::optional<Checkpoint> find_checkpoint();
  /// Where the last find_checkpoint found it; empty when it did not.
  const std::string& resumed_from() const { return resumed_from_; }
  /// Whether another start goes on from the newest checkpoint, and not once more from where this one began.
  bool goes_on_by_itself() const { return options_.resume == "auto"; }

  /// Whether this folder's own run goes on, so that its curves are continued.
  bool goes_on() const;

  /// Makes way for this run, and leaves its resolved `deck`. Throws cannot_create where a file that it would replace is
  /// somebody else's, or, unless its own run goes on, where an earlier run is: with run.overwrite that is removed
  /// (which is refused where this run begins with a file of it), and so is, with run.resume: auto, what a run has left
  /// that has not come to a checkpoint. Likewise with the record of the order of gradients, wherever that is, unless
  /// the run goes on, or has begun here before. Where its own run goes on after `step`, sets aside the checkpoints of
  /// later steps (damaged ones, or of a branch that was left). Throws cannot_create for a folder that cannot be
  /// written.
  void prepare(std::int64_t step, const std::string& deck);
  /// Whether the run that goes on here has ended already, up to its summary: it was not stopped, and has not failed.
  bool has_ended() const;
  void write_text(const std::string& name, const std::string& text) const;
  /// What tells copies in memory (checkpoint.neighbours_every) of this folder's run from those of any other; empty:
  /// there are none. `identify_copies` makes one, where there is none.
  std::string copies_of() const;
  std::string identify_copies() const;

 private:
  RunOptions options_;
  std::string weights_;  ///< model.weights.file
  std::string record_;   ///< file of the order of gradients; empty: none
  DeckNode input_deck_;
  std::string resumed_from_;
  bool made_ = false;      ///< by this run
  int why_read_only_ = 0;  ///< errno
  std::unique_ptr<RunLock> lock_;
};

}  // namespace lockstep
