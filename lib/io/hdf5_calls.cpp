// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "io/hdf5_calls.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/text.hpp"

namespace lockstep::hdf5 {

LibraryLock::LibraryLock() : lock_(mutex()) {
  H5Eget_auto2(H5E_DEFAULT, &print_, &print_data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

LibraryLock::~LibraryLock() { H5Eset_auto2(H5E_DEFAULT, print_, print_data_); }

std::recursive_mutex& LibraryLock::mutex() {
  static std::recursive_mutex instance;
  return instance;
}

namespace {

/// True if the system's message says that a disk or a quota is full.
bool is_full(const std::string& why) { return why == std::strerror(ENOSPC) || why == std::strerror(EDQUOT); }

std::string strip_padding(std::string text) {
  text.resize(std::min(text.find('\0'), text.size()));
  return text;
}

constexpr std::uint64_t layout_message = 0x08, continuation_message = 0x10;

/// Bytes of a file from `from` on; fewer than requested at the end of the file.
class Block {
 public:
  Block(const RawFile& file, std::uint64_t from, std::uint64_t bytes) {
    const std::uint64_t size = file.size();
    bytes_.resize(from < size ? std::min(bytes, size - from) : 0);
    file.read(from, bytes_.data(), bytes_.size());
  }

  std::size_t size() const { return bytes_.size(); }
  bool begins(std::string_view text) const {
    return std::string_view(reinterpret_cast<const char*>(bytes_.data()), bytes_.size()).starts_with(text);
  }
  /// Little-endian number; bytes beyond the end count as 0.
  std::uint64_t number(std::size_t at, std::size_t count) const {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < std::min<std::size_t>(count, 8) && at + i < bytes_.size(); ++i)
      value |= std::uint64_t{bytes_[at + i]} << (8 * i);
    return value;
  }

 private:
  std::vector<unsigned char> bytes_;
};

struct ByteRange {
  std::uint64_t from, bytes;
};

}  // namespace

std::string reason() {
  std::string text;
  H5Ewalk2(
      H5E_DEFAULT, H5E_WALK_UPWARD,
      [](unsigned, const H5E_error2_t* entry, void* to) -> herr_t {
        auto& text = *static_cast<std::string*>(to);
        if (text.empty() && entry->desc) text = entry->desc;
        return 0;
      },
      &text);
  constexpr std::string_view system_begins = "error message = '";
  if (const std::size_t found = text.find(system_begins); found != std::string::npos) {
    text.erase(0, found + system_begins.size());
    text.resize(std::min(text.find('\''), text.size()));
  }
  return text.empty() ? "HDF5 gives no reason" : for_message(text, 500);
}

void damaged(const std::string& where, const std::string& why) {
  throw Error(ExitStatus::bad_data,
              fmt::format("{}: cannot be read ({}); the file is damaged, make or copy it again", where, why));
}

void read_failed(hid_t dataset, const std::string& where, const std::string& part) {
  const std::string why = reason();  // before the calls below overwrite it
  validate(why.find("conversion exception") == std::string::npos, ExitStatus::bad_data,
           "{}{}: holds integers beyond 16,777,216, not all of which f32 can hold; store smaller numbers, or values: "
           "x.astype(\"f8\")",
           where, part);
  const Handle creation(H5Dget_create_plist(dataset), H5Pclose);
  for (int i = 0; i < H5Pget_nfilters(creation); ++i) {
    unsigned flags = 0, kind = 0;
    std::size_t values = 0;
    char name[64] = "";
    const H5Z_filter_t filter = H5Pget_filter2(creation, static_cast<unsigned>(i), &flags, &values, nullptr,
                                               sizeof name - 1, name, &kind);
    validate(filter < 0 || H5Zfilter_avail(filter) != 0, ExitStatus::bad_data,
             "{}: is stored with the filter '{}' (number {}), which this program's HDF5 library lacks; store it with "
             "compression=\"gzip\", or without compression",
             where, for_message(name, sizeof name), filter);
  }
  damaged(where + part, why);
}

void write_failed(const std::string& file) {
  const std::string why = reason();
  throw Error(ExitStatus::io_error, fmt::format("{}: cannot be written ({}); {}", file, why,
                                                is_full(why) ? "make room" : "check the disk and the quota"));
}

void create_failed(const std::string& file) {
  const std::string why = reason();
  validate(!is_full(why), ExitStatus::io_error, "{}: cannot be created ({}); make room", file, why);
  const char* const advice = why == std::strerror(EFBIG) ? "allow larger files (ulimit -f)"
                                                         : "choose a folder that exists and is writable";
  throw Error(ExitStatus::cannot_create, fmt::format("{}: cannot be created ({}); {}", file, why, advice));
}

hid_t native_type(const StoredType& type) {
  const bool real = type.kind == StoredType::Kind::real;
  switch (type.bytes) {
    case 1: return type.is_signed ? H5T_NATIVE_INT8 : H5T_NATIVE_UINT8;
    case 2: return type.is_signed ? H5T_NATIVE_INT16 : H5T_NATIVE_UINT16;
    case 4: return real ? H5T_NATIVE_FLOAT : type.is_signed ? H5T_NATIVE_INT32 : H5T_NATIVE_UINT32;
    default: return real ? H5T_NATIVE_DOUBLE : type.is_signed ? H5T_NATIVE_INT64 : H5T_NATIVE_UINT64;
  }
}

Handle memory_type(hid_t dataset, const StoredType& type) {
  const bool is_native = type.kind != StoredType::Kind::real || type.bytes == sizeof(float) ||
                         type.bytes == sizeof(double);
  return {is_native ? H5Tcopy(native_type(type)) : H5Dget_type(dataset), H5Tclose};
}

namespace {

/// Whether an enumeration is that of FALSE and TRUE in one byte.
bool is_boolean(hid_t type) {
  signed char no = 1, yes = 0;
  return H5Tget_size(type) == 1 && H5Tget_nmembers(type) == 2 && H5Tenum_valueof(type, "FALSE", &no) >= 0 &&
         H5Tenum_valueof(type, "TRUE", &yes) >= 0 && no == 0 && yes == 1;
}

}  // namespace

StoredType stored_type(hid_t type) {
  const std::size_t bytes = H5Tget_size(type);
  const bool usual = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
  switch (H5Tget_class(type)) {
    case H5T_INTEGER:
      return {usual ? StoredType::Kind::integer : StoredType::Kind::other, bytes, H5Tget_sign(type) != H5T_SGN_NONE};
    case H5T_FLOAT: return {usual || bytes > 8 ? StoredType::Kind::real : StoredType::Kind::other, bytes, true};
    case H5T_ENUM: return {is_boolean(type) ? StoredType::Kind::boolean : StoredType::Kind::other, bytes, true};
    case H5T_VLEN: return {StoredType::Kind::variable_length, bytes, true};
    case H5T_STRING: return {StoredType::Kind::text, bytes, true};
    default: return {StoredType::Kind::other, bytes, true};
  }
}

std::vector<std::int64_t> extents_of(hid_t space) {
  const int rank = H5Sget_simple_extent_ndims(space);
  std::vector<hsize_t> extents(static_cast<std::size_t>(std::max(rank, 0)));
  if (rank > 0) H5Sget_simple_extent_dims(space, extents.data(), nullptr);
  return {extents.begin(), extents.end()};
}

hid_t text_type(const std::string& text) {
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, std::max<std::size_t>(text.size(), 1));
  H5Tset_strpad(type, H5T_STR_NULLPAD);
  H5Tset_cset(type, H5T_CSET_UTF8);
  return type;
}

namespace {

/// Target of a soft or external link, for messages; empty for any other name, or a damaged link.
std::string target_of_link(hid_t file, const std::string& name) {
  constexpr std::size_t longest = std::size_t{1} << 16, shown = 200;
  H5L_info_t link{};
  if (H5Lget_info(file, name.c_str(), &link, H5P_DEFAULT) < 0) return "";
  if ((link.type != H5L_TYPE_SOFT && link.type != H5L_TYPE_EXTERNAL) || link.u.val_size > longest) return "";
  std::string value(link.u.val_size, '\0');
  if (H5Lget_val(file, name.c_str(), value.data(), value.size(), H5P_DEFAULT) < 0) return "";
  if (link.type == H5L_TYPE_SOFT) return for_message(strip_padding(value), shown);
  const char *other_file = nullptr, *object = nullptr;
  if (H5Lunpack_elink_val(value.data(), value.size(), nullptr, &other_file, &object) < 0) return "";
  return fmt::format("{} in the file {}", for_message(object, shown), for_message(other_file, shown));
}

/// Extents of a dataset's chunks; empty if it is not stored in chunks.
std::vector<hsize_t> chunk_of(hid_t creation, const StoredArray& array, const std::string& where) {
  if (H5Pget_layout(creation) != H5D_CHUNKED) return {};
  std::vector<hsize_t> chunk(array.extents.size());
  const int rank = static_cast<int>(chunk.size());
  if (H5Pget_chunk(creation, rank, chunk.data()) != rank || std::ranges::count(chunk, 0U) > 0) damaged(where);
  return chunk;
}

/// Throws bad_data if a link on the path to an object is dangling.
void refuse_dangling_link(hid_t file, const std::string& name, const std::string& where) {
  for (std::size_t end = name.find('/', 1);; end = name.find('/', end + 1)) {
    const std::string part = name.substr(0, end);
    const std::string target = target_of_link(file, part);
    validate(
        target.empty() || H5Oexists_by_name(file, part.c_str(), H5P_DEFAULT) > 0, ExitStatus::bad_data,
        "{}: the link {} points to nothing ({} does not exist, or cannot be opened); store the numbers themselves in "
        "its place",
        where, part, target);
    if (end == std::string::npos) return;
  }
}

}  // namespace

H5G_stat_t object_at(hid_t file, const std::string& name, const std::string& where) {
  H5G_stat_t object{};
  if (H5Gget_objinfo(file, name.c_str(), true, &object) >= 0) return object;
  const std::string why = reason();  // before the calls below overwrite it
  refuse_dangling_link(file, name, where);
  damaged(where, why);
}

void require_in_file(hid_t file, const H5G_stat_t& object, const std::string& where) {
  const H5G_stat_t root = object_at(file, "/", where);
  validate(
      std::ranges::equal(object.fileno, root.fileno), ExitStatus::bad_data,
      "{}: is in another file, reached by an external link (links are followed only within a file); name that file, or "
      "store the numbers themselves in this one",
      where);
}

void check_external_storage(hid_t dataset, bool allowed, const std::string& where) {
  const Handle creation(H5Dget_create_plist(dataset), H5Pclose);
  const int files = creation < 0 ? -1 : H5Pget_external_count(creation);
  if (files < 0) damaged(where);
  for (int i = 0; i < files; ++i) {
    constexpr std::size_t longest = 4096, shown = 200;
    std::string name(longest, '\0');
    off_t first = 0;
    hsize_t bytes = 0;
    if (H5Pget_external(creation, static_cast<unsigned>(i), name.size() - 1, name.data(), &first, &bytes) < 0)
      damaged(where);
    name = strip_padding(std::move(name));
    const std::string file = for_message(name, shown);
    validate(allowed, ExitStatus::bad_data,
             "{}: its numbers lie outside the HDF5 file, in {} (external storage, by which any file of this machine "
             "could be read); store the numbers themselves in this file, or, for data that you trust, set "
             "data.allow_external: true",
             where, file);
    const std::uint64_t there = RawFile(name, RawFile::Access::read).size();
    validate(static_cast<std::uint64_t>(first) + bytes <= there, ExitStatus::bad_data,
             "{}: needs {} bytes of {}, but that file has {}; make or copy it again", where,
             static_cast<std::uint64_t>(first) + bytes, file, there);
  }
}

hid_t exact_reading() {
  static const hid_t properties = [] {
    const hid_t made = H5Pcreate(H5P_DATASET_XFER);
    H5Pset_type_conv_cb(
        made,
        [](H5T_conv_except_t what, hid_t, hid_t, void*, void*, void*) {
          return what == H5T_CONV_EXCEPT_PRECISION || what == H5T_CONV_EXCEPT_RANGE_HI ||
                         what == H5T_CONV_EXCEPT_RANGE_LOW
                     ? H5T_CONV_ABORT
                     : H5T_CONV_UNHANDLED;
        },
        nullptr);
    return made;
  }();
  return properties;
}

std::int64_t require_stored(hid_t file, hid_t dataset, const StoredArray& array, const std::string& where) {
  constexpr std::size_t most_compressed = std::size_t{1032} * 1032, harmless = std::size_t{1} << 20;
  const Handle creation(H5Dget_create_plist(dataset), H5Pclose);
  const Handle space(H5Dget_space(dataset), H5Sclose);
  const std::size_t stored = H5Dget_storage_size(dataset);
  hsize_t file_bytes = 0;
  H5D_fill_value_t fill = H5D_FILL_VALUE_UNDEFINED;
  if (creation < 0 || space < 0 || H5Fget_filesize(file, &file_bytes) < 0 || H5Pfill_value_defined(creation, &fill) < 0)
    damaged(where);
  if (H5Pget_external_count(creation) > 0) return 0;  // see check_external_storage
  const std::vector<hsize_t> chunk = chunk_of(creation, array, where);
  const bool may_be_missing = fill == H5D_FILL_VALUE_USER_DEFINED && (!chunk.empty() || stored == 0);
  const bool is_packed = may_be_missing || H5Pget_nfilters(creation) > 0;
  const std::size_t least = !is_packed                  ? array.bytes()
                            : array.bytes() <= harmless ? 0
                                                        : array.bytes() / most_compressed;
  validate(
      stored <= file_bytes && least <= (may_be_missing ? file_bytes : stored), ExitStatus::bad_data,
      "{}: needs {} bytes, but the file holds {} for it (part of it was never written, or the file is damaged); make "
      "or copy it again",
      where, array.bytes(), std::min<hsize_t>(stored, file_bytes));
  hsize_t needed = 1, there = 0;
  if (chunk.empty()) return may_be_missing && array.count() > 0 ? 1 : 0;
  for (std::size_t i = 0; i < chunk.size(); ++i)
    needed *= (static_cast<hsize_t>(array.extents[i]) + chunk[i] - 1) / chunk[i];
  if (stored > 0 && H5Dget_num_chunks(dataset, space, &there) < 0) damaged(where);
  validate(needed <= there || may_be_missing, ExitStatus::bad_data,
           "{}: has {} of its {} chunks (the others were never written, and would be read as zeros); make or copy the "
           "file again, or cut the dataset down to what was written",
           where, there, needed);
  return static_cast<std::int64_t>(needed - std::min(needed, there));
}

std::vector<std::int64_t> unpacked_chunk(hid_t dataset, const StoredArray& array, const std::string& where) {
  const Handle creation(H5Dget_create_plist(dataset), H5Pclose), access(H5Dget_access_plist(dataset), H5Pclose);
  std::size_t slots = 0, cache = 0;
  double preemption = 0;
  if (creation < 0 || access < 0 || H5Pget_chunk_cache(access, &slots, &cache, &preemption) < 0) damaged(where);
  const std::vector<hsize_t> chunk = chunk_of(creation, array, where);
  std::size_t bytes = array.type.bytes;
  for (const hsize_t extent : chunk) bytes *= extent;
  // Of chunks that are not packed, those are read in parts that the library's cache cannot hold.
  if (H5Pget_nfilters(creation) == 0 && bytes > cache) return {};
  return {chunk.begin(), chunk.end()};
}

std::string string_of(hid_t type, hid_t space, const std::string& where,
                      const std::function<herr_t(hid_t, char*)>& read) {
  if (H5Tget_class(type) != H5T_STRING || H5Sget_simple_extent_npoints(space) != 1)
    throw Error(ExitStatus::bad_data, fmt::format("{}: is not a single string", where));
  const Handle memory(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_cset(memory, H5Tget_cset(type));
  // The library would believe a variable length stored in a damaged file, even gigabytes.
  if (H5Tis_variable_str(type) != 0)
    throw Error(ExitStatus::bad_data,
                fmt::format("{}: is a string of variable length (a fixed length is expected); store it with a fixed "
                            "length",
                            where));
  constexpr std::size_t longest = std::size_t{64} << 20;
  validate(H5Tget_size(type) <= longest, ExitStatus::bad_data,
           "{}: is a string of {} bytes (at most {} are read); the file is damaged, make or copy it again", where,
           H5Tget_size(type), longest);
  // One more byte for the terminator: converting to the same size would cut off the last character.
  std::string text(H5Tget_size(type) + 1, '\0');
  H5Tset_size(memory, text.size());
  if (read(memory, text.data()) < 0) damaged(where);
  return strip_padding(std::move(text));
}

NewLayout new_layout(const RawFile& file, const AddressFormat& format, std::uint64_t address) {
  constexpr std::uint64_t longest_prefix = 30, longest_block = std::uint64_t{1} << 24;
  const std::uint64_t begin = format.base + address;
  const Block prefix(file, begin, longest_prefix);
  const bool version_2 = prefix.begins("OHDR");
  std::size_t type_bytes = 2, head_bytes = 8;  // size of a message's type, and of its whole header
  std::vector<ByteRange> left;                 // ranges of messages still to be parsed
  if (version_2) {
    const std::uint64_t flags = prefix.number(5, 1), size_bytes = std::uint64_t{1} << (flags & 3);
    const std::size_t size_at = 6 + ((flags & 0x20) != 0 ? 16 : 0) + ((flags & 0x10) != 0 ? 4 : 0);
    type_bytes = 1, head_bytes = (flags & 4) != 0 ? 6 : 4;
    left.push_back({begin + size_at + size_bytes, prefix.number(size_at, size_bytes)});
  } else {
    left.push_back({begin + 16, prefix.number(8, 4)});
  }
  for (std::uint64_t seen = 0; !left.empty();) {
    const ByteRange range = left.back();
    left.pop_back();
    // A longer block, or more bytes than the file has, is damage, such as a cycle of continuation blocks.
    if (range.bytes > longest_block || (seen += range.bytes) > file.size()) return NewLayout::chunks;
    const Block block(file, range.from, range.bytes);
    for (std::size_t at = 0; at + head_bytes <= block.size();) {
      const std::uint64_t type = block.number(at, type_bytes);
      const std::size_t bytes = block.number(at + type_bytes, 2), data = at + head_bytes;
      if (type == layout_message && block.number(data, 1) >= 4 && block.number(data + 1, 1) >= 2)
        return block.number(data + 1, 1) == 3 ? NewLayout::virtual_dataset : NewLayout::chunks;
      if (type == continuation_message) {
        const ByteRange next{format.base + block.number(data, format.address_bytes),
                             block.number(data + format.address_bytes, format.length_bytes)};
        // In version 2, a signature and a checksum enclose the messages.
        left.push_back(version_2 ? ByteRange{next.from + 4, std::max<std::uint64_t>(next.bytes, 8) - 8} : next);
      }
      at = data + bytes;
    }
  }
  return NewLayout::none;
}

}  // namespace lockstep::hdf5
