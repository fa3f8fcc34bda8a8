// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/import/importers.hpp"

#include "data/open_datasets.hpp"
#include "io/inspect.hpp"
#include "support/scratch.hpp"

namespace lockstep::test {
namespace {

constexpr std::size_t image_bytes = 3072;

/// Byte k of image number i, in the planes of the CIFAR format.
std::uint8_t plane_byte(std::size_t i, std::size_t k) { return static_cast<std::uint8_t>(i * 31 + k * 7 + k / 1024); }

/// The bytes of records first … first+count-1, whose labels count through the classes.
std::string records(const CifarFormat& format, std::size_t first, std::size_t count) {
  std::string bytes;
  for (std::size_t i = first; i < first + count; ++i) {
    for (const int classes : format.classes) bytes.push_back(static_cast<char>(i % static_cast<std::size_t>(classes)));
    for (std::size_t k = 0; k < image_bytes; ++k) bytes.push_back(static_cast<char>(plane_byte(i, k)));
  }
  return bytes;
}

class ImportCifar : public testing::Test {
 protected:
  ImportCifar() {
    std::filesystem::create_directory(batches());
    options.folder = batches();
    options.output = folder / "out.h5";
  }

  std::string batches() const { return folder / "batches"; }
  /// Writes five training files of three records each, and a test file of two.
  void write_cifar10() {
    for (std::size_t file = 0; file < 5; ++file)
      write_file(batches() + "/" + cifar10.train_files[file], records(cifar10, 3 * file, 3));
    write_file(batches() + "/test_batch.bin", records(cifar10, 15, 2));
  }
  void refused(ExitStatus status, const std::string& part, const CifarFormat& format = cifar10) {
    expect_error(status, part, [&] { import_cifar(format, options); });
    for (const std::string& name : folder.names()) EXPECT_NE(name.substr(0, 3), "out") << "something was left";
  }
  Datasets open() const {
    DataConfig config;
    config.file = options.output;
    return open_datasets(config, 1);
  }
  /// Expects `example` to be record `number`.
  static void expect_record(const Dataset& data, std::int64_t example, std::size_t number, std::int32_t label) {
    std::vector<std::uint8_t> pixels(image_bytes);
    std::int32_t target = -1;
    data.read(std::span(&example, 1), pixels.data(), &target);
    EXPECT_EQ(target, label);
    for (std::size_t k = 0; k < image_bytes; ++k)
      ASSERT_EQ(pixels[k], plane_byte(number, k % 3 * 1024 + k / 3)) << "example " << example << ", byte " << k;
  }

