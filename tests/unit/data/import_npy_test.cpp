// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/import/importers.hpp"

#include <sys/stat.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "base/log.hpp"
#include "data/open_datasets.hpp"
#include "io/array_file.hpp"
#include "io/inspect.hpp"
#include "support/scratch.hpp"

namespace lockstep::test {
namespace {

StoredType stored_type(double) { return StoredType::of(DType::f64); }
StoredType stored_type(float) { return StoredType::of(DType::f32); }
StoredType stored_type(std::uint8_t) { return StoredType::of(DType::u8); }
StoredType stored_type(std::uint16_t) { return StoredType::u16(); }
StoredType stored_type(std::int8_t) { return {StoredType::Kind::integer, 1, true}; }
StoredType stored_type(std::int32_t) { return StoredType::of(DType::i32); }
StoredType stored_type(std::int64_t) { return StoredType::of(DType::i64); }

template <class T>
std::string npy(const std::vector<std::int64_t>& extents, const std::vector<T>& values) {
  return npy_header(stored_type(T()), extents) +
         std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

template <class T>
std::vector<T> count_up(std::size_t n) {
  std::vector<T> values(n);
  std::iota(values.begin(), values.end(), T());
  return values;
}

class ImportNpy : public testing::Test {
 protected:
  ImportNpy() : inputs(npy({5, 2}, count_up<float>(10))), targets(npy({5}, count_up<std::int32_t>(5))) {
    options.inputs = folder / "X.npy";
    options.targets = folder / "y.npy";
    options.output = folder / "out.h5";
    options.validation = {.count = 2, .are_last = true};
  }

  std::string import() {
    write_file(options.inputs, inputs);
    write_file(options.targets, targets);
    return import_npy(options);
  }
  void refused(ExitStatus status, const std::string& part) {
    expect_error(status, part, [&] { import(); });
    EXPECT_EQ(folder.names(), (std::vector<std::string>{"X.npy", "y.npy"})) << "something was left";
  }
  Datasets open() const {
    DataConfig config;
    config.file = options.output;
    return open_datasets(config, 1);
  }
  template <class Input, class Target>
  static void expect_example(const Dataset& data, std::int64_t example, const std::vector<Input>& input,
                             const std::vector<Target>& target) {
    std::vector<Input> read(input.size());
    std::vector<Target> read_target(target.size());
    ASSERT_EQ(data.format().input_bytes(), input.size() * sizeof(Input));
    data.read(std::span(&example, 1), read.data(), read_target.data());
    EXPECT_EQ(read, input);
    EXPECT_EQ(read_target, target);
  }

  ScratchFolder folder;
  ImportNpyOptions options;
  std::string inputs, targets;
};

TEST_F(ImportNpy, VectorsAndClasses) {
  EXPECT_EQ(import(), options.output + ": 3 examples to train on, 2 to validate on");
  const Datasets datasets = open();
  EXPECT_EQ(datasets.train->format(), (ExampleFormat{{2}, DType::f32, {}, DType::i32}));
  ASSERT_EQ(datasets.train->size(), 3);
  ASSERT_EQ(datasets.validation->size(), 2);
  expect_example<float, std::int32_t>(*datasets.train, 2, {4, 5}, {2});
  expect_example<float, std::int32_t>(*datasets.validation, 1, {8, 9}, {4});
  const Inspection inspection = inspect_file(options.output);
  EXPECT_EQ(inspection.problem, "");
  EXPECT_EQ(inspection.text.find("no checksum"), std::string::npos) << inspection.text;
}

TEST_F(ImportNpy, ImagesAndClassesOfAnyWidth) {
  inputs = npy({5, 2, 3, 1}, count_up<std::uint8_t>(30));
  options.overwrite = true;
  const auto expect_classes = [&](const auto& classes) {
    targets = npy({5}, classes);
    import();
    expect_example<std::uint8_t, std::int32_t>(*open().validation, 0, {18, 19, 20, 21, 22, 23}, {3});
  };
  expect_classes(count_up<std::uint8_t>(5));
  expect_classes(count_up<std::uint16_t>(5));
  expect_classes(count_up<std::int8_t>(5));
  expect_classes(count_up<std::int64_t>(5));
}

TEST_F(ImportNpy, ValuesInSixtyFourBitsAreStoredInThirtyTwo) {
  inputs = npy({5, 2}, std::vector<double>{0.1, 1, 2, 3, 4, 5, 6, 7, std::nan(""), INFINITY});
  targets = npy({5, 1}, std::vector<double>{0.5, 1.5, 2.5, 3.5, 1e-3});
  EXPECT_EQ(import(),
            fmt::format("{}: 3 examples to train on, 2 to validate on; {}: f64, stored as f32; {}: f64, stored "
                        "as f32",
                        options.output, options.inputs, options.targets));
  expect_example<float, float>(*open().train, 0, {0.1f, 1}, {0.5f});
  std::filesystem::remove(options.output);
  inputs = npy({5, 2}, std::vector<double>{0, 1, 2, 3, 4, 5, 6, -1e300, 8, 9});
  refused(ExitStatus::bad_data, "X.npy: example 3 holds -1e+300 (numbers are stored as f32, at most 3.4e38)");
}

TEST_F(ImportNpy, MoreThanAPiece) {
  constexpr std::int64_t rows = 5001;
  inputs = npy({rows, 300}, count_up<double>(rows * 300));
  targets = npy({rows}, count_up<std::int32_t>(rows));
  import();
  std::vector<float> last(300);
  std::iota(last.begin(), last.end(), 300.f * (rows - 1));
  expect_example<float, std::int32_t>(*open().validation, 1, last, {rows - 1});
}

TEST_F(ImportNpy, ArraysThatAreNoExamples) {
  const std::string good = targets;
  targets = npy({4}, count_up<std::int32_t>(4));
  refused(ExitStatus::bad_data, "y.npy: has 4 targets (" + options.inputs + " has 5 examples)");
  targets = npy({5, 1}, count_up<std::int32_t>(5));
  refused(ExitStatus::bad_data, "y.npy: has the shape 5×1 (class targets are N numbers");
  targets = npy({5}, count_up<float>(5));
  refused(ExitStatus::bad_data, "y[:, None] turns N numbers into N×1");
  targets = npy({}, count_up<float>(1));
  refused(ExitStatus::bad_data, "y.npy: has the shape scalar");
  targets = npy({5}, std::vector<std::int32_t>{0, 1, 2, -1, 0});
  refused(ExitStatus::bad_data, "y.npy: example 3 is of class -1");
  targets = npy({5}, std::vector<std::int64_t>{0, 1, std::int64_t{1} << 31, 3, 0});
  refused(ExitStatus::bad_data, "y.npy: example 2 is of class 2147483648");
  targets = good;
  inputs = npy({5, 2}, count_up<std::int64_t>(10));
  refused(ExitStatus::bad_data, "X.npy: holds i64 (inputs are u8");
  inputs = npy({5, 2, 3}, count_up<std::uint8_t>(30));
  refused(ExitStatus::bad_data, "X.npy: has the shape 5×2×3 (images have four dimensions)");
  inputs = npy({5}, count_up<float>(5));
  refused(ExitStatus::bad_data, "X.npy: has the shape 5 (N×features");
  inputs = npy({0, 5}, std::vector<float>());
  refused(ExitStatus::bad_data, "X.npy: holds no numbers (0×5 f32)");
}

TEST_F(ImportNpy, ChannelsFirst) {
  std::string warned;
  set_log_sink([&](LogLevel, std::string_view line) { warned += line; });
  enable_log(true);
  inputs = npy({5, 3, 8, 8}, std::vector<std::uint8_t>(5 * 3 * 64));
  import();
  EXPECT_NE(warned.find("X.npy: its examples are 3×8×8"), std::string::npos) << warned;
  EXPECT_NE(warned.find("numpy.transpose(inputs, (0, 2, 3, 1))"), std::string::npos) << warned;
  warned.clear();
  options.overwrite = true;
  options.validation = {};
  inputs = npy({5, 8, 8, 3}, std::vector<std::uint8_t>(5 * 3 * 64));
  import();
  set_log_sink({});
  EXPECT_EQ(warned, "");
}

TEST_F(ImportNpy, FilesAndFolders) {
  options.validation = {.count = 5, .are_last = true};
  refused(ExitStatus::bad_usage, "--validation-last 5: leaves nothing");
  options.validation = {.count = 0, .are_last = true};
  import();
  expect_error(ExitStatus::cannot_create, "exists already", [&] { import(); });
  options.overwrite = true;
  for (const std::string& input : {options.inputs, options.targets}) {
    options.output = input;
    expect_error(ExitStatus::bad_usage, "which is an input", [&] { import(); });
  }
  options.output = folder / "other.h5";
  std::filesystem::remove(options.targets);
  expect_error(ExitStatus::missing_file, "y.npy: no such file", [&] { import_npy(options); });
  options.targets = folder.path().string();
  expect_error(ExitStatus::bad_data, "is a folder", [&] { import_npy(options); });
  options.targets = folder / "pipe";
  ASSERT_EQ(::mkfifo(options.targets.c_str(), 0600), 0);
  expect_error(ExitStatus::bad_data, "is not a file that can be read twice", [&] { import_npy(options); });
}

}  // namespace
}  // namespace lockstep::test
