// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "io/checksum.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/heartbeat.hpp"
#include "base/text.hpp"

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

constexpr std::string_view magic = "lockstep manifest 1, bytes ";
constexpr std::size_t least_block = 512, most_block = std::size_t{1} << 31;
constexpr std::size_t piece_bytes = std::size_t{8} << 20;

std::uint64_t hash_of_part(
    const RawFile& file, std::uint64_t first, std::uint64_t bytes, const std::function<void()>& progress = [] {}) {
  std::vector<std::byte> piece(static_cast<std::size_t>(std::min<std::uint64_t>(bytes, piece_bytes)));
  RunningHash hash;
  for (std::uint64_t done = 0; done < bytes; done += piece.size()) {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), bytes - done));
    file.read(first + done, piece.data(), count);
    hash.add(piece.data(), count);
    progress();
  }
  return hash.value();
}

std::string text_of(const std::vector<FilePart>& parts, std::size_t block, std::uint64_t file_bytes) {
  std::string text = fmt::format("{}{} of {}\n", magic, block, file_bytes);
  for (const FilePart& part : parts)
    text += fmt::format("{:016x} {} {} {}\n", part.hash, part.first, part.bytes, part.name);
  return text + fmt::format("{:016x} end\n", hash_of(text.data(), text.size()));
}

/// Parses a manifest; any deviation from the output of text_of is damage.
class ManifestReader {
 public:
  ManifestReader(std::string_view text, std::string file) : left_(text), file_(std::move(file)) {}

  [[noreturn]] void damaged(std::string_view why) const {
    throw Error(ExitStatus::bad_data,
                fmt::format("{}: is damaged ({}); use another checkpoint, or copy it again", file_, why));
  }
  /// Goes on after this word if it is the next; returns whether it is.
  bool skips(std::string_view word) {
    if (!left_.starts_with(word)) return false;
    left_.remove_prefix(word.size());
    return true;
  }
  void word(std::string_view expected) {
    if (!skips(expected)) damaged("its manifest cannot be read");
  }
  std::uint64_t number(int base = 10) {
    std::uint64_t value = 0;
    const auto [end, code] = std::from_chars(left_.data(), left_.data() + left_.size(), value, base);
    if (code != std::errc{}) damaged("its manifest cannot be read");
    left_.remove_prefix(static_cast<std::size_t>(end - left_.data()));
    return value;
  }
  std::string rest_of_line() {
    const std::size_t end = left_.find('\n');
    if (end == std::string_view::npos) damaged("its manifest cannot be read");
    std::string line(left_.substr(0, end));
    left_.remove_prefix(end + 1);
    return line;
  }
  std::size_t left() const { return left_.size(); }

 private:
  std::string_view left_;
  std::string file_;
};

/// Checks a file whose beginning, `head`, is not that of a manifest: a user block without a manifest may be a damaged
/// manifest, so such a file is not trusted.
void refuse_damaged_beginning(const RawFile& file, const std::string& head) {
  constexpr std::string_view signature = "\x89HDF\r\n\x1a\n";
  std::string found(signature.size(), '\0');
  for (std::uint64_t at = least_block; at + found.size() <= file.size() && at <= most_block; at *= 2) {
    file.read(at, found.data(), found.size());
    if (!head.starts_with(signature) && found == signature)
      ManifestReader("", file.name()).damaged("the bytes before the HDF5 part are not a manifest");
  }
}

/// Returns the block that holds the manifest, whose size is in the file's beginning.
std::string read_block(const RawFile& file, const std::string& head) {
  ManifestReader reader(head, file.name());
  reader.word(magic);
  const std::uint64_t block = reader.number();
  if (block < least_block || block > most_block || (block & (block - 1)) != 0)
    reader.damaged("its manifest cannot be read");
  if (file.size() < block) reader.damaged("it is truncated");
  std::string text(static_cast<std::size_t>(block), '\0');
  file.read(0, text.data(), text.size());
  return text;
}

struct Manifest {
  std::uint64_t file_bytes = 0;
  std::vector<FilePart> parts;
};

