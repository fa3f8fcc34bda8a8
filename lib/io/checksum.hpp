// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "io/hdf5.hpp"

namespace lockstep {

/// The attribute that holds a dataset's checksum: XXH3 (64 bits) of its packed elements (of the
/// characters, for a text), as 16 hexadecimal digits.
inline constexpr const char* checksum_attribute = "xxh3";

std::string checksum_text(const void* data, std::size_t bytes);
std::string checksum_text(std::uint64_t hash);
/// XXH3, 64 bits.
std::uint64_t hash_of(const void* data, std::size_t bytes);

/// The hash of data that come in pieces.
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

/// A dataset whose rows are written one after the other, as they come, and at last its checksum.
class CheckedRows {
 public:
  /// `extents`: rows × what a row holds.
  CheckedRows(Hdf5File& file, std::string dataset, const StoredType& type, const std::vector<std::int64_t>& extents);
  /// The next `count` rows, packed.
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

/// Throws bad_data when `dataset` has a checksum and `data` has another one.
enum class Checksum { required, if_present };
void verify_checksum(const Hdf5File& file, const std::string& dataset, const void* data, std::size_t bytes,
                     Checksum presence);
/// Verifies a dataset's stored checksum against a hash that is known already.
void verify_checksum(const Hdf5File& file, const std::string& dataset, std::uint64_t hash, Checksum presence);

/// Reads a dataset once, in pieces, whatever its size: gives each to `take`, with the number of its first row, and
/// verifies the checksum at the end where there is one. The heart beats with each piece.
void read_in_pieces(const Hdf5File& file, const std::string& dataset, const StoredArray& array,
                    const std::function<void(std::int64_t first, std::int64_t rows, const std::byte* values)>& take);

enum class ChecksumState { none, holds, broken };
/// Reads the dataset in pieces, whatever its size.
ChecksumState check_dataset(const Hdf5File& file, const std::string& dataset);

}  // namespace lockstep
