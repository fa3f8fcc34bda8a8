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

#include "core/dtype.hpp"
#include "core/shape.hpp"

namespace lockstep {

/// An array in a file: "/model/conv1/weight".
struct NamedArray {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::shared_ptr<const std::byte[]> data;  ///< null: its numbers are elsewhere, as in a file

  std::size_t bytes() const { return static_cast<std::size_t>(shape.count()) * size_of(dtype); }
};

/// What a checkpoint holds, free of what it is for: `train` decides on names and texts.
struct Checkpoint {
  std::vector<NamedArray> arrays;            ///< without data, which come and go in pieces
  std::map<std::string, std::string> texts;  ///< "deck", "state", "build"
};

/// The next numbers of a checkpoint's array, of those by its place.
using NumberSink = std::function<void(std::size_t array, std::span<const std::byte> next)>;
/// Gives all numbers of all arrays to the sink: those of each array in order.
using NumberSource = std::function<void(const NumberSink& sink)>;

/// What is called while a checkpoint is written.
struct CheckpointEvents {
  std::function<void()> progress = [] {};       ///< another part is on disk, of a quarter of a gigabyte or so
  std::function<void()> before_commit = [] {};  ///< all is done but the flushing to disk and the renaming
};
/// Writes to a temporary name beside `path`, with a manifest (io/manifest.hpp), flushes it to disk, and renames: `path`
/// never holds half a checkpoint. Throws cannot_create or io_error, naming the file and the reason.
void write_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint, const NumberSource& numbers,
                      const CheckpointEvents& events = {});

/// Verifies all of it, and reads it but for the numbers (checkpoint/checkpoint_numbers.hpp). Throws missing_file, or
/// bad_data for a file that is truncated, damaged, or no checkpoint: before HDF5 opens it. `progress`: another part has
/// been read.
Checkpoint open_checkpoint(const std::filesystem::path& path, const std::function<void()>& progress = [] {});

/// What a network can take of a file.
struct ParameterFile {
  std::vector<NamedArray> arrays;            ///< those below /model; their moving averages, where there are such
  std::map<std::string, std::string> texts;  ///< as in a checkpoint; those of other programs have none

  bool is_checkpoint() const { return texts.contains("state"); }
};
/// Reads the parameters in a checkpoint (which is verified as by open_checkpoint) or in a weights file of other
/// programs (which may lack checksums). PyTorch's num_batches_tracked, a count that no formula uses, is passed over.
ParameterFile read_parameters(const std::filesystem::path& path);

/// step-00001234.h5
std::string checkpoint_name(std::int64_t step);

/// The checkpoints in a folder, newest (highest step) last; empty when there is no such folder.
/// Throws io_error when it cannot be read.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& folder);

/// The step of the newest one; -1: there is none. Throws io_error likewise.
std::int64_t newest_step(const std::filesystem::path& folder);

/// Renames the checkpoints of later steps to step-….h5.aside (the next ones of the same step .aside-2 and so on), and
/// says so: what a run that goes on from `step` writes is newer than they are, though its steps are smaller. Throws
/// io_error.
void quarantine_checkpoints_after(const std::filesystem::path& folder, std::int64_t step);

/// Links that name checkpoints of their folder: the newest one, and the best one.
inline constexpr const char* latest_name = "latest";
inline constexpr const char* best_name = "best";
/// Makes the link name another file of the folder, at once and on disk. Nothing depends on it: that it cannot be made,
/// as on file systems without links, is a warning.
void point_link(const std::filesystem::path& folder, const std::string& link, const std::string& name);

/// Removes all but the newest `keep` (0: keeps all) and those of the names in `kept`, and what interrupted writes have
/// left.
void prune_checkpoints(const std::filesystem::path& folder, std::int64_t keep,
                       const std::vector<std::string>& kept = {});

}  // namespace lockstep