  ScratchFolder folder;
  ImportCifarOptions options;
};

TEST_F(ImportCifar, AFolder) {
  write_cifar10();
  options.validation = {.count = 4, .are_last = true};
  EXPECT_EQ(import_cifar(cifar10, options),
            options.output + ": 11 examples to train on, 4 to validate on, 2 to test on");
  const Datasets datasets = open();
  EXPECT_EQ(datasets.train->format(), (ExampleFormat{{32, 32, 3}, DType::u8, {}, DType::i32}));
  ASSERT_EQ(datasets.train->size(), 11);
  ASSERT_EQ(datasets.validation->size(), 4);
  ASSERT_EQ(datasets.test->size(), 2);
  for (const int i : {0, 2, 3, 10}) expect_record(*datasets.train, i, static_cast<std::size_t>(i), i % 10);
  expect_record(*datasets.validation, 0, 11, 1);
  expect_record(*datasets.validation, 3, 14, 4);
  expect_record(*datasets.test, 1, 16, 6);
  const Inspection inspection = inspect_file(options.output);
  EXPECT_EQ(inspection.problem, "");
  EXPECT_EQ(inspection.text.find("no checksum"), std::string::npos) << inspection.text;
}

TEST_F(ImportCifar, SomeFilesInTheirOrder) {
  write_cifar10();
  options.folder.clear();
  for (const char* name : {"/test_batch.bin", "/data_batch_4.bin", "/data_batch_2.bin"})
    options.files.push_back(batches() + name);
  EXPECT_EQ(import_cifar(cifar10, options),
            options.output + ": 6 examples to train on, 0 to validate on, 2 to test on");
  expect_record(*open().train, 0, 9, 9);
  expect_record(*open().train, 3, 3, 3);
  expect_record(*open().test, 0, 15, 5);
  options.overwrite = true;
  options.files.erase(options.files.begin());
  EXPECT_EQ(import_cifar(cifar10, options), options.output + ": 6 examples to train on, 0 to validate on");
  EXPECT_EQ(open().test, nullptr);
  options.files = {batches() + "/test_batch.bin"};
  expect_error(ExitStatus::bad_usage, "names no training file (test_batch.bin is for tests)",
               [&] { import_cifar(cifar10, options); });
}

TEST_F(ImportCifar, MoreThanAPiece) {
  options.files = {folder / "many.bin"};
  write_file(options.files[0], records(cifar10, 0, 2500));
  options.validation = {.count = 1000, .are_last = true};
  import_cifar(cifar10, options);
  expect_record(*open().train, 1024, 1024, 4);
  expect_record(*open().validation, 999, 2499, 9);
}

TEST_F(ImportCifar, AHundredClasses) {
  write_file(batches() + "/train.bin", records(cifar100, 0, 130));
  EXPECT_EQ(import_cifar(cifar100, options), options.output + ": 130 examples to train on, 0 to validate on");
  expect_record(*open().train, 99, 99, 99);
  expect_record(*open().train, 129, 129, 29);
  options.output = folder / "out2.h5";
  std::string bad = records(cifar100, 0, 3);
  bad[2 * 3074] = 20;
  write_file(batches() + "/train.bin", bad);
  expect_error(ExitStatus::bad_data, "train.bin: record 2 has the label 20 (CIFAR-100 has 0 to 19 there)",
               [&] { import_cifar(cifar100, options); });
}

TEST_F(ImportCifar, DamagedFiles) {
  write_cifar10();
  const std::string third = batches() + "/data_batch_3.bin", whole = read_file(third);
  for (const std::size_t size : {std::size_t{1}, std::size_t{3072}, whole.size() - 1, whole.size() + 1}) {
    std::string cut = whole + "x";
    write_file(third, cut.substr(0, size));
    refused(ExitStatus::bad_data,
            fmt::format("data_batch_3.bin: is truncated, or not the binary version of CIFAR-10 (record "
                        "{} has {} of 3073 bytes)",
                        size / 3073, size % 3073));
  }
  write_file(third, "");
  refused(ExitStatus::bad_data, "data_batch_3.bin: is empty");
  std::string bad = whole;
  bad[3073] = 10;
  write_file(third, bad);
  refused(ExitStatus::bad_data, "data_batch_3.bin: record 1 has the label 10 (CIFAR-10 has 0 to 9 there)");
}

TEST_F(ImportCifar, OtherVersions) {
  options.files = {folder / "cifar-10-binary.tar.gz"};
  write_file(options.files[0], "\x1f\x8b and more");
  refused(ExitStatus::bad_data, "is compressed (gzip); unpack it (tar xzf");
  write_file(options.files[0], "\x80\x02}q\x01");
  refused(ExitStatus::bad_data,
          "is from the Python version, which is pickled and is not read; download the binary version, "
          "cifar-10-binary.tar.gz, from https://");
}

TEST_F(ImportCifar, FoldersThatLackFiles) {
  refused(ExitStatus::missing_file, "batches: has no data_batch_1.bin; check the path, or name");
  write_file(batches() + "/data_batch_1", "\x80");
  refused(ExitStatus::bad_data, "but data_batch_1, from the Python version");
  write_file(batches() + "/cifar-10-binary.tar.gz", "\x1f\x8b");
  refused(ExitStatus::missing_file, "(it is in cifar-10-binary.tar.gz); unpack that (tar xzf");
  std::filesystem::create_directory(batches() + "/cifar-10-batches-bin");
  refused(ExitStatus::missing_file, "give --folder " + batches() + "/cifar-10-batches-bin");
  write_cifar10();
  std::filesystem::remove(batches() + "/data_batch_5.bin");
  refused(ExitStatus::missing_file, "has no data_batch_5.bin");
  options.folder = folder / "nothing";
  refused(ExitStatus::missing_file, "nothing: no such folder");
  options.folder = batches() + "/data_batch_1.bin";
  refused(ExitStatus::bad_data, "is not a folder; give the one that cifar-10-binary.tar.gz unpacks to");
  options.files = {folder / "nothing.bin"};
  refused(ExitStatus::missing_file, "nothing.bin: no such file");
  options.files = {batches()};
  refused(ExitStatus::bad_data, "is a folder");
}

TEST_F(ImportCifar, OutputsAndHeldOutExamples) {
  write_cifar10();
  options.validation = {.count = 15, .are_last = true};
  refused(ExitStatus::bad_usage, "--validation-last 15: leaves nothing to train on (there are 15 examples)");
  options.validation = {.count = 0, .are_last = true};
  import_cifar(cifar10, options);
  expect_error(ExitStatus::cannot_create, "exists already", [&] { import_cifar(cifar10, options); });
  options.overwrite = true;
  options.output = batches() + "/data_batch_2.bin";
  const std::string before = read_file(options.output);
  expect_error(ExitStatus::bad_usage, "which is an input", [&] { import_cifar(cifar10, options); });
  EXPECT_EQ(read_file(options.output), before);
}

}  // namespace
}  // namespace lockstep::test
