// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <utility>

#include "base/error.hpp"
#include "io/hdf5.hpp"
#include "io/hdf5_calls.hpp"
#include "io/raw_file.hpp"

namespace lockstep {

using namespace hdf5;

namespace {

std::string rows_text(std::int64_t first, std::int64_t count) {
  return count == 1 ? fmt::format(", row {}", first) : fmt::format(", rows {} to {}", first, first + count - 1);
}

}  // namespace

Hdf5Rows::Hdf5Rows(std::string where, std::int64_t id, StoredType type, std::vector<std::int64_t> extents,
                   std::shared_ptr<const RawFile> raw)
    : where_(std::move(where)),
      id_(id),
      type_(type),
      extents_(std::move(extents)),
      raw_(std::move(raw)),
      size_(raw_ ? raw_->size() : 0) {}

Hdf5Rows::Hdf5Rows(Hdf5Rows&& other) noexcept
    : where_(std::move(other.where_)),
      id_(std::exchange(other.id_, -1)),
      type_(other.type_),
      extents_(std::move(other.extents_)),
      raw_(std::move(other.raw_)),
      size_(other.size_) {}

Hdf5Rows::~Hdf5Rows() {
  if (id_ < 0) return;
  const LibraryLock lock;
  H5Dclose(id_);
}

/// Calls `transfer` with the dataspaces of these rows in memory, packed, and in the file.
template <class Transfer>
bool Hdf5Rows::transfer(std::int64_t first, std::int64_t count, Transfer transfer) const {
  std::vector<hsize_t> start(extents_.size(), 0), size(extents_.begin(), extents_.end());
  start[0] = static_cast<hsize_t>(first);
  size[0] = static_cast<hsize_t>(count);
  const Handle in_file(H5Dget_space(id_), H5Sclose);
  const Handle packed(H5Screate_simple(static_cast<int>(size.size()), size.data(), nullptr), H5Sclose);
  return H5Sselect_hyperslab(in_file, H5S_SELECT_SET, start.data(), nullptr, size.data(), nullptr) >= 0 &&
         transfer(packed, in_file) >= 0;
}

void Hdf5Rows::read(std::int64_t first, std::int64_t count, void* to) const {
  const LibraryLock lock;
  const Handle memory = memory_type(id_, type_);
  const bool done = transfer(first, count, [&](hid_t packed, hid_t in_file) {
    const herr_t status = H5Dread(id_, memory, packed, in_file, exact_reading(), to);
    require_whole(first, count);
    if (status < 0) read_failed(id_, where_, rows_text(first, count));  // before other calls overwrite the reason
    return status;
  });
  if (!done) damaged(where_);
}

void Hdf5Rows::require_whole(std::int64_t first, std::int64_t count) const {
  if (!raw_) return;
  const std::uint64_t size = raw_->size();
  validate(size >= size_, ExitStatus::bad_data,
           "{}{}: cannot be read (the file had {} bytes when it was opened, and has {} now: another program has cut or "
           "replaced it); make or copy it again, and leave files as they are while they are read",
           where_, rows_text(first, count), size_, size);
}

void Hdf5Rows::write(std::int64_t first, std::int64_t count, const void* from) {
  const LibraryLock lock;
  const bool done = transfer(first, count, [&](hid_t packed, hid_t in_file) {
    const herr_t status = H5Dwrite(id_, native_type(type_), packed, in_file, H5P_DEFAULT, from);
    if (status < 0) write_failed(where_);  // before other calls overwrite the reason
    return status;
  });
  if (!done) write_failed(where_);
}

}  // namespace lockstep
