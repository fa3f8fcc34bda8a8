// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "config/state_fields.hpp"
#include "core/dtype.hpp"
#include "core/shape.hpp"

namespace lockstep {

/// An array in a file: "/model/conv1/weight".
struct NamedArray {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::shared_ptr<const std::byte[]> data;  ///< null: the numbers are elsewhere, as in a file

  std::size_t bytes() const { return static_cast<std::size_t>(shape.count()) * size_of(dtype); }
};

/// What a checkpoint holds, whatever it means: arrays_of decides on the arrays' names, `run` on the texts.
struct Checkpoint {
  std::vector<NamedArray> arrays;            ///< without data: the numbers come and go in pieces
  std::map<std::string, std::string> texts;  ///< "deck", "provenance", "state" and, for tokens, "vocabulary"
};

/// Takes the next numbers of an array of a checkpoint, which is named by its index.
using NumberSink = std::function<void(std::size_t array, std::span<const std::byte> next)>;
/// Gives all numbers of all arrays to the sink, those of each array in order.
using NumberSource = std::function<void(const NumberSink& sink)>;

/// Functions that are called while a checkpoint is written.
struct CheckpointEvents {
  std::function<void()> progress = [] {};       ///< another part is on disk, about a quarter of a gigabyte
  std::function<void()> before_commit = [] {};  ///< all is done except flushing to disk and renaming
};
/// Writes to a temporary file next to `path`, with a manifest (io/checksum.hpp), flushes it to disk, and renames it:
/// `path` never holds half a checkpoint. Throws cannot_create or io_error, naming the file and the reason.
void write_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint, const NumberSource& numbers,
                      const CheckpointEvents& events = {});

/// Verifies the whole file and reads all but the numbers (checkpoint/checkpoint_reader.hpp). Throws missing_file, or
/// bad_data for a file that is truncated, damaged or no checkpoint, before HDF5 opens it. `progress` is called when
/// another part has been read.
Checkpoint open_checkpoint(const std::filesystem::path& path, const std::function<void()>& progress = [] {});

/// What a network can take from a file.
struct ParameterFile {
  std::vector<NamedArray> arrays;            ///< those below /model, or their moving averages if the file has them
  std::map<std::string, std::string> texts;  ///< as in a checkpoint; files of other programs have none

  bool is_checkpoint() const { return texts.contains("state"); }
  /// Characters that the network's tokens stand for (Dataset::vocabulary); empty if the file does not say.
  std::string vocabulary() const {
    const auto found = texts.find("vocabulary");
    return found == texts.end() ? "" : found->second;
  }
};
/// Reads the parameters of a checkpoint, which is verified as by open_checkpoint, or of a weights file of another
/// program, which may lack checksums. In place of a copy of the link `latest`, reads the newest whole checkpoint of its
/// folder. Skips PyTorch's num_batches_tracked, a count that no formula uses.
ParameterFile read_parameters(const std::filesystem::path& given);

/// Returns a name such as step-00001234.h5.
std::string checkpoint_name(std::int64_t step);

/// Returns the checkpoints in a folder, newest (highest step) last; empty if there is no such folder. Throws io_error
/// if the folder cannot be read.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& folder);

/// Returns the step of the newest checkpoint in a folder; -1 if there is none. Throws io_error if the folder cannot be
/// read.
std::int64_t newest_step(const std::filesystem::path& folder);

/// Renames the checkpoints of later steps to step-….h5.aside (further ones of the same step to .aside-2 and so on), and
/// logs that: what a run that goes on from `step` writes is newer than they are, although its steps are smaller. Throws
/// io_error.
void quarantine_checkpoints_after(const std::filesystem::path& folder, std::int64_t step);

/// Links that name a checkpoint of their folder: the newest one and the best one.
inline constexpr const char* latest_name = "latest";
inline constexpr const char* best_name = "best";
/// Makes the link name another file of the folder, atomically and on disk. If that fails, as on file systems without
/// links, it only warns, because nothing depends on the link.
void point_link(const std::filesystem::path& folder, const std::string& link, const std::string& name);

/// Removes all checkpoints but the newest `keep` (0: all are kept) and those named in `kept`; also removes what
/// interrupted writes have left.
void prune_checkpoints(const std::filesystem::path& folder, std::int64_t keep,
                       const std::vector<std::string>& kept = {});

/// Returns what `describe` names as JSON: the text "state" of a checkpoint.
std::string state_text(const StateFields::Describe& describe);

/// Sets what `describe` names from such a text. Throws bad_data if something is missing or of another kind.
void restore_state(const std::string& text, const StateFields::Describe& describe);

}  // namespace lockstep
