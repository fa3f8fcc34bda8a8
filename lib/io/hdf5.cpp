// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "io/hdf5.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "base/text_file.hpp"
#include "io/hdf5_calls.hpp"
#include "io/raw_file.hpp"

namespace lockstep {

using namespace hdf5;

void require_readable_file(const std::filesystem::path& path) {
  std::error_code code;
  const auto status = std::filesystem::status(path, code);
  validate(std::filesystem::exists(status) ||
               (code && code != std::errc::no_such_file_or_directory && code != std::errc::not_a_directory),
           ExitStatus::missing_file, "{}: no such file; {}", path.string(), advice_on_missing(path));
  validate(!code, ExitStatus::io_error, "{}: cannot be opened ({}); check its permissions and its file system",
           path.string(), code.message());
  if (std::filesystem::is_directory(status)) {
    const std::filesystem::path latest = path / "checkpoints" / "latest";  // if the folder is a run's output
    throw Error(ExitStatus::bad_data,
                fmt::format("{}: is a folder (an HDF5 file is expected); name the file in it{}", path.string(),
                            std::filesystem::exists(latest, code) ? fmt::format(", as {}", latest.string()) : ""));
  }
  validate(std::filesystem::is_regular_file(status), ExitStatus::bad_data,
           "{}: is no regular file (an HDF5 file is expected); give another", path.string());
  validate(RawFile(path, RawFile::Access::read).size() > 0, ExitStatus::bad_data,
           "{}: is empty (an HDF5 file is expected); make or copy it again", path.string());
}

Hdf5File::Hdf5File(std::string name, std::int64_t id, std::unique_ptr<RawFile> raw, External external)
    : name_(std::move(name)), id_(id), raw_(std::move(raw)), external_(external) {}

Hdf5File::Hdf5File(Hdf5File&& other) noexcept
    : name_(std::move(other.name_)),
      id_(std::exchange(other.id_, -1)),
      raw_(std::move(other.raw_)),
      external_(other.external_) {}

Hdf5File::~Hdf5File() {
  if (id_ < 0) return;
  const LibraryLock lock;
  H5Fclose(id_);
}

Hdf5File Hdf5File::open(const std::filesystem::path& path, External external) {
  require_readable_file(path);
  auto raw = std::make_unique<RawFile>(path, RawFile::Access::read);
  const LibraryLock lock;
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_file_locking(access, false, true);  // as in `create`
  H5Pset_sieve_buf_size(access, 0);          // examples are far apart: reading what is around each costs up to 64 KiB
  const hid_t id = H5Fopen(path.c_str(), H5F_ACC_RDONLY, access);
  if (id >= 0) return {path.string(), id, std::move(raw), external};
  const std::string why = reason();
  if (why.find("signature not found") != std::string::npos)
    throw Error(ExitStatus::bad_data,
                fmt::format("{}: is not an HDF5 file ({}); give a file made by `lockstep import`, h5py or the like",
                            path.string(), why));
  validate(
      why.find("already open for write") == std::string::npos, ExitStatus::bad_data,
      "{}: another program has it open for writing, or ended without closing it ({}); wait until it is closed, or, "
      "if that program is gone, run h5clear -s on a copy",
      path.string(), why);
  if (why.find("truncated") != std::string::npos || why.find("eof") != std::string::npos ||
      why.find("end of file") != std::string::npos)
    throw Error(
        ExitStatus::bad_data,
        fmt::format("{}: is truncated ({}), or another program is still writing it; wait for that, or make or copy it "
                    "again",
                    path.string(), why));
  damaged(path.string());
}

Hdf5File Hdf5File::create(const std::filesystem::path& path, const std::string& name, std::size_t user_block) {
  const LibraryLock lock;
  // Version 1.8 of the format: headers have checksums, and every HDF5 since 2008 reads it.
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_V18);
  // No locks: files are renamed when complete, so readers never meet a writer, and some file systems have no locks.
  H5Pset_file_locking(access, false, true);
  const Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
  H5Pset_obj_track_times(creation, false);
  H5Pset_userblock(creation, user_block);
  const hid_t id = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation, access);
  if (id < 0) create_failed(name);
  return {name, id, nullptr, External::refused};
}

