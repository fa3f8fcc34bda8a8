// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <hdf5.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "io/hdf5.hpp"
#include "io/raw_file.hpp"

// HDF5's identifiers, errors and types, and what must be checked before the library opens a dataset; for hdf5.cpp and
// hdf5_rows.cpp only.
namespace lockstep::hdf5 {

/// Held during every call of the library. Meanwhile the library prints no errors, whatever the process has configured
/// (for this thread only, in thread-safe builds).
class LibraryLock {
 public:
  LibraryLock();
  ~LibraryLock();
  LibraryLock(const LibraryLock&) = delete;
  LibraryLock& operator=(const LibraryLock&) = delete;

 private:
  static std::recursive_mutex& mutex();
  std::lock_guard<std::recursive_mutex> lock_;
  H5E_auto2_t print_ = nullptr;  ///< previous settings
  void* print_data_ = nullptr;
};

/// Closes an HDF5 identifier at the end of its scope.
class Handle {
 public:
  Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  operator hid_t() const { return id_; }  // NOLINT: represents the identifier
  hid_t release() { return std::exchange(id_, -1); }
  /// Returns false if data still buffered by the library cannot be written.
  bool close() { return close_(release()) >= 0; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

/// Innermost entry of the library's error stack, which is the cause. For a refused system call, the system's message.
std::string reason();

/// Throws bad_data for an object that cannot be read, with the library's reason.
[[noreturn]] void damaged(const std::string& where, const std::string& why = reason());
/// Throws bad_data for a dataset that cannot be read: names the filter that this library lacks if the dataset uses one,
/// otherwise as `damaged`, with the part of the dataset that was to be read (", row 7").
[[noreturn]] void read_failed(hid_t dataset, const std::string& where, const std::string& part = "");
/// Throws io_error for a file that cannot be written, with the library's reason.
[[noreturn]] void write_failed(const std::string& file);
/// Throws cannot_create with the library's reason, or io_error if there is no room.
[[noreturn]] void create_failed(const std::string& file);

/// Memory type for a number of type `type`; never wider than type.bytes, the element size of the caller's array.
hid_t native_type(const StoredType& type);
/// Type in memory for what is read of a dataset as `type`; a real for which this machine has no type (f16) stays as it
/// is stored.
Handle memory_type(hid_t dataset, const StoredType& type);
/// Type of a number; Kind::other for sizes without a memory type, such as reals of three bytes.
StoredType stored_type(hid_t type);
std::vector<std::int64_t> extents_of(hid_t space);
/// Fixed-length UTF-8 type for `text`; the caller must close it.
hid_t text_type(const std::string& text);

/// Returns the single string of a dataset or attribute; `read` gets the memory type and the address.
std::string string_of(hid_t type, hid_t space, const std::string& where,
                      const std::function<herr_t(hid_t, char*)>& read);

/// Returns kind and header address of an object without opening it. (The newer calls for this differ between HDF5 1.10
/// and 1.12.)
H5G_stat_t object_at(hid_t file, const std::string& name, const std::string& where);

/// Throws bad_data if external links led to another file, in which the checks of a dataset would look at wrong bytes.
void require_in_file(hid_t file, const H5G_stat_t& object, const std::string& where);

/// Throws bad_data if the dataset's numbers lie outside the HDF5 file (H5Pset_external), from where HDF5 would read any
/// file of the machine; if that is `allowed`, only if they are not all there.
void check_external_storage(hid_t dataset, bool allowed, const std::string& where);

/// Properties of reading, by which a number that its type in memory cannot hold is an error: integers that are read as
/// reals must keep their value.
hid_t exact_reading();

/// Returns StoredArray::chunk.
std::vector<std::int64_t> unpacked_chunk(hid_t dataset, const StoredArray& array, const std::string& where);

/// Throws bad_data unless the whole dataset was written: what was not would be read as zeros, and a few bytes can
/// promise terabytes. The file must store all chunks of a dataset, and all of its bytes; of more than 1 MiB that
/// pass filters at least 1/1032², the limit of deflate applied twice. If the dataset has a fill value of its own,
/// chunks may be missing; returns how many are.
std::int64_t require_stored(hid_t file, hid_t dataset, const StoredArray& array, const std::string& where);

/// Representation of addresses in an HDF5 file.
struct AddressFormat {
  std::uint64_t base = 0;  ///< offset of address 0 in the file
  std::size_t address_bytes = 8, length_bytes = 8;
};

/// How a dataset is stored if it needs version 4 of the layout message: in chunks with an index other than a version-1
/// B-tree, or as a virtual dataset. HDF5 (1.14.5) trusts what a damaged file says there, and crashes when it opens the
/// dataset, so this is checked before.
enum class NewLayout { none, chunks, virtual_dataset };
/// Returns the layout of the dataset whose object header is at `address`; none if there is no header or no such
/// message, which HDF5 itself detects. (Object headers of versions 1 and 2: "HDF5 File Format Specification",
/// version 3.0, IV.A.)
NewLayout new_layout(const RawFile& file, const AddressFormat& format, std::uint64_t address);

}  // namespace lockstep::hdf5
