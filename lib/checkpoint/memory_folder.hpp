// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

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

}  // namespace lockstep
