// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/checkpoint_transfer.hpp"
#include "io/checksum.hpp"
#include "io/raw_file.hpp"

// The ranks' numbers as arrays of a checkpoint: /model/<layer>/<parameter>, /optimizer/<state>/<layer>/<parameter>, and
// /outer/<state>/<layer>/<parameter> for the step between replicas. What replicas have of their own is below
// /replicas/<number>: <state>/<layer>/<parameter>, with "parameters" as the state of parameters. What simulated
// asynchronous workers have read is named likewise below /workers/<number>. What compressed sums have left over is
// below /compression/<state>/<part>.
namespace lockstep {

inline constexpr const char *optimizer_folder = "/optimizer/", *replicas_folder = "/replicas/",
                            *workers_folder = "/workers/";
/// Returns the folder of what a replica has of its own.
std::string replica_folder(int replica);
/// Name of the folder of parameters in a replica's folder, where states have theirs.
inline constexpr const char* replica_parameters = "parameters";

/// Returns the arrays that a checkpoint of these numbers has, without data.
std::vector<NamedArray> arrays_of(const std::vector<ShardedState>& numbers);
/// Returns the numbers of all ranks for these arrays. For rank 0 in a turn.
NumberSource source_of(CheckpointTransfer& transfer);

/// The numbers of a checkpoint, read on demand.
class CheckpointReader {
 public:
  /// Opens a checkpoint that open_checkpoint has verified.
  explicit CheckpointReader(const std::string& path);

  const std::string& file() const { return file_.name(); }
  /// Arrays whose sum, times `share`, is a parameter of some numbers.
  struct Summands {
    std::vector<std::string> arrays;
    double share = 1;
  };
  /// Returns the arrays whose scaled sum is a parameter of `numbers`:
  /// - of a replica, if the file has as many replicas: the replica's own array;
  /// - with another number of replicas, or without any: the average over the file's replicas, or their common array;
  /// - of a part of the errors that compression keeps: the part's own array or, with another number of parts, an equal
  ///   share of the sum of all parts;
  /// - of what the file lacks and zeros replace (ShardedState::is_optional): no arrays.
  Summands summands_for(const ShardedState& numbers, const Parameter& parameter);
  /// Reads elements [first, first + count) of an array as numbers of type `dtype`: f32 or f64, or the type in the file.
  /// Elements of an array must be read in order; with the last of them, the array's checksum is verified.
  void read(const std::string& name, std::int64_t first, std::int64_t count, DType dtype, std::byte* to);

 private:
  struct Array {
    DType dtype;
    std::int64_t count;
    std::optional<std::uint64_t> place;
    RunningHash hash;
  };
  Array& array(const std::string& name);
  Summands parts_for(const ShardedState& numbers, const Parameter& parameter);
  int count_parts(const std::string& state, const Parameter& parameter) const;
  /// Owners of numbers of their own: the folder of all, and how many there are.
  struct Owners {
    const char* folder;
    int count = 0;
  };

  Hdf5File file_;
  RawFile bytes_;
  std::set<std::string> names_;       ///< of all arrays
  std::map<std::string, int> parts_;  ///< number of parts of what compression has left over, by state and parameter
  Owners replicas_{replicas_folder};
  Owners workers_{workers_folder};
  std::map<std::string, Array> open_;
  std::vector<std::byte> stored_;
};

/// Sets all ranks' numbers from a checkpoint, whose arrays must be theirs (check_arrays). What compression has left
/// over may be missing, and is then 0, or may be in another number of parts, whose sum stays the same. Values of fp32
/// files go into fp64 models, and the reverse. `progress` is called when another block has been read. For rank 0 in a
/// turn.
void restore_numbers(
    CheckpointTransfer& transfer, CheckpointReader& from, const std::function<void()>& progress = [] {});

}  // namespace lockstep
