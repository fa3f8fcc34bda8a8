// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/number_stream.hpp"
#include "io/checksum.hpp"
#include "io/raw_file.hpp"

// Ranks' numbers as the arrays of a checkpoint: /model/<layer>/<parameter> and /optimizer/<state>/<layer>/<parameter>.
namespace lockstep {

/// The arrays that a checkpoint of these numbers has, without data.
std::vector<NamedArray> arrays_of(const std::vector<HeldNumbers>& numbers);
/// Their numbers, of all ranks. For rank 0 in a turn.
NumberSource source_of(NumberStream& stream);

/// The numbers of a checkpoint, read as they are asked for.
class CheckpointNumbers {
 public:
  /// Opens a checkpoint that open_checkpoint has found sound.
  explicit CheckpointNumbers(const std::string& path)
      : file_(Hdf5File::open(path)), bytes_(path, RawFile::Access::read) {}

  const std::string& file() const { return file_.name(); }
  /// Reads elements [first, first + count) of an array as numbers of this type: f32 or f64, or what the file has. Those
  /// of an array are asked for in order; with the last of them its checksum is verified.
  void read(const std::string& name, std::int64_t first, std::int64_t count, DType dtype, std::byte* to);

 private:
  struct Array {
    DType dtype;
    std::int64_t count;
    std::optional<std::uint64_t> place;
    RunningHash hash;
  };
  Array& array(const std::string& name);

  Hdf5File file_;
  RawFile bytes_;
  std::string open_name_;
  std::optional<Array> open_;
  std::vector<std::byte> stored_;
};

/// All ranks' numbers become those of the checkpoint, whose arrays must be theirs (check_arrays). Values of fp32 files
/// go into fp64 models and the reverse. `progress`: another block has been read. For rank 0 in a turn.
void restore_numbers(NumberStream& stream, CheckpointNumbers& from, const std::function<void()>& progress = [] {});

}  // namespace lockstep
