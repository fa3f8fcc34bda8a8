// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace lockstep {

/// The files that a run keeps in the memory of the nodes that it is on, and which outlive its processes.
class MemoryFolder {
 public:
  /// Throws cannot_create where the machine has no such memory.
  static void require();

  /// `run_folder`: names the run.
  explicit MemoryFolder(const std::filesystem::path& run_folder);

  /// The copy of what this rank holds after this step, kept by a node: "lockstep-0123456789abcdef-node1-rank3-step-7".
  std::filesystem::path file(int node, int owner, std::int64_t step) const;
  /// The files of this machine that are whole, whatever their step.
  std::vector<std::filesystem::path> files() const;
  /// Removes all, and what interrupted writes have left.
  void clear() const;

  /// Where a file stands until it is whole.
  static std::filesystem::path unfinished(const std::filesystem::path& file) {
    return file.string() + unfinished_suffix;
  }

 private:
  static constexpr const char* unfinished_suffix = ".part";
  std::vector<std::filesystem::path> all() const;

  std::string prefix_;
};

}  // namespace lockstep
