// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "io/hdf5.hpp"
#include "io/raw_file.hpp"

namespace lockstep {

/// Name of the attribute that holds a dataset's checksum: XXH3 (64 bits) of its packed elements, or of a text's
/// characters, as 16 hexadecimal digits.
inline constexpr const char* checksum_attribute = "xxh3";

std::string checksum_text(const void* data, std::size_t bytes);
std::string checksum_text(std::uint64_t hash);
/// XXH3, 64 bits.
std::uint64_t hash_of(const void* data, std::size_t bytes);

/// Computes the hash of data that arrive in pieces.
class RunningHash {
 public:
  RunningHash();
  void add(const void* data, std::size_t bytes);
  std::uint64_t value() const;

 private:
  std::unique_ptr<void, void (*)(void*)> state_;
};

/// Writes a text with its checksum.
void write_text_checked(Hdf5File& file, const std::string& dataset, const std::string& text);

/// Writes a dataset row by row, and finally its checksum.
class CheckedRows {
 public:
  /// `extents`: [rows, extents of a row…].
  CheckedRows(Hdf5File& file, std::string dataset, const StoredType& type, const std::vector<std::int64_t>& extents);
  /// Writes the next `count` rows, which are packed.
  void append(const void* rows, std::int64_t count);
  void finish();

 private:
  Hdf5File& file_;
  std::string dataset_;
  std::size_t row_bytes_;
  Hdf5Rows rows_;
  RunningHash hash_;
  std::int64_t written_ = 0;
};

/// Whether a dataset without a checksum is an error.
enum class Checksum { required, if_present };
/// Throws bad_data if `data` does not match the checksum of `dataset`, or if a required checksum is missing.
void verify_checksum(const Hdf5File& file, const std::string& dataset, const void* data, std::size_t bytes,
                     Checksum presence);
/// Verifies the checksum of a dataset against a hash that was computed already.
void verify_checksum(const Hdf5File& file, const std::string& dataset, std::uint64_t hash, Checksum presence);

/// Reads a dataset of any size once, in pieces. Passes each piece to `take` with the number of its first row, and beats
/// the heartbeat. At the end verifies the checksum, if there is one.
void read_in_pieces(const Hdf5File& file, const std::string& dataset, const StoredArray& array,
                    const std::function<void(std::int64_t first, std::int64_t rows, const std::byte* values)>& take);

enum class ChecksumState { none, holds, broken };
/// Verifies the checksum of a dataset of any size, reading it in pieces.
ChecksumState check_dataset(const Hdf5File& file, const std::string& dataset);

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
