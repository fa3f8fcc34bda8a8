// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "io/raw_file.hpp"

namespace lockstep {

/// A stretch of a file and its XXH3 (64 bits).
struct FilePart {
  std::uint64_t first = 0, bytes = 0, hash = 0;
  std::string name;  ///< of the dataset whose numbers it holds; empty: what lies between them, HDF5's structure
};

/// Every byte of an HDF5 file, told in its user block (the first bytes of a file, which HDF5 leaves to others): lines
/// of text, the last of which is a hash of those before it, and zeros up to the block's end. So a file can be found
/// sound, or damaged, before HDF5 reads any of it.

/// The size of a user block for a manifest of so many datasets: HDF5 wants a power of two, 512 at least.
std::size_t manifest_block(const std::vector<std::string>& datasets);

/// Writes the manifest of a file whose datasets are `datasets` (their parts in any order, hashes already made); hashes
/// what lies between them. The first `block` bytes must be free.
void write_manifest(RawFile& file, std::size_t block, std::vector<FilePart> datasets);

enum class ManifestState { none, holds };
/// Reads all of the file. Throws bad_data for one that is damaged, naming the dataset or what else is wrong, io_error
/// when it cannot be read; `none`: it begins as HDF5 files do, or is none. `progress`: another part has been read.
ManifestState verify_manifest(const std::filesystem::path& path, const std::function<void()>& progress = [] {});

}  // namespace lockstep