std::vector<std::string> Hdf5File::datasets() const {
  const LibraryLock lock;
  std::vector<std::string> links;
  const herr_t visited = H5Lvisit(
      // Sorted below, because the library's own sorting crashes on wrong link counts.
      id_, H5_INDEX_NAME, H5_ITER_NATIVE,
      [](hid_t, const char* name, const H5L_info_t* info, void* to) -> herr_t {
        if (info->type == H5L_TYPE_HARD) static_cast<std::vector<std::string>*>(to)->push_back(std::string("/") + name);
        return 0;
      },
      &links);
  if (visited < 0) damaged(name_);
  std::vector<std::string> names;
  for (const auto& link : links) {
    const std::string shown = for_message(link, 1000);
    validate(shown == link, ExitStatus::bad_data,
             "{}: contains a name that is not a short line of text ({}); rename it, or make or copy the file again",
             name_, shown);
    if (object_at(id_, link, name_ + ":" + link).type == H5G_DATASET) names.push_back(link);
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool Hdf5File::has(const std::string& dataset) const {
  const LibraryLock lock;
  const std::string where = name_ + ":" + dataset;
  for (std::size_t end = dataset.find('/', 1);; end = dataset.find('/', end + 1)) {
    const std::string part = dataset.substr(0, end);
    const htri_t exists = H5Lexists(id_, part.c_str(), H5P_DEFAULT);
    if (exists < 0) damaged(where);
    if (exists == 0) return false;
    if (end == std::string::npos) return true;
    if (object_at(id_, part, where).type != H5G_GROUP) return false;  // below it H5Lexists would fail
  }
}

bool Hdf5File::has_dataset(const std::string& name) const {
  const LibraryLock lock;
  return has(name) && object_at(id_, name, name_ + ":" + name).type == H5G_DATASET;
}

std::int64_t Hdf5File::open_dataset(const std::string& dataset, const std::string& where) const {
  const H5G_stat_t object = object_at(id_, dataset, where);
  validate(object.type == H5G_DATASET, ExitStatus::bad_data,
           "{}: is {} (a dataset is expected); store the numbers themselves under this name", where,
           object.type == H5G_GROUP ? "a group" : "not an array of numbers");
  require_in_file(id_, object, where);
  if (raw_) require_old_layout(object.objno[0], where);
  Handle id(H5Dopen2(id_, dataset.c_str(), H5P_DEFAULT), H5Dclose);
  if (id < 0) damaged(where);
  check_external_storage(id, external_ == External::allowed, where);
  return id.release();
}

void Hdf5File::require_old_layout(std::uint64_t header, const std::string& where) const {
  const Handle creation(H5Fget_create_plist(id_), H5Pclose);
  AddressFormat format;
  hsize_t user_block = 0;
  if (creation < 0 || H5Pget_userblock(creation, &user_block) < 0 ||
      H5Pget_sizes(creation, &format.address_bytes, &format.length_bytes) < 0)
    damaged(where);
  format.base = user_block;
  const NewLayout layout = new_layout(*raw_, format, header);
  validate(layout != NewLayout::virtual_dataset, ExitStatus::bad_data,
           "{}: is a virtual dataset, made of datasets in other files; store the numbers themselves in its place",
           where);
  validate(layout == NewLayout::none, ExitStatus::bad_data,
           "{}: is stored in chunks as only HDF5's newest format has them; store it without chunks, or without "
           "libver=\"latest\"",
           where);
}

StoredArray Hdf5File::shape_of(const std::string& dataset) const {
  const LibraryLock lock;
  const std::string where = name_ + ":" + dataset;
  const Handle id(open_dataset(dataset, where), H5Dclose);
  const Handle type(H5Dget_type(id), H5Tclose);
  const Handle space(H5Dget_space(id), H5Sclose);
  if (type < 0 || space < 0) damaged(where);
  StoredArray array{stored_type(type), extents_of(space)};
  // Absurd sizes come from damaged or hostile files; the products below must not overflow.
  double elements = 1;
  for (const auto extent : array.extents) elements *= static_cast<double>(extent);
  validate(elements * static_cast<double>(std::max<std::size_t>(array.type.bytes, 1)) < 1e18, ExitStatus::bad_data,
           "{}: has an impossible shape ({}); the file is damaged, make or copy it again", where,
           extents_text(array.extents));
  array.chunk = unpacked_chunk(id, array, where);
  return array;
}

StoredArray Hdf5File::info(const std::string& dataset) const {
  const LibraryLock lock;
  StoredArray array = shape_of(dataset);
  const std::string where = name_ + ":" + dataset;
  const Handle id(open_dataset(dataset, where), H5Dclose);
  array.unwritten = require_stored(id_, id, array, where);
  return array;
}

void Hdf5File::read(const std::string& dataset, const StoredType& type, void* to) const {
  const LibraryLock lock;
  const std::string where = name_ + ":" + dataset;
  const Handle id(open_dataset(dataset, where), H5Dclose);
  const Handle memory = memory_type(id, type);
  if (H5Dread(id, memory, H5S_ALL, H5S_ALL, exact_reading(), to) < 0) read_failed(id, where);
}

std::optional<std::uint64_t> Hdf5File::place(const std::string& dataset, const StoredType& type) const {
  const LibraryLock lock;
  const std::string where = name_ + ":" + dataset;
  if (info(dataset).count() == 0) return std::nullopt;
  const Handle id(open_dataset(dataset, where), H5Dclose);
  const Handle stored(H5Dget_type(id), H5Tclose);
  const haddr_t place = H5Dget_offset(id);
  validate(
      place != HADDR_UNDEF && H5Tequal(stored, native_type(type)) > 0, ExitStatus::bad_data,
      "{}: is not stored as Lockstep stores the numbers of a checkpoint (contiguous, and as {} in this machine's byte "
      "order); copy the file again from where it was written",
      where, to_string(type));
  return place;
}

Hdf5Rows Hdf5File::rows(const std::string& dataset, const StoredType& type) const {
  const LibraryLock lock;
  StoredArray array = info(dataset);
  std::string where = name_ + ":" + dataset;
  const hid_t id = open_dataset(dataset, where);
  return {std::move(where), id, type, std::move(array.extents), raw_};
}

std::string Hdf5File::read_text(const std::string& dataset) const {
  const LibraryLock lock;
  const std::string where = name_ + ":" + dataset;
  const Handle id(open_dataset(dataset, where), H5Dclose);
  const Handle type(H5Dget_type(id), H5Tclose);
  const Handle space(H5Dget_space(id), H5Sclose);
  return string_of(type, space, where,
                   [&](hid_t memory, void* to) { return H5Dread(id, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, to); });
}

std::optional<std::string> Hdf5File::attribute(const std::string& dataset, const std::string& key) const {
  const LibraryLock lock;
  const std::string where = fmt::format("{}:{} (attribute {})", name_, dataset, key);
  const Handle object(open_dataset(dataset, where), H5Dclose);
  const htri_t exists = H5Aexists(object, key.c_str());
  if (exists < 0) damaged(where);
  if (exists == 0) return std::nullopt;
  const Handle id(H5Aopen(object, key.c_str(), H5P_DEFAULT), H5Aclose);
  if (id < 0) damaged(where);
  const Handle type(H5Aget_type(id), H5Tclose);
  const Handle space(H5Aget_space(id), H5Sclose);
  return string_of(type, space, where, [&](hid_t memory, void* to) { return H5Aread(id, memory, to); });
}

std::optional<double> Hdf5File::number(const std::string& dataset, const std::string& key) const {
  const LibraryLock lock;
  const Handle object(open_dataset(dataset, name_ + ":" + dataset), H5Dclose);
  if (H5Aexists(object, key.c_str()) <= 0) return std::nullopt;
  const Handle id(H5Aopen(object, key.c_str(), H5P_DEFAULT), H5Aclose);
  if (id < 0) damaged(fmt::format("{}:{} (attribute {})", name_, dataset, key));
  const Handle type(H5Aget_type(id), H5Tclose), space(H5Aget_space(id), H5Sclose);
  const H5T_class_t kind = H5Tget_class(type);
  double value = 0;
  if ((kind != H5T_INTEGER && kind != H5T_FLOAT) || H5Sget_simple_extent_npoints(space) != 1 ||
      H5Aread(id, H5T_NATIVE_DOUBLE, &value) < 0)
    return std::nullopt;
  return value;
}

void Hdf5File::make_groups(const std::string& dataset) {
  // Not by H5Pset_create_intermediate_group: those groups would store the time of day.
  const Handle creation(H5Pcreate(H5P_GROUP_CREATE), H5Pclose);
  H5Pset_obj_track_times(creation, false);
  for (std::size_t end = dataset.find('/', 1); end != std::string::npos; end = dataset.find('/', end + 1)) {
    const std::string group = dataset.substr(0, end);
    if (H5Lexists(id_, group.c_str(), H5P_DEFAULT) > 0) continue;
    Handle id(H5Gcreate2(id_, group.c_str(), H5P_DEFAULT, creation, H5P_DEFAULT), H5Gclose);
    if (id < 0 || !id.close()) write_failed(name_);
  }
}

std::int64_t Hdf5File::make_dataset(const std::string& dataset, const StoredType& type,
                                    const std::vector<std::int64_t>& extents, bool allocate) {
  make_groups(dataset);
  const std::vector<hsize_t> sizes(extents.begin(), extents.end());
  const Handle space(
      sizes.empty() ? H5Screate(H5S_SCALAR) : H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr),
      H5Sclose);
  const Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_obj_track_times(creation, false);
  H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER);
  if (allocate) H5Pset_alloc_time(creation, H5D_ALLOC_TIME_EARLY);
  const hid_t id = H5Dcreate2(id_, dataset.c_str(), native_type(type), space, H5P_DEFAULT, creation, H5P_DEFAULT);
  if (id < 0) write_failed(name_);
  return id;
}

