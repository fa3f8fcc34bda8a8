// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/number_stream.hpp"
#include "io/checksum.hpp"
#include "io/raw_file.hpp"

// Ranks' numbers as the arrays of a checkpoint: /model/<layer>/<parameter>, /optimizer/<state>/<layer>/<parameter>, and
// /outer/<state>/<layer>/<parameter> of the step between replicas. What replicas have of their own stands below
// /replicas/<number>: <state>/<layer>/<parameter>, of parameters with "parameters" for the state; what simulated
// asynchronous workers have read, likewise below /workers/<number> (of earlier builds: among the replicas'); what
// compressed sums have left over, below /compression/<state>/<part>.
namespace lockstep {

inline constexpr const char *optimizer_folder = "/optimizer/", *replicas_folder = "/replicas/",
                            *workers_folder = "/workers/";
/// The folder of what a replica has of its own.
std::string replica_folder(int replica);
/// Stands in a replica's folder, of parameters, where states have their names.
inline constexpr const char* replica_parameters = "parameters";

/// The arrays that a checkpoint of these numbers has, without data.
std::vector<NamedArray> arrays_of(const std::vector<ShardedState>& numbers);
/// Their numbers, of all ranks. For rank 0 in a turn.
NumberSource source_of(NumberStream& stream);

/// The numbers of a checkpoint, read as they are asked for.
class CheckpointNumbers {
 public:
  /// Opens a checkpoint that open_checkpoint has found sound.
  explicit CheckpointNumbers(const std::string& path);

  const std::string& file() const { return file_.name(); }
  /// The arrays whose sum, times `share`, a parameter of these numbers is.
  struct Summands {
    std::vector<std::string> arrays;
    double share = 1;
  };
  /// Of as many replicas as there were, that of its own; of any other number of them, or of none, the average of those
  /// of all replicas, or what they had in common. Of parts, likewise that of its own; or an equal share of the sum of
  /// all. None for what the checkpoint does not have and begins with zeros (ShardedState::is_optional).
  Summands summands_for(const ShardedState& numbers, const Parameter& parameter) const;
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
  Summands parts_for(const ShardedState& numbers, const Parameter& parameter) const;
  /// Who has something of its own: the folder of all, and how many there are.
  struct Owners {
    const char* folder;
    int count = 0;
  };
  /// Who has numbers of this kind; nobody, where the file has something else in their place.
  Owners owners_of(const ShardedState& numbers) const;

  Hdf5File file_;
  RawFile bytes_;
  std::set<std::string> names_;  ///< of all arrays
  Owners replicas_{replicas_folder};
  Owners workers_{workers_folder};  ///< in the replicas' folder where an earlier build has written the file
  std::map<std::string, Array> open_;
  std::vector<std::byte> stored_;
};

/// All ranks' numbers become those of the checkpoint, whose arrays must be theirs (check_arrays; what compression has
/// left over may be missing, and is 0 then, or in another number of parts, whose sum stays the same). Values of fp32
/// files go into fp64 models and the reverse. `progress`: another block has been read. For rank 0 in a turn.
void restore_numbers(NumberStream& stream, CheckpointNumbers& from, const std::function<void()>& progress = [] {});

}  // namespace lockstep
