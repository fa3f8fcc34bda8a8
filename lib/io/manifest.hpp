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

/// A range of a file and its XXH3 hash (64 bits).
struct FilePart {
  std::uint64_t first = 0, bytes = 0, hash = 0;
  std::string name;  ///< dataset whose numbers it holds; empty: HDF5's structures between datasets
};

/// A manifest covers every byte of an HDF5 file. It is stored in the user block (the first bytes of a file, which HDF5
/// leaves to applications) as lines of text, the last of which holds a hash of all lines before it, padded with zeros.
/// So damage is found before HDF5 reads any of the file.

/// Size of the user block for a manifest of these datasets: a power of two, at least 512, as HDF5 requires. Throws
/// cannot_create if that is more than readers accept.
std::size_t manifest_block(const std::vector<std::string>& datasets);

/// Writes the manifest of a file. `datasets`: parts of all datasets, in any order, with their hashes; the ranges
/// between them are hashed here. The first `block` bytes of the file must be free.
void write_manifest(RawFile& file, std::size_t block, std::vector<FilePart> datasets);

enum class ManifestState { none, holds };
/// Reads and verifies the whole file. Returns `none` if it has no manifest: it begins with the HDF5 signature, or is no
/// HDF5 file. Throws bad_data if it is damaged, naming the dataset or other cause, and io_error if it cannot be read.
/// `progress` is called after each piece.
ManifestState verify_manifest(const std::filesystem::path& path, const std::function<void()>& progress = [] {});

}  // namespace lockstep
