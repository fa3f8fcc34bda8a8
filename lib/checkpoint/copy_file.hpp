// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "parallel/sharded_state.hpp"

// A rank's part of a checkpoint as a file in a node's memory: "LOCKCOPY", the bytes of the description (u64) and of the
// numbers (u64), the description (JSON), the numbers that the rank holds, and XXH3 (u64) of everything before.
namespace lockstep {

/// The files that a run keeps in the memory of its nodes, and which outlive its processes.
class MemoryFolder {
 public:
  /// Throws cannot_create if the machine has no such memory.
  static void require();

  /// `run_folder` identifies the run.
  explicit MemoryFolder(const std::filesystem::path& run_folder);

  /// Path of the copy, on node `node`, of what rank `owner` holds after a step:
  /// "lockstep-0123456789abcdef-node1-rank3-step-7".
  std::filesystem::path file(int node, int owner, std::int64_t step) const;
  /// Returns the whole files of this machine, of any step.
  std::vector<std::filesystem::path> files() const;
  /// Removes all files of the run, and what interrupted writes have left.
  void clear() const;

  /// Path of a file until it is whole.
  static std::filesystem::path unfinished(const std::filesystem::path& file) {
    return file.string() + unfinished_suffix;
  }

 private:
  static constexpr const char* unfinished_suffix = ".part";
  std::vector<std::filesystem::path> all() const;

  std::string prefix_;
};

/// Origin of a copy in memory: the checkpoint, and the rank whose part of it the file holds.
struct CopyOrigin {
  std::string run;    ///< known to this run alone
  std::string start;  ///< identifies a start of the run: an earlier one has had other steps of the same numbers
  std::int64_t step = 0;
  int owner = 0, owners = 1;  ///< ranks

  friend bool operator==(const CopyOrigin&, const CopyOrigin&) = default;
};

/// Returns what comes before the numbers in a file. `numbers` need no values; `texts` are those of the checkpoint.
std::string copy_head(const CopyOrigin& origin, const std::map<std::string, std::string>& texts,
                      const std::vector<ShardedState>& numbers);

/// Returns the origin in the description, without a look at what follows. Throws bad_data or io_error, naming the file.
CopyOrigin origin_of_copy(const std::filesystem::path& file);

struct CopyDescription {
  CopyOrigin origin;
  std::map<std::string, std::string> texts;
  std::vector<ShardedState> numbers;  ///< without their values
  std::vector<std::uint64_t> places;  ///< of the values of each of numbers, in the file
};
CopyDescription describe_copy(const std::string& head);
/// Reads and verifies a whole file. Throws bad_data for one that is truncated, damaged or of another kind.
CopyDescription verify_copy(const std::filesystem::path& file);

}  // namespace lockstep
