// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/import/importers.hpp"

#include <sys/resource.h>
#include <zlib.h>

#include "data/open_datasets.hpp"
#include "io/inspect.hpp"
#include "support/scratch.hpp"

namespace lockstep::test {
namespace {

std::string big_endian(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}

std::string idx(std::uint32_t magic, const std::vector<std::uint32_t>& extents, const std::string& values) {
  std::string bytes = big_endian(magic);
  for (const auto extent : extents) bytes += big_endian(extent);
  return bytes + values;
}

std::string count_up(std::size_t n) {
  std::string bytes;
  for (std::size_t i = 0; i < n; ++i) bytes.push_back(static_cast<char>(i));
  return bytes;
}

void write_gzip(const std::string& path, const std::string& bytes) {
  const gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
}

class ImportIdx : public testing::Test {
 protected:
  ImportIdx() : images(idx(0x803, {5, 2, 3}, count_up(30))), labels(idx(0x801, {5}, count_up(5))) {
    options.images = folder / "images";
    options.labels = folder / "labels";
    options.output = folder / "out.h5";
    options.validation = {.count = 2, .are_last = true};
  }

  std::string import() {
    write_file(options.images, images);
    write_file(options.labels, labels);
    return import_idx(options);
  }

  void refused(ExitStatus status, const std::string& part) {
    expect_error(status, part, [&] { import(); });
    EXPECT_EQ(folder.names(), (std::vector<std::string>{"images", "labels"})) << "something was left";
  }

  Datasets open() const {
    DataConfig config;
    config.file = options.output;
    return open_datasets(config, 1);
  }

