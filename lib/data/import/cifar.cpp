// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/import/importers.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/error.hpp"
#include "data/import/files.hpp"
#include "io/output_file.hpp"

namespace lockstep {

const CifarFormat cifar10{
    "CIFAR-10",
    {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"},
    "test_batch.bin",
    {10},
    "cifar-10-binary.tar.gz",
    "cifar-10-batches-bin",
    {"data_batch_1", "cifar-10-batches-py"}};
const CifarFormat cifar100{"CIFAR-100",
                           {"train.bin"},
                           "test.bin",
                           {20, 100},
                           "cifar-100-binary.tar.gz",
                           "cifar-100-binary",
                           {"train", "cifar-100-python"}};

namespace {

constexpr std::int64_t image_side = 32, image_channels = 3;
constexpr std::size_t plane_bytes = image_side * image_side, image_bytes = plane_bytes * image_channels;
constexpr std::int64_t records_in_piece = 1024;  // 3 MB

std::size_t record_bytes(const CifarFormat& format) { return format.classes.size() + image_bytes; }

std::string python_advice(const CifarFormat& format) {
  return fmt::format(
      "from the Python version, which is pickled and is not read; download the binary version, {}, from "
      "https://www.cs.toronto.edu/~kriz/cifar.html",
      format.archive);
}

/// Says why a folder lacks a file, as far as can be seen.
Error lacking(const CifarFormat& format, const std::filesystem::path& folder, const std::string& file) {
  const std::string lacks = fmt::format("{}: has no {}", folder.string(), file);
  std::error_code ignored;
  if (std::filesystem::exists(folder / format.folder, ignored))
    return {ExitStatus::missing_file,
            fmt::format("{} (it is in {}); give --folder {}", lacks, format.folder, (folder / format.folder).string())};
  if (std::filesystem::exists(folder / format.archive, ignored))
    return {ExitStatus::missing_file,
            fmt::format("{} (it is in {}); unpack that (tar xzf {}), and give --folder {}", lacks, format.archive,
                        (folder / format.archive).string(), format.folder)};
  for (const std::string& name : format.python_names)
    if (std::filesystem::exists(folder / name, ignored))
      return {ExitStatus::bad_data, fmt::format("{}, but {}, {}", lacks, name, python_advice(format))};
  return {ExitStatus::missing_file,
          fmt::format("{}; check the path, or name the files that are there with --files", lacks)};
}

/// Returns the format's files in a folder; the test file may be missing.
std::vector<std::string> files_in(const CifarFormat& format, const std::filesystem::path& folder) {
  std::error_code code;
  const auto status = std::filesystem::status(folder, code);
  validate(std::filesystem::exists(status), ExitStatus::missing_file, "{}: no such folder; check the path",
           folder.string());
  validate(std::filesystem::is_directory(status), ExitStatus::bad_data,
           "{}: is not a folder; give the one that {} unpacks to ({}), or name files with --files", folder.string(),
           format.archive, format.folder);
  std::vector<std::string> files;
  for (const std::string& file : format.train_files) {
    if (!std::filesystem::exists(folder / file, code)) throw lacking(format, folder, file);
    files.push_back((folder / file).string());
  }
  if (std::filesystem::exists(folder / format.test_file, code)) files.push_back((folder / format.test_file).string());
  return files;
}

bool is_for_tests(const CifarFormat& format, const std::string& file) {
  return std::filesystem::path(file).filename() == format.test_file;
}

/// Number of records in a file. Throws bad_data unless it holds whole records.
std::int64_t count_records(const CifarFormat& format, const std::string& name) {
  const RawFile file = open_input(name);
  const std::uint64_t size = file.size();
  validate(size > 0, ExitStatus::bad_data, "{}: is empty; copy it again", name);
  std::array<char, 2> begin{};
  file.read(0, begin.data(), std::min<std::uint64_t>(begin.size(), size));
  // The first bytes of gzip and of pickle are larger than any first label.
  validate(begin[0] != '\x1f' || begin[1] != '\x8b', ExitStatus::bad_data,
           "{}: is compressed (gzip); unpack it (tar xzf for an archive), and give the files in it", name);
  validate(begin[0] != '\x80', ExitStatus::bad_data, "{}: is {}", name, python_advice(format));
  const std::uint64_t record = record_bytes(format);
  validate(size % record == 0, ExitStatus::bad_data,
           "{}: is truncated, or not the binary version of {} (record {} has {} of {} bytes); copy it again", name,
           format.name, size / record, size % record, record);
  return static_cast<std::int64_t>(size / record);
}

/// Turns the planes of an image into pixels of three bytes.
void interleave(const std::uint8_t* planes, std::uint8_t* pixels) {
  for (std::size_t pixel = 0; pixel < plane_bytes; ++pixel)
    for (std::size_t channel = 0; channel < image_channels; ++channel)
      pixels[pixel * image_channels + channel] = planes[channel * plane_bytes + pixel];
}

void add_records(const CifarFormat& format, const std::string& name, std::int64_t records, SplitRows& inputs,
                 SplitRows& targets) {
  const RawFile file = open_input(name);
  const std::size_t bytes = record_bytes(format), labels = format.classes.size();
  const auto most = static_cast<std::size_t>(std::min(records, records_in_piece));
  std::vector<std::uint8_t> piece(most * bytes), images(most * image_bytes), classes(most);
  for (std::int64_t first = 0; first < records; first += records_in_piece) {
    const std::int64_t count = std::min(records_in_piece, records - first);
    file.read(static_cast<std::uint64_t>(first) * bytes, piece.data(), static_cast<std::size_t>(count) * bytes);
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      const std::uint8_t* record = piece.data() + i * bytes;
      for (std::size_t label = 0; label < labels; ++label)
        validate(record[label] < format.classes[label], ExitStatus::bad_data,
                 "{}: record {} has the label {} ({} has 0 to {} there); if it is {}'s binary version, copy it again",
                 name, first + static_cast<std::int64_t>(i), record[label], format.name, format.classes[label] - 1,
                 format.name);
      classes[i] = record[labels - 1];
      interleave(record + labels, images.data() + i * image_bytes);
    }
    inputs.append(images.data(), count);
    targets.append(classes.data(), count);
  }
}

}  // namespace

std::string import_cifar(const CifarFormat& format, const ImportCifarOptions& options) {
  std::vector<std::string> files = options.files.empty() ? files_in(format, options.folder) : options.files;
  check_output(options.output, options.overwrite, files);
  std::stable_partition(files.begin(), files.end(), [&](const auto& file) { return !is_for_tests(format, file); });
  std::vector<std::int64_t> records;
  std::int64_t train = 0, test = 0;
  for (const std::string& file : files) {
    records.push_back(count_records(format, file));
    (is_for_tests(format, file) ? test : train) += records.back();
  }
  validate(train > 0, ExitStatus::bad_usage, "--files: names no training file ({} is for tests); name {}",
           format.test_file, fmt::join(format.train_files, ", "));
  Splits splits = hold_out(train, options.validation);
  splits.test = test;

  const StoredType u8 = StoredType::of(DType::u8);
  write_output(options.output, [&](Hdf5File& to) {
    SplitRows inputs(to, "inputs", u8, {image_side, image_side, image_channels}, splits);
    SplitRows targets(to, "targets", u8, {}, splits);
    for (std::size_t i = 0; i < files.size(); ++i) add_records(format, files[i], records[i], inputs, targets);
    inputs.finish();
    targets.finish();
  });
  warn_of_missing_classes(options.output);
  return options.output + ": " + splits.text();
}

}  // namespace lockstep
