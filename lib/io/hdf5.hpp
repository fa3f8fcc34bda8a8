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

/// One HDF5 file. Everything that touches the HDF5 library stands in hdf5.cpp, behind one lock
/// (distributions build HDF5 without thread safety, and the loader's thread reads beside the main
/// one). Damage throws bad_data, failed writes io_error, both with the library's own reason.
class Hdf5File {
 public:
  /// Read only. Throws missing_file, or bad_data for what is no sound HDF5 file.
  static Hdf5File open(const std::filesystem::path& path);
  /// A new file; replaces what has that name. Its first `user_block` bytes (0, or a power of 2 from 512 on) are left to
  /// others. Throws cannot_create, and io_error where there is no room.
  static Hdf5File create(const std::filesystem::path& path, std::size_t user_block = 0) {
    return create(path, path.string(), user_block);
  }
  /// `name` is for messages.
  static Hdf5File create(const std::filesystem::path& path, const std::string& name, std::size_t user_block = 0);

  Hdf5File(Hdf5File&&) noexcept;
  Hdf5File& operator=(Hdf5File&&) = delete;
  ~Hdf5File();

  const std::string& name() const { return name_; }
  /// Absolute names of all datasets, sorted; of none that a link leads to.
  std::vector<std::string> datasets() const;
  /// Whether there is anything of that name, or a link.
  bool has(const std::string& dataset) const;
  bool has_dataset(const std::string& name) const;
  StoredArray info(const std::string& dataset) const;

  /// The whole dataset, converted to `type`.
  void read(const std::string& dataset, const StoredType& type, void* to) const;
  /// Where in the file its numbers lie, packed, as this machine keeps those of that type; none for a dataset without
  /// numbers. Throws bad_data for one that is stored in another way.
  std::optional<std::uint64_t> place(const std::string& dataset, const StoredType& type) const;
  /// Opens a dataset for reading rows (slices along its first dimension) again and again.
  Hdf5Rows rows(const std::string& dataset, const StoredType& type) const;
  std::string read_text(const std::string& dataset) const;
  std::optional<std::string> attribute(const std::string& dataset, const std::string& key) const;

  /// Groups on the way are made. Nothing in the file depends on time or machine.
  void write(const std::string& dataset, const StoredType& type, const std::vector<std::int64_t>& extents,
             const void* data);
  /// Makes a dataset whose numbers, packed, are to be written by others, once this file is flushed: at this place in
  /// it. None for a dataset without numbers.
  std::optional<std::uint64_t> reserve(const std::string& dataset, const StoredType& type,
                                       const std::vector<std::int64_t>& extents);
  /// Makes a dataset whose rows are then written one after the other.
  Hdf5Rows create_rows(const std::string& dataset, const StoredType& type, const std::vector<std::int64_t>& extents);
  void write_text(const std::string& dataset, const std::string& text);
  void write_attribute(const std::string& dataset, const std::string& key, const std::string& text);
  /// In the place of the text that is there, which is as long: nothing else in the file changes.
  void replace_attribute(const std::string& dataset, const std::string& key, const std::string& text);
  void flush();
  /// Flushes and closes; the destructor would keep silent about a full disk.
  void close();

 private:
  Hdf5File(std::string name, std::int64_t id, std::unique_ptr<RawFile> raw);
  /// An identifier to close.
  std::int64_t open_dataset(const std::string& dataset, const std::string& where) const;
  void require_old_layout(std::uint64_t header, const std::string& where) const;
  void make_groups(const std::string& dataset);
  std::int64_t make_dataset(const std::string& dataset, const StoredType& type,
                            const std::vector<std::int64_t>& extents, bool allocate);

  std::string name_;
  std::int64_t id_;
  std::unique_ptr<RawFile> raw_;  ///< what is read past the library; null: the file is written
};

/// Rows of one dataset. Keeps its file open by itself.
class Hdf5Rows {
 public:
  Hdf5Rows(Hdf5Rows&&) noexcept;
  Hdf5Rows& operator=(Hdf5Rows&&) = delete;
  ~Hdf5Rows();

  /// Rows first … first+count-1, packed.
  void read(std::int64_t first, std::int64_t count, void* to) const;
  void write(std::int64_t first, std::int64_t count, const void* from);

 private:
  friend class Hdf5File;
  template <class Transfer>
  bool transfer(std::int64_t first, std::int64_t count, Transfer transfer) const;
  Hdf5Rows(std::string where, std::int64_t id, StoredType type, std::vector<std::int64_t> extents);

  std::string where_;
  std::int64_t id_;
  StoredType type_;
  std::vector<std::int64_t> extents_;
};

/// Throws missing_file, bad_data or io_error unless `path` is a file, not empty, that can be opened.
void require_readable_file(const std::filesystem::path& path);

/// "1.14.5", for `lockstep info`.
std::string hdf5_version();

/// For a process that is ours, before anything else here: HDF5 is not to close files at its end. They are closed by
/// their objects, and the library would try again, and loop, over one whose disk is full.
void skip_hdf5_at_exit();

}  // namespace lockstep
