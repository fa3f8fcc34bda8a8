// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/import/files.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "core/random.hpp"
#include "data/dataset/stored_examples.hpp"
#include "io/output_file.hpp"

namespace lockstep {

RawFile open_input(const std::string& path) {
  std::error_code code;
  const auto status = std::filesystem::status(path, code);
  validate(!std::filesystem::is_directory(status), ExitStatus::bad_data, "{}: is a folder; name the file in it", path);
  validate(std::filesystem::exists(status), ExitStatus::missing_file,
           "{}: no such file; check the path (relative paths start at the working folder)", path);
  validate(std::filesystem::is_regular_file(status), ExitStatus::bad_data,
           "{}: is not a file that can be read twice (a pipe, say); copy it into one", path);
  return RawFile(path, RawFile::Access::read);
}

void write_output(const std::filesystem::path& output, const std::function<void(Hdf5File&)>& write) {
  ReplaceFile replacement(output);
  Hdf5File file = Hdf5File::create(replacement.temporary(), replacement.name());
  write(file);
  file.close();
  replacement.commit();
}

std::string Splits::text() const {
  std::string text = fmt::format("{} examples to train on, {} to validate on", train, validation);
  if (test > 0) text += fmt::format(", {} to test on", test);
  return text;
}

Splits hold_out(std::int64_t examples, const HeldOutExamples& validation) {
  validate(validation.count >= 0 && validation.count < examples, ExitStatus::bad_usage,
           "{} {}: leaves nothing to train on (there are {} examples); give 0 to {}",
           validation.are_last ? "--validation-last" : "--validation", validation.count, examples, examples - 1);
  Splits splits{.train = examples - validation.count, .validation = validation.count};
  if (validation.are_last || validation.count == 0) return splits;
  constexpr std::uint64_t seed = 1;
  const Permutation order(examples, {seed, RandomPurpose::shuffle, 0});
  splits.is_held_out.resize(static_cast<std::size_t>(examples));
  for (std::int64_t i = 0; i < validation.count; ++i) splits.is_held_out[static_cast<std::size_t>(order(i))] = true;
  return splits;
}

SplitRows::SplitRows(Hdf5File& file, const std::string& name, const StoredType& type,
                     const std::vector<std::int64_t>& row, const Splits& splits)
    : splits_(splits), row_bytes_(StoredArray{type, row}.bytes()) {
  const std::pair<const char*, std::int64_t> sizes[] = {
      {"/train/", splits.train}, {"/validation/", splits.validation}, {"/test/", splits.test}};
  for (std::size_t i = 0; i < std::size(sizes); ++i) {
    if (sizes[i].second == 0) continue;
    std::vector<std::int64_t> extents = {sizes[i].second};
    extents.insert(extents.end(), row.begin(), row.end());
    parts_[i].emplace(file, sizes[i].first + name, type, extents);
  }
}

SplitRows::Split SplitRows::split_of(std::int64_t row) const {
  if (row >= splits_.train + splits_.validation) return test;
  const bool held_out = splits_.is_held_out.empty() ? row >= splits_.train
                                                    : splits_.is_held_out[static_cast<std::size_t>(row)];
  return held_out ? validation : train;
}

void SplitRows::append(const void* rows, std::int64_t count) {
  const auto* from = static_cast<const std::byte*>(rows);
  for (const std::int64_t end = next_ + count; next_ < end;) {
    const Split split = split_of(next_);
    std::int64_t together = 1;
    while (next_ + together < end && split_of(next_ + together) == split) ++together;
    parts_[split]->append(from, together);
    from += static_cast<std::size_t>(together) * row_bytes_;
    next_ += together;
  }
}

void SplitRows::finish() {
  for (std::optional<CheckedRows>& part : parts_)
    if (part) part->finish();
}

void warn_of_missing_classes(const std::string& name) {
  const Hdf5File file = Hdf5File::open(name);
  const auto classes_of = [&](const std::string& targets) {
    std::set<std::int64_t> classes;
    const StoredArray array = file.info(targets);
    if (array.type.kind != StoredType::Kind::integer || array.extents.size() > 1) return classes;
    read_in_pieces(file, targets, array, [&](std::int64_t, std::int64_t rows, const std::byte* values) {
      for_each_integer(array.type, rows, values, [&](std::int64_t, std::int64_t value) { classes.insert(value); });
    });
    return classes;
  };
  const std::set<std::int64_t> train = classes_of("/train/targets");
  for (const std::string split : {"/validation", "/test"})
    if (file.has(split + "/targets"))
      warn_of_missing_classes(train, name + ":/train", classes_of(split + "/targets"), name + ":" + split);
}

}  // namespace lockstep
