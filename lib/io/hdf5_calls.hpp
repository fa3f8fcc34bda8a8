// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <hdf5.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "io/hdf5.hpp"

// For io/hdf5.cpp alone: HDF5's identifiers, errors and types as it needs them.
namespace lockstep::hdf5 {

/// Held during every call of the library. Meanwhile the library does not print errors itself, whatever the process has
/// set for that (of this thread, in thread-safe builds).
class LibraryLock {
 public:
  LibraryLock();
  ~LibraryLock();
  LibraryLock(const LibraryLock&) = delete;
  LibraryLock& operator=(const LibraryLock&) = delete;

 private:
  static std::recursive_mutex& mutex();
  std::lock_guard<std::recursive_mutex> lock_;
  H5E_auto2_t print_ = nullptr;  ///< as it was
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
  operator hid_t() const { return id_; }  // NOLINT: stands for the identifier
  hid_t release() { return std::exchange(id_, -1); }
  /// False where what the library has kept back until now cannot be written.
  bool close() { return close_(release()) >= 0; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

/// The innermost entry of the library's error stack: the cause, not who noticed it. Of what the system has refused, the
/// system's own words.
std::string reason();

/// Throws bad_data for what cannot be read, with the library's reason.
[[noreturn]] void damaged(const std::string& where, const std::string& why = reason());
/// Throws bad_data for a dataset whose numbers cannot be read: naming the filter that this library lacks, where it is
/// stored with one, or else as `damaged`.
[[noreturn]] void read_failed(hid_t dataset, const std::string& where);
/// Throws io_error for what cannot be written, with the library's reason.
[[noreturn]] void write_failed(const std::string& file);
/// Throws cannot_create, with the library's reason; io_error where there is no room.
[[noreturn]] void create_failed(const std::string& file);

/// The type in memory: at most as wide as `type`, whose size the caller's array has. Of a number (stored_type).
hid_t native_type(const StoredType& type);
/// Of sizes for which memory has no type, as reals of three bytes: other.
StoredType stored_type(hid_t type);
std::vector<std::int64_t> extents_of(hid_t space);
/// To be closed by the caller.
hid_t text_type(const std::string& text);

/// A string dataset or attribute, which `read` (memory type, address) reads.
std::string string_of(hid_t type, hid_t space, const std::string& where,
                      const std::function<herr_t(hid_t, char*)>& read);

/// Not opened: kind, and address of its header. (The newer calls for these differ between HDF5 1.10 and 1.12.)
H5G_stat_t object_at(hid_t file, const std::string& name, const std::string& where);

/// Throws bad_data where external links have led out of `file`: what guards a dataset would look at the wrong bytes.
void require_in_file(hid_t file, const H5G_stat_t& object, const std::string& where);

/// A few bytes can promise terabytes. What is to be read must be there, but for what deflate, the strongest of the
/// usual filters, makes of it at most (1032 : 1).
void require_stored(hid_t file, hid_t dataset, const StoredArray& array, const std::string& where);

}  // namespace lockstep::hdf5
