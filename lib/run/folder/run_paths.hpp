// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <filesystem>
#include <utility>

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

}  // namespace lockstep
