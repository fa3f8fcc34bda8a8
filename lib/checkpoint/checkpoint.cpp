// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "checkpoint/checkpoint.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "io/checksum.hpp"
#include "io/hdf5.hpp"
#include "io/output_file.hpp"

namespace lockstep {
namespace {

constexpr std::string_view name_prefix = "step-";
constexpr std::string_view name_suffix = ".h5";

/// Returns the step in "step-00001234.h5"; none for other names.
std::optional<std::int64_t> step_of(std::string_view name) {
  if (!name.starts_with(name_prefix) || !name.ends_with(name_suffix)) return std::nullopt;
  name.remove_prefix(name_prefix.size());
  name.remove_suffix(name_suffix.size());
  std::int64_t step = 0;
  const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (name.empty() || code != std::errc{} || end != name.data() + name.size() || step < 0) return std::nullopt;
  return step;
}

/// Whether a name such as "step-00001234.h5.tmp-nodea-4711" is what a killed process has left of a checkpoint.
bool is_leftover(std::string_view name) {
  const auto of = ReplaceFile::left_of(name);
  return of && step_of(*of);
}

std::vector<std::int64_t> extents_of(const Shape& shape) { return {shape.extents().begin(), shape.extents().end()}; }

/// Describes a dataset; f16, of weights made by hand, is read as f32.
NamedArray describe_array(const std::string& name, const std::string& file, const StoredArray& stored) {
  std::optional<DType> dtype = stored.type.dtype();
  if (stored.type == StoredType{StoredType::Kind::real, 2, true}) dtype = DType::f32;
  validate(dtype.has_value(), ExitStatus::bad_data,
           "{}:{}: holds {} (f32, f64, u8, i32 or i64 is expected); store it as f32", file, name,
           to_string(stored.type));
  validate(stored.extents.size() <= Shape::max_rank, ExitStatus::bad_data,
           "{}:{}: has {} dimensions (at most {} are allowed)", file, name, stored.extents.size(), Shape::max_rank);
  return {name, *dtype, Shape(std::span<const std::int64_t>(stored.extents)), {}};
}

NamedArray read_array(const Hdf5File& file, const std::string& name, Checksum presence) {
  const StoredArray stored = file.info(name);
  NamedArray array = describe_array(name, file.name(), stored);
  const std::shared_ptr<std::byte[]> data(new std::byte[array.bytes()]);
  file.read(name, StoredType::of(array.dtype), data.get());
  if (stored.type.dtype()) verify_checksum(file, name, data.get(), array.bytes(), presence);
  array.data = data;
  return array;
}

std::vector<std::pair<std::int64_t, std::filesystem::path>> steps_in(const std::filesystem::path& folder) {
  std::vector<std::pair<std::int64_t, std::filesystem::path>> found;
  std::error_code code;
  for (std::filesystem::directory_iterator entry(folder, code), end; !code && entry != end; entry.increment(code))
    if (const auto step = step_of(entry->path().filename().string())) found.emplace_back(*step, entry->path());
  // A folder that cannot be read is not empty: a run would start anew over the one that is there.
  validate(!code || code == std::errc::no_such_file_or_directory || code == std::errc::not_a_directory,
           ExitStatus::io_error, "{}: cannot be read ({}); check its permissions", folder.string(), code.message());
  std::sort(found.begin(), found.end());
  return found;
}

/// Returns step-….h5.aside, or .aside-2 and so on if others of that step were set aside before.
std::filesystem::path free_name_aside(const std::filesystem::path& checkpoint) {
  std::filesystem::path name = checkpoint.string() + ".aside";
  for (int number = 2; std::filesystem::exists(std::filesystem::symlink_status(name)); ++number)
    name = fmt::format("{}.aside-{}", checkpoint.string(), number);
  return name;
}

/// Writes the numbers of arrays, each to its place. Flushes to disk as it goes, because one flush at the end would take
/// long without a sign of life.
class ArrayWriter {
 public:
  ArrayWriter(RawFile& file, std::vector<FilePart> parts, const std::function<void()>& progress)
      : file_(file), progress_(progress), parts_(std::move(parts)), written_(parts_.size()), hashes_(parts_.size()) {}

