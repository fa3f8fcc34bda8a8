// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/stored_type.hpp"

namespace lockstep {

class Hdf5Rows;
class RawFile;

/// An HDF5 file. All calls of the HDF5 library are in hdf5.cpp, hdf5_rows.cpp and hdf5_calls.cpp, behind one lock:
/// distributions build HDF5 without thread safety, and the loader's thread reads while the main one does. Damaged files
/// throw bad_data, failed writes io_error, with the library's own reason.
class Hdf5File {
 public:
  /// Whether a dataset's numbers may lie in other files (H5Pset_external).
  enum class External { refused, allowed };
  /// Opens a file for reading. Throws missing_file, io_error, or bad_data for anything but a sound HDF5 file.
  static Hdf5File open(const std::filesystem::path& path, External external = External::refused);
  /// Creates a file, replacing an existing one. Its first `user_block` bytes (0, or a power of 2 from 512 on) are left
  /// to other writers. Throws cannot_create, or io_error if there is no room.
  static Hdf5File create(const std::filesystem::path& path, std::size_t user_block = 0) {
    return create(path, path.string(), user_block);
  }
  /// `name`: the file's name in messages.
  static Hdf5File create(const std::filesystem::path& path, const std::string& name, std::size_t user_block = 0);

  Hdf5File(Hdf5File&&) noexcept;
  Hdf5File& operator=(Hdf5File&&) = delete;
  ~Hdf5File();

  const std::string& name() const { return name_; }
  /// Absolute names of all datasets, sorted; those behind soft and external links are left out.
  std::vector<std::string> datasets() const;
  /// True if there is an object or a link of this name.
  bool has(const std::string& dataset) const;
  bool has_dataset(const std::string& name) const;
  /// Type and shape of a dataset.
  StoredArray shape_of(const std::string& dataset) const;
  /// Type and shape of a dataset whose numbers are to be read. Throws bad_data if they are not all there, apart from
  /// chunks that stand for a fill value.
  StoredArray info(const std::string& dataset) const;

  /// Reads the whole dataset, converted to `type`.
  void read(const std::string& dataset, const StoredType& type, void* to) const;
  /// Offset in the file of the dataset's numbers, which are packed and stored as this machine represents `type`; empty
  /// for a dataset without elements. Throws bad_data if they are stored in another way.
  std::optional<std::uint64_t> place(const std::string& dataset, const StoredType& type) const;
  /// Opens a dataset for repeated reading of rows (slices along its first dimension).
  Hdf5Rows rows(const std::string& dataset, const StoredType& type) const;
  std::string read_text(const std::string& dataset) const;
  std::optional<std::string> attribute(const std::string& dataset, const std::string& key) const;
  /// Returns an attribute that is a number; empty if there is none.
  std::optional<double> number(const std::string& dataset, const std::string& key) const;

  /// Writes a dataset, and creates its missing groups. The file's bytes do not depend on time or machine.
  void write(const std::string& dataset, const StoredType& type, const std::vector<std::int64_t>& extents,
             const void* data);
  /// Creates a dataset and returns the offset in the file where its packed numbers must be written by other means, once
  /// this file is flushed; empty for a dataset without elements.
  std::optional<std::uint64_t> reserve(const std::string& dataset, const StoredType& type,
                                       const std::vector<std::int64_t>& extents);
  /// Creates a dataset whose rows are written later.
  Hdf5Rows create_rows(const std::string& dataset, const StoredType& type, const std::vector<std::int64_t>& extents);
  void write_text(const std::string& dataset, const std::string& text);
  void write_attribute(const std::string& dataset, const std::string& key, const std::string& text);
  /// Overwrites an attribute with a text of the same length, so that nothing else in the file changes.
  void replace_attribute(const std::string& dataset, const std::string& key, const std::string& text);
  void flush();
  /// Flushes and closes the file. Throws io_error, on a full disk for example, which the destructor would hide.
  void close();

 private:
  Hdf5File(std::string name, std::int64_t id, std::unique_ptr<RawFile> raw, External external);
  /// Returns an identifier that the caller must close.
  std::int64_t open_dataset(const std::string& dataset, const std::string& where) const;
  void require_old_layout(std::uint64_t header, const std::string& where) const;
  void make_groups(const std::string& dataset);
  std::int64_t make_dataset(const std::string& dataset, const StoredType& type,
                            const std::vector<std::int64_t>& extents, bool allocate);

  std::string name_;
  std::int64_t id_;
  std::shared_ptr<RawFile> raw_;  ///< for reads that bypass the library; null if the file is open for writing
  External external_;
};

/// Rows of one dataset. Keeps the file open by itself.
class Hdf5Rows {
 public:
  Hdf5Rows(Hdf5Rows&&) noexcept;
  Hdf5Rows& operator=(Hdf5Rows&&) = delete;
  ~Hdf5Rows();

  /// Transfers rows first … first+count-1, packed in memory. Reading throws bad_data if the file has shrunk meanwhile,
  /// since the library would give zeros for what is no longer there.
  void read(std::int64_t first, std::int64_t count, void* to) const;
  void write(std::int64_t first, std::int64_t count, const void* from);

 private:
  friend class Hdf5File;
  template <class Transfer>
  bool transfer(std::int64_t first, std::int64_t count, Transfer transfer) const;
  Hdf5Rows(std::string where, std::int64_t id, StoredType type, std::vector<std::int64_t> extents,
           std::shared_ptr<const RawFile> raw = nullptr);
  /// Throws bad_data, naming these rows, if the file is smaller than it was when it was opened.
  void require_whole(std::int64_t first, std::int64_t count) const;

  std::string where_;
  std::int64_t id_;
  StoredType type_;
  std::vector<std::int64_t> extents_;
  std::shared_ptr<const RawFile> raw_;  ///< to see whether the file shrinks; null if it is open for writing
  std::uint64_t size_ = 0;              ///< bytes of the file when it was opened
};

/// Throws missing_file, bad_data or io_error unless `path` is a readable file that is not empty.
void require_readable_file(const std::filesystem::path& path);

/// "1.14.5", for `lockstep info`.
std::string hdf5_version();

/// Keeps HDF5 from closing files when the process exits. To be called at the beginning of Lockstep's own programs. The
/// files are closed by their objects, and HDF5 would retry, in an endless loop, one whose disk is full.
void skip_hdf5_at_exit();

}  // namespace lockstep
