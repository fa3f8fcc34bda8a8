// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "checkpoint/memory_folder.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "io/checksum.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// The folder where Linux keeps POSIX shared memory.
constexpr const char* memory = "/dev/shm";

}  // namespace

void MemoryFolder::require() {
  validate(
      fs::is_directory(memory), ExitStatus::cannot_create,
      "checkpoint.neighbours_every: copies are kept in {}, which does not exist; leave the key out on this machine",
      memory);
}

MemoryFolder::MemoryFolder(const fs::path& run_folder) {
  const std::string name = fs::weakly_canonical(run_folder).string();
  prefix_ = "lockstep-" + checksum_text(name.data(), name.size());
}

fs::path MemoryFolder::file(int node, int owner, std::int64_t step) const {
  return fs::path(memory) / fmt::format("{}-node{}-rank{}-step-{}", prefix_, node, owner, step);
}

std::vector<fs::path> MemoryFolder::all() const {
  std::vector<fs::path> found;
  std::error_code code;
  for (fs::directory_iterator entry(memory, code), end; !code && entry != end; entry.increment(code))
    if (entry->path().filename().string().starts_with(prefix_)) found.push_back(entry->path());
  std::ranges::sort(found);
  return found;
}

std::vector<fs::path> MemoryFolder::files() const {
  std::vector<fs::path> files = all();
  std::erase_if(files, [](const fs::path& file) { return file.extension() == unfinished_suffix; });
  return files;
}

void MemoryFolder::clear() const {
  std::error_code ignored;  // another process that shares the memory may have removed it
  for (const fs::path& file : all()) fs::remove(file, ignored);
}

}  // namespace lockstep