/// Parses the block that holds the manifest. Throws if the manifest is not whole.
Manifest parse_manifest(const std::string& block, ManifestReader& reader) {
  Manifest manifest;
  reader.word(magic);
  reader.number();
  reader.word(" of ");
  manifest.file_bytes = reader.number();
  reader.word("\n");
  std::uint64_t end = block.size();
  for (;;) {
    const std::size_t before = block.size() - reader.left();
    const std::uint64_t hash = reader.number(16);
    reader.word(" ");
    if (reader.skips("end\n")) {
      // Compared as text, because hexadecimal digits have two spellings.
      if (block.compare(before, 16, fmt::format("{:016x}", hash_of(block.data(), before))) != 0 ||
          block.find_first_not_of('\0', block.size() - reader.left()) != std::string::npos)
        reader.damaged("its manifest has changed");
      break;
    }
    FilePart part{reader.number(), 0, hash, ""};
    reader.word(" ");
    part.bytes = reader.number();
    reader.word(" ");
    part.name = reader.rest_of_line();
    if (part.first != end || part.bytes > std::numeric_limits<std::uint64_t>::max() - end)
      reader.damaged("its manifest cannot be read");
    end += part.bytes;
    manifest.parts.push_back(std::move(part));
  }
  if (end != manifest.file_bytes) reader.damaged("its manifest cannot be read");
  return manifest;
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

std::size_t manifest_block(const std::vector<std::string>& datasets) {
  constexpr std::size_t most_digits = std::numeric_limits<std::uint64_t>::digits10 + 1;
  // Upper bound: two lines per dataset (its own, and one for the structure before it), plus the first, the last, and
  // one for the structure after all datasets.
  std::size_t bytes = 3 * (magic.size() + 3 * most_digits);
  for (const std::string& name : datasets) bytes += 2 * (16 + 2 * most_digits + 4) + name.size();
  std::size_t block = least_block;
  while (block < bytes) block *= 2;
  validate(block <= most_block, ExitStatus::cannot_create,
           "a checkpoint of {} arrays has a manifest of more than {} bytes, which could not be read again; let fewer "
           "replicas keep states of their own (a larger parallel.local.group)",
           datasets.size(), most_block);
  return block;
}

void write_manifest(RawFile& file, std::size_t block, std::vector<FilePart> datasets) {
  std::ranges::sort(datasets, {}, &FilePart::first);
  const std::uint64_t file_bytes = file.size();
  std::vector<FilePart> parts;
  std::uint64_t end = block;
  const auto add_structure = [&](std::uint64_t until) {
    if (until > end) parts.push_back({end, until - end, hash_of_part(file, end, until - end), ""});
  };
  for (const FilePart& part : datasets) {
    validate(part.name.find_first_of(std::string("\n\0", 2)) == std::string::npos, ExitStatus::internal,
             "{}: '{}' cannot be a dataset's name", file.name(), part.name);
    add_structure(part.first);
    parts.push_back(part);
    end = part.first + part.bytes;
  }
  add_structure(file_bytes);
  std::string text = text_of(parts, block, file_bytes);
  validate(text.size() <= block, ExitStatus::internal, "{}: a manifest of {} bytes does not fit in {}", file.name(),
           text.size(), block);
  text.resize(block, '\0');
  file.write(0, text.data(), text.size());
}

ManifestState verify_manifest(const std::filesystem::path& path, const std::function<void()>& progress) {
  const RawFile file(path, RawFile::Access::read);
  const std::uint64_t file_bytes = file.size();
  std::string head(static_cast<std::size_t>(std::min<std::uint64_t>(file_bytes, 64)), '\0');
  file.read(0, head.data(), head.size());
  if (!head.starts_with(magic)) {
    refuse_damaged_beginning(file, head);
    return ManifestState::none;
  }
  const std::string block = read_block(file, head);
  ManifestReader reader(block, file.name());
  const Manifest manifest = parse_manifest(block, reader);
  if (file_bytes != manifest.file_bytes)
    reader.damaged(fmt::format("it is {}: {} bytes instead of {}",
                               file_bytes < manifest.file_bytes ? "truncated" : "too long", file_bytes,
                               manifest.file_bytes));
  for (const FilePart& part : manifest.parts)
    if (hash_of_part(file, part.first, part.bytes, progress) != part.hash)
      reader.damaged(part.name.empty()
                         ? std::string("the file's structure has changed")
                         : fmt::format("{} has changed: its checksum does not match", for_message(part.name, 1000)));
  return ManifestState::holds;
}

}  // namespace lockstep
