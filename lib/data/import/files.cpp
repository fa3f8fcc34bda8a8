// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/import/files.hpp"

#include <algorithm>
#include <cassert>

#include "base/error.hpp"
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

std::vector<SplitSize> hold_out_last(std::int64_t rows, std::int64_t validation) {
  return {{"/train", rows - validation}, {"/validation", validation}};
}

std::vector<SplitSize> hold_out_examples(std::int64_t examples, std::int64_t validation) {
  validate(validation >= 0 && validation < examples, ExitStatus::bad_usage,
           "--validation {}: leaves nothing to train on (there are {} examples); give 0 to {}", validation, examples,
           examples - 1);
  return hold_out_last(examples, validation);
}

std::string splits_text(const std::vector<SplitSize>& splits) {
  std::string text = fmt::format("{} examples to train on, {} to validate on", splits[0].rows, splits[1].rows);
  if (splits.size() > 2) text += fmt::format(", {} to test on", splits[2].rows);
  return text;
}

SplitRows::SplitRows(Hdf5File& file, const std::string& name, const StoredType& type,
                     const std::vector<std::int64_t>& row, const std::vector<SplitSize>& splits)
    : row_bytes_(StoredArray{type, row}.bytes()) {
  for (const SplitSize& split : splits) {
    if (split.rows == 0) continue;
    std::vector<std::int64_t> extents = {split.rows};
    extents.insert(extents.end(), row.begin(), row.end());
    parts_.push_back({split.rows, CheckedRows(file, split.group + "/" + name, type, extents)});
  }
}

void SplitRows::append(const void* rows, std::int64_t count) {
  const auto* next = static_cast<const std::byte*>(rows);
  while (count > 0) {
    assert(current_ < parts_.size());
    Part& part = parts_[current_];
    const std::int64_t here = std::min(count, part.left);
    part.rows.append(next, here);
    next += static_cast<std::size_t>(here) * row_bytes_;
    count -= here;
    part.left -= here;
    if (part.left == 0) ++current_;
  }
}

void SplitRows::finish() {
  for (Part& part : parts_) part.rows.finish();
}

}  // namespace lockstep