void Hdf5File::write(const std::string& dataset, const StoredType& type, const std::vector<std::int64_t>& extents,
                     const void* data) {
  const LibraryLock lock;
  Handle id(make_dataset(dataset, type, extents, false), H5Dclose);
  if (H5Dwrite(id, native_type(type), H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0 || !id.close()) write_failed(name_);
}

std::optional<std::uint64_t> Hdf5File::reserve(const std::string& dataset, const StoredType& type,
                                               const std::vector<std::int64_t>& extents) {
  const LibraryLock lock;
  Handle id(make_dataset(dataset, type, extents, true), H5Dclose);
  const bool empty = StoredArray{type, extents}.count() == 0;
  const haddr_t place = empty ? HADDR_UNDEF : H5Dget_offset(id);
  if ((!empty && place == HADDR_UNDEF) || !id.close()) write_failed(name_);
  return empty ? std::nullopt : std::optional<std::uint64_t>(place);
}

Hdf5Rows Hdf5File::create_rows(const std::string& dataset, const StoredType& type,
                               const std::vector<std::int64_t>& extents) {
  const LibraryLock lock;
  return {name_, make_dataset(dataset, type, extents, false), type, extents};
}

void Hdf5File::write_text(const std::string& dataset, const std::string& text) {
  const LibraryLock lock;
  make_groups(dataset);
  const Handle type(text_type(text), H5Tclose);
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  const Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_obj_track_times(creation, false);
  Handle id(H5Dcreate2(id_, dataset.c_str(), type, space, H5P_DEFAULT, creation, H5P_DEFAULT), H5Dclose);
  if (id < 0 || H5Dwrite(id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text.c_str()) < 0 || !id.close()) write_failed(name_);
}

void Hdf5File::write_attribute(const std::string& dataset, const std::string& key, const std::string& text) {
  const LibraryLock lock;
  Handle object(open_dataset(dataset, name_ + ":" + dataset), H5Dclose);
  const Handle type(text_type(text), H5Tclose);
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  Handle id(H5Acreate2(object, key.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
  if (id < 0 || H5Awrite(id, type, text.c_str()) < 0 || !id.close() || !object.close()) write_failed(name_);
}

void Hdf5File::replace_attribute(const std::string& dataset, const std::string& key, const std::string& text) {
  const LibraryLock lock;
  Handle object(open_dataset(dataset, name_ + ":" + dataset), H5Dclose);
  const Handle type(text_type(text), H5Tclose);
  Handle id(H5Aopen(object, key.c_str(), H5P_DEFAULT), H5Aclose);
  if (id < 0 || H5Awrite(id, type, text.c_str()) < 0 || !id.close() || !object.close()) write_failed(name_);
}

void Hdf5File::flush() {
  const LibraryLock lock;
  if (H5Fflush(id_, H5F_SCOPE_GLOBAL) < 0) write_failed(name_);
}

void Hdf5File::close() {
  const LibraryLock lock;
  if (id_ < 0) return;
  if (!raw_) flush();
  if (H5Fclose(std::exchange(id_, -1)) < 0) write_failed(name_);
}

void skip_hdf5_at_exit() {
  H5dont_atexit();
  // Initializes the library before MPI_Init: a parallel HDF5 initialized later would also close itself in MPI_Finalize,
  // which loops over a file that it could not write.
  H5open();
}

std::string hdf5_version() {
  const LibraryLock lock;
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return fmt::format("{}.{}.{}", major, minor, release);
}

}  // namespace lockstep
