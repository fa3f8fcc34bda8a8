// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "io/checksum.hpp"

#include <xxhash.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/heartbeat.hpp"

namespace lockstep {
namespace {

/// Hashes a whole dataset, passing it to `take` in pieces of about 16 MiB.
std::uint64_t hash_in_pieces(const Hdf5File& file, const std::string& dataset, const StoredArray& array,
                             const std::function<void(std::int64_t, std::int64_t, const std::byte*)>& take) {
  RunningHash hash;
  if (array.extents.empty()) {
    std::vector<std::byte> value(array.type.bytes);
    file.read(dataset, array.type, value.data());
    hash.add(value.data(), value.size());
    take(0, 1, value.data());
  } else if (array.count() > 0) {
    const std::int64_t rows = array.extents[0];
    const std::size_t row_bytes = array.bytes() / static_cast<std::size_t>(rows);
    const std::int64_t piece = std::max<std::int64_t>(1,
                                                      (std::int64_t{16} << 20) / static_cast<std::int64_t>(row_bytes));
    const Hdf5Rows reader = file.rows(dataset, array.type);
    std::vector<std::byte> values(static_cast<std::size_t>(std::min(piece, rows)) * row_bytes);
    for (std::int64_t first = 0; first < rows; first += piece) {
      const std::int64_t count = std::min(piece, rows - first);
      reader.read(first, count, values.data());
      hash.add(values.data(), static_cast<std::size_t>(count) * row_bytes);
      take(first, count, values.data());
      heartbeat().beat();  // large files take long
    }
  }
  return hash.value();
}

}  // namespace

std::uint64_t hash_of(const void* data, std::size_t bytes) { return XXH3_64bits(data, bytes); }

std::string checksum_text(const void* data, std::size_t bytes) { return checksum_text(hash_of(data, bytes)); }
std::string checksum_text(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

RunningHash::RunningHash()
    : state_(XXH3_createState(), [](void* state) { XXH3_freeState(static_cast<XXH3_state_t*>(state)); }) {
  XXH3_64bits_reset(static_cast<XXH3_state_t*>(state_.get()));
}

void RunningHash::add(const void* data, std::size_t bytes) {
  XXH3_64bits_update(static_cast<XXH3_state_t*>(state_.get()), data, bytes);
}

std::uint64_t RunningHash::value() const { return XXH3_64bits_digest(static_cast<const XXH3_state_t*>(state_.get())); }

void write_text_checked(Hdf5File& file, const std::string& dataset, const std::string& text) {
  file.write_text(dataset, text);
  file.write_attribute(dataset, checksum_attribute, checksum_text(text.data(), text.size()));
}

CheckedRows::CheckedRows(Hdf5File& file, std::string dataset, const StoredType& type,
                         const std::vector<std::int64_t>& extents)
    : file_(file),
      dataset_(std::move(dataset)),
      row_bytes_(StoredArray{type, {extents.begin() + 1, extents.end()}}.bytes()),
      rows_(file.create_rows(dataset_, type, extents)) {}

void CheckedRows::append(const void* rows, std::int64_t count) {
  if (count == 0) return;
  rows_.write(written_, count, rows);
  hash_.add(rows, static_cast<std::size_t>(count) * row_bytes_);
  written_ += count;
}

void CheckedRows::finish() { file_.write_attribute(dataset_, checksum_attribute, checksum_text(hash_.value())); }

void verify_checksum(const Hdf5File& file, const std::string& dataset, const void* data, std::size_t bytes,
                     Checksum presence) {
  verify_checksum(file, dataset, hash_of(data, bytes), presence);
}

void verify_checksum(const Hdf5File& file, const std::string& dataset, std::uint64_t hash, Checksum presence) {
  const auto expected = file.attribute(dataset, checksum_attribute);
  validate(expected || presence == Checksum::if_present, ExitStatus::bad_data,
           "{}:{}: has no checksum (attribute {}); give a file that Lockstep wrote, or copy it again if it is damaged",
           file.name(), dataset, checksum_attribute);
  validate(!expected || *expected == checksum_text(hash), ExitStatus::bad_data,
           "{}:{}: the checksum does not match (the file is damaged); make or copy it again", file.name(), dataset);
}

void read_in_pieces(const Hdf5File& file, const std::string& dataset, const StoredArray& array,
                    const std::function<void(std::int64_t, std::int64_t, const std::byte*)>& take) {
  verify_checksum(file, dataset, hash_in_pieces(file, dataset, array, take), Checksum::if_present);
}

ChecksumState check_dataset(const Hdf5File& file, const std::string& dataset) {
  const auto expected = file.attribute(dataset, checksum_attribute);
  if (!expected) return ChecksumState::none;
  const StoredArray array = file.info(dataset);
  std::string found;
  if (array.type.kind == StoredType::Kind::text) {
    const std::string text = file.read_text(dataset);
    found = checksum_text(text.data(), text.size());
  } else if (array.type.kind != StoredType::Kind::other) {
    found = checksum_text(hash_in_pieces(file, dataset, array, [](std::int64_t, std::int64_t, const std::byte*) {}));
  }
  return found == *expected ? ChecksumState::holds : ChecksumState::broken;
}

}  // namespace lockstep