  ScratchFolder folder;
  ImportIdxOptions options;
  std::string images, labels;
};

TEST_F(ImportIdx, SplitsImagesAndLabels) {
  EXPECT_EQ(import(), options.output + ": 3 examples to train on, 2 to validate on");
  const Datasets datasets = open();
  EXPECT_EQ(datasets.train->size(), 3);
  EXPECT_EQ(datasets.validation->size(), 2);
  EXPECT_EQ(datasets.train->format(), (ExampleFormat{{2, 3, 1}, DType::u8, {}, DType::i32}));
  const std::int64_t second[] = {1};
  std::vector<std::uint8_t> pixels(6);
  std::int32_t target = 0;
  datasets.validation->read(second, pixels.data(), &target);
  EXPECT_EQ(pixels[0], 24);
  EXPECT_EQ(target, 4);
  const Inspection inspection = inspect_file(options.output);
  EXPECT_EQ(inspection.problem, "");
  EXPECT_EQ(inspection.text.find("no checksum"), std::string::npos) << inspection.text;
}

TEST_F(ImportIdx, ReadsGzip) {
  write_gzip(options.images, images);
  write_gzip(options.labels, labels);
  import_idx(options);
  EXPECT_EQ(open().train->size(), 3);
}

// The file has more images than the importer may hold at once.
TEST_F(ImportIdx, ReadsPieceByPiece) {
  constexpr std::size_t megabytes = 96;
  const gzFile file = gzopen(options.images.c_str(), "wb1");
  const std::string header = idx(0x803, {megabytes, 1024, 1024}, ""), megabyte(std::size_t{1} << 20, '\7');
  gzwrite(file, header.data(), static_cast<unsigned>(header.size()));
  for (std::size_t i = 0; i < megabytes; ++i) gzwrite(file, megabyte.data(), static_cast<unsigned>(megabyte.size()));
  gzclose(file);
  write_file(options.labels, idx(0x801, {megabytes}, count_up(megabytes)));
  const auto most_kilobytes = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  const auto before = most_kilobytes();
  import_idx(options);
  EXPECT_LT(most_kilobytes() - before, 1024 * static_cast<long>(megabytes) / 2);
  EXPECT_EQ(open().train->size(), static_cast<std::int64_t>(megabytes) - 2);
}

TEST_F(ImportIdx, OtherShapes) {
  images = idx(0x804, {5, 2, 1, 3}, count_up(30));
  options.validation = {.count = 0, .are_last = true};
  import();
  EXPECT_EQ(open().train->format().input_shape, Shape({2, 1, 3}));
  EXPECT_EQ(open().validation, nullptr);
  images = idx(0x802, {5, 6}, count_up(30));
  options.overwrite = true;
  import();
  EXPECT_EQ(open().train->format().input_shape, Shape({6}));
}

TEST_F(ImportIdx, WrongMagicNumbers) {
  const std::string good = images;
  images = labels;
  refused(ExitStatus::bad_data, "images: wrong magic number 0x00000801");
  images = idx(0xD03, {5, 2, 3}, count_up(120));  // floats
  refused(ExitStatus::bad_data, "images: wrong magic number 0x00000d03");
  images = "P5 2 3 255 something else";
  refused(ExitStatus::bad_data, "images: wrong magic number");
  images = good;
  labels = good;
  refused(ExitStatus::bad_data, "labels: wrong magic number 0x00000803");
}

TEST_F(ImportIdx, CutFilesOfAnyLength) {
  const std::string whole = images;
  for (std::size_t length = 0; length < whole.size(); ++length) {
    images = whole.substr(0, length);
    refused(ExitStatus::bad_data, "is truncated");
  }
  images = idx(0x803, {4000000000u, 4000000000u, 4000000000u}, count_up(30));
  refused(ExitStatus::bad_data, "more than any file has");
  images = idx(0x803, {5, 2000, 3000}, count_up(30));
  refused(ExitStatus::bad_data, "is truncated (30 bytes of values, its header promises 30000000)");
}

TEST_F(ImportIdx, TrailingBytes) {
  labels += "x";
  refused(ExitStatus::bad_data, "labels: has bytes after its values");
}

TEST_F(ImportIdx, DamagedGzip) {
  std::string noise;
  for (std::uint32_t i = 0, x = 1; i < 3000; ++i)
    noise.push_back(static_cast<char>((x = x * 1664525u + 1013904223u) >> 24));
  write_gzip(folder / "images", idx(0x803, {5, 20, 30}, noise));
  const std::string whole = read_file(folder / "images");
  images = whole.substr(0, whole.size() / 2);
  refused(ExitStatus::bad_data, "is truncated");
  images = whole.substr(0, whole.size() - 4);
  refused(ExitStatus::bad_data, "is truncated");
  images = whole;
  images[whole.size() / 2] = static_cast<char>(images[whole.size() / 2] ^ 1);
  refused(ExitStatus::bad_data, "cannot be unpacked");
}

TEST_F(ImportIdx, CountsThatDiffer) {
  labels = idx(0x801, {4}, count_up(4));
  refused(ExitStatus::bad_data, "has 4 labels");
}

TEST_F(ImportIdx, NoImages) {
  images = idx(0x803, {0, 2, 3}, "");
  labels = idx(0x801, {0}, "");
  refused(ExitStatus::bad_data, "has no images");
}

TEST_F(ImportIdx, NothingLeftToTrainOn) {
  options.validation = {.count = 5, .are_last = true};
  refused(ExitStatus::bad_usage, "--validation-last 5: leaves nothing");
}

TEST_F(ImportIdx, FilesAndFolders) {
  import();
  const std::string made = read_file(options.output);
  expect_error(ExitStatus::cannot_create, "exists already", [&] { import(); });
  EXPECT_EQ(read_file(options.output), made);
  options.overwrite = true;
  for (const std::string& input : {options.images, options.labels}) {
    options.output = input;
    expect_error(ExitStatus::bad_usage, "which is an input", [&] { import(); });
  }
  EXPECT_EQ(read_file(options.labels), labels);
  options.output = folder / "no/out.h5";
  expect_error(ExitStatus::cannot_create, "cannot be created", [&] { import(); });
  options.output = folder / "other.h5";
  std::filesystem::remove(options.labels);
  expect_error(ExitStatus::missing_file, "labels: no such file", [&] { import_idx(options); });
  options.labels = folder.path().string();
  expect_error(ExitStatus::bad_data, "is a folder", [&] { import_idx(options); });
}

TEST(ImportMnist, HasTheNumbersOfItsReadMe) {
  ImportIdxOptions options;
  options.images = real_data("mnist/t10k-images-idx3-ubyte.gz");
  options.labels = real_data("mnist/t10k-labels-idx1-ubyte.gz");
  if (options.images.empty() || options.labels.empty())
    GTEST_SKIP() << "no MNIST files in ../shared/data or LOCKSTEP_DATA_DIR";
  const ScratchFolder folder;
  options.output = folder / "mnist.h5";
  options.validation = {.count = 1000, .are_last = true};
  import_idx(options);
  DataConfig config;
  config.file = options.output;
  const Datasets datasets = open_datasets(config, 1);
  EXPECT_EQ(datasets.train->size(), 9000);
  EXPECT_EQ(datasets.validation->size(), 1000);
  EXPECT_EQ(datasets.train->format().input_shape, Shape({28, 28, 1}));
  datasets.train->check_classes(10);
  const std::int64_t first[] = {0, 1, 2, 3, 4};
  std::vector<std::byte> pixels(5 * 784);
  std::vector<std::int32_t> targets(5);
  datasets.train->read(first, pixels.data(), targets.data());
  EXPECT_EQ(targets, (std::vector<std::int32_t>{7, 2, 1, 0, 4}));
}

}  // namespace
}  // namespace lockstep::test