  void write(std::size_t array, std::span<const std::byte> next) {
    const FilePart& part = parts_[array];
    for (std::span<const std::byte> rest = next; !rest.empty();) {
      constexpr std::size_t piece = std::size_t{256} << 20;
      const std::span<const std::byte> now = rest.first(std::min(piece - unflushed_, rest.size()));
      file_.write(part.first + written_[array], now.data(), now.size());
      hashes_[array].add(now.data(), now.size());
      written_[array] += now.size();
      unflushed_ += now.size();
      rest = rest.subspan(now.size());
      if (unflushed_ < piece) continue;
      file_.flush_to_disk();
      unflushed_ = 0;
      progress_();
    }
  }

  /// Returns the parts, with their hashes.
  std::vector<FilePart> parts() && {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      validate(written_[i] == parts_[i].bytes, ExitStatus::internal, "{}: {} has {} of {} bytes", file_.name(),
               parts_[i].name, written_[i], parts_[i].bytes);
      parts_[i].hash = hashes_[i].value();
    }
    return std::move(parts_);
  }

 private:
  RawFile& file_;
  const std::function<void()>& progress_;
  std::vector<FilePart> parts_;
  std::vector<std::uint64_t> written_;
  std::vector<RunningHash> hashes_;
  std::size_t unflushed_ = 0;
};

}  // namespace

void write_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint, const NumberSource& numbers,
                      const CheckpointEvents& events) {
  std::vector<std::string> names;
  for (const auto& array : checkpoint.arrays) names.push_back(array.name);
  const std::size_t block = manifest_block(names);
  std::vector<FilePart> parts;

  ReplaceFile replacement(path);
  // HDF5 makes the structure; the numbers are written past it, so that readers of other files need not wait for them.
  Hdf5File structure = Hdf5File::create(replacement.temporary(), replacement.name(), block);
  for (const auto& array : checkpoint.arrays) {
    const auto place = structure.reserve(array.name, StoredType::of(array.dtype), extents_of(array.shape));
    structure.write_attribute(array.name, checksum_attribute, checksum_text(0));  // replaced below
    parts.push_back({place.value_or(0), array.bytes(), 0, array.name});
  }
  for (const auto& [name, text] : checkpoint.texts) write_text_checked(structure, "/" + name, text);
  structure.flush();

  RawFile file = replacement.open();
  ArrayWriter writer(file, std::move(parts), events.progress);
  numbers([&](std::size_t array, std::span<const std::byte> next) { writer.write(array, next); });
  parts = std::move(writer).parts();
  for (const FilePart& part : parts)
    structure.replace_attribute(part.name, checksum_attribute, checksum_text(part.hash));
  structure.close();
  std::erase_if(parts, [](const FilePart& part) { return part.bytes == 0; });
  write_manifest(file, block, std::move(parts));
  file.close();
  events.before_commit();
  replacement.commit();
}

Checkpoint open_checkpoint(const std::filesystem::path& path, const std::function<void()>& progress) {
  require_readable_file(path);
  validate(verify_manifest(path, progress) == ManifestState::holds, ExitStatus::bad_data,
           "{}: is not a checkpoint, or is damaged (it does not begin with a manifest); give a file of a run's folder "
           "checkpoints/",
           path.string());
  const Hdf5File file = Hdf5File::open(path);
  Checkpoint checkpoint;
  for (const auto& name : file.datasets()) {
    if (const StoredArray stored = file.info(name); stored.type.kind == StoredType::Kind::text) {
      std::string text = file.read_text(name);
      verify_checksum(file, name, text.data(), text.size(), Checksum::required);
      checkpoint.texts.emplace(name.substr(1), std::move(text));
    } else {
      checkpoint.arrays.push_back(describe_array(name, file.name(), stored));
    }
  }
  validate(!checkpoint.texts.empty(), ExitStatus::bad_data,
           "{}: is not a checkpoint (it holds neither /deck nor /state); give a file of a run's folder checkpoints/",
           file.name());
  return checkpoint;
}

/// Prefix of an array of the optimizer's moving average (ema_state); the rest of its name is a parameter's.
constexpr const char* averages_prefix = "/optimizer/ema";

/// If `latest` is a file and no link, it is a copy (as cp -L and rsync -L make them), which stays behind when the run
/// goes on. Returns the newest whole checkpoint of its folder in its place, and says so; any other path as it is.
std::filesystem::path newest_in_place_of_copy(const std::filesystem::path& path) {
  if (path.filename() != latest_name || std::filesystem::is_symlink(std::filesystem::symlink_status(path))) return path;
  std::vector<std::filesystem::path> checkpoints = list_checkpoints(path.parent_path());
  for (; !checkpoints.empty(); checkpoints.pop_back()) {
    const std::filesystem::path& newest = checkpoints.back();
    try {
      if (verify_manifest(newest) == ManifestState::none) continue;
      warn("{}: is a copy and no link, and may be older than its folder's checkpoints; reads {}, the newest whole one",
           path.string(), newest.filename().string());
      return newest;
    } catch (const Error& error) {
      warn("{}", error.what());
    }
  }
  return path;
}

ParameterFile read_parameters(const std::filesystem::path& given) {
  require_readable_file(given);
  const std::filesystem::path path = newest_in_place_of_copy(given);
  verify_manifest(path);
  const Hdf5File file = Hdf5File::open(path);
  ParameterFile found;
  for (const auto& name : file.datasets()) {
    if (name.starts_with("/model/")) {
      if (name.ends_with("/num_batches_tracked")) continue;
      const std::string average = averages_prefix + name.substr(std::string_view("/model").size());
      found.arrays.push_back(read_array(file, file.has(average) ? average : name, Checksum::if_present));
      found.arrays.back().name = name;
    } else if (file.info(name).type.kind == StoredType::Kind::text && name.rfind('/') == 0) {
      std::string text = file.read_text(name);
      verify_checksum(file, name, text.data(), text.size(), Checksum::if_present);
      found.texts.emplace(name.substr(1), std::move(text));
    }
  }
  validate(!found.arrays.empty(), ExitStatus::bad_data,
           "{}: holds no parameters (datasets /model/<layer>/<weight, bias, …>); give a checkpoint or a weights file",
           file.name());
  return found;
}

std::string checkpoint_name(std::int64_t step) { return fmt::format("{}{:08}{}", name_prefix, step, name_suffix); }

std::int64_t newest_step(const std::filesystem::path& folder) {
  const auto steps = steps_in(folder);
  return steps.empty() ? -1 : steps.back().first;
}

void quarantine_checkpoints_after(const std::filesystem::path& folder, std::int64_t step) {
  std::vector<std::string> aside;
  for (const auto& [other, path] : steps_in(folder)) {
    if (other <= step) continue;
    const std::filesystem::path name = free_name_aside(path);
    std::error_code code;
    std::filesystem::rename(path, name, code);
    validate(!code, ExitStatus::io_error, "{}: cannot be set aside ({})", path.string(), code.message());
    aside.push_back(name.filename().string());
  }
  if (aside.empty()) return;
  log("{}: {} later than step {}, from which the run continues, {} set aside, as {}{}", folder.string(),
      aside.size() == 1 ? "a checkpoint" : fmt::format("{} checkpoints", aside.size()), step,
      aside.size() == 1 ? "is" : "are", aside.front(), aside.size() == 1 ? "" : " to " + aside.back());
}

std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  for (auto& [step, path] : steps_in(folder)) paths.push_back(std::move(path));
  return paths;
}

void point_link(const std::filesystem::path& folder, const std::string& link_name, const std::string& name) {
  const std::filesystem::path link = folder / link_name;
  const std::filesystem::path temporary = link.string() + ".tmp";
  std::error_code code;
  if (const auto there = std::filesystem::symlink_status(link, code);
      std::filesystem::exists(there) && !std::filesystem::is_symlink(there)) {
    warn("{}: is not a link, and is left unchanged, although it should point to {}", link.string(), name);
    return;
  }
  std::filesystem::remove(temporary, code);
  std::filesystem::create_symlink(name, temporary, code);
  if (!code) std::filesystem::rename(temporary, link, code);
  try {
    validate(!code, ExitStatus::io_error, "{}", code.message());
    RawFile(folder, RawFile::Access::folder).flush_to_disk();
  } catch (const Error& error) {
    warn("{}: cannot be made to point to {} ({})", link.string(), name, error.what());
  }
}

void prune_checkpoints(const std::filesystem::path& folder, std::int64_t keep, const std::vector<std::string>& kept) {
  std::error_code ignored;
  std::vector<std::filesystem::path> unwanted;
  for (std::filesystem::directory_iterator entry(folder, ignored), end; !ignored && entry != end;
       entry.increment(ignored))
    if (is_leftover(entry->path().filename().string())) unwanted.push_back(entry->path());
  const auto checkpoints = list_checkpoints(folder);
  if (keep > 0 && checkpoints.size() > static_cast<std::size_t>(keep))
    unwanted.insert(unwanted.end(), checkpoints.begin(), checkpoints.end() - keep);
  for (const std::string& name : kept) std::erase(unwanted, folder / name);
  for (const auto& path : unwanted) std::filesystem::remove(path, ignored);
}

}  // namespace lockstep
