// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/dataset/hdf5_dataset.hpp"

#include <cstring>
#include <numeric>

#include "data/open_datasets.hpp"
#include "support/checked_dataset.hpp"
#include "support/scratch.hpp"

namespace lockstep::test {
namespace {

const StoredType u8 = StoredType::of(DType::u8), f32 = StoredType::of(DType::f32), f64 = StoredType::of(DType::f64),
                 i64 = StoredType::of(DType::i64), i32 = StoredType::of(DType::i32);

struct Part {
  std::string name;
  StoredType type;
  std::vector<std::int64_t> extents;
};

/// Writes a file of zeros with these datasets.
std::string file_of(const ScratchFolder& folder, const std::vector<Part>& parts) {
  const std::string name = folder / "data.h5";
  Hdf5File file = Hdf5File::create(name);
  for (const auto& part : parts) {
    const StoredArray array{part.type, part.extents};
    file.write(part.name, part.type, part.extents, std::vector<std::byte>(array.bytes() + 1).data());
  }
  file.close();
  return name;
}

Datasets open(const std::string& file) {
  DataConfig config;
  config.file = file;
  return open_datasets(config, 1);
}

void expect_refused(const std::string& part, const std::vector<Part>& parts) {
  const ScratchFolder folder;
  const std::string file = file_of(folder, parts);
  expect_error(ExitStatus::bad_data, part, [&] { open(file); });
}

TEST(Hdf5Dataset, SaysWhatIsWrongWithTheLayout) {
  const Part images{"/train/inputs", u8, {4, 5, 5, 1}}, classes{"/train/targets", u8, {4}};
  expect_refused("is not a dataset", {{"/other", u8, {4}}});
  expect_refused("the parameters of a model", {{"/model/fc/weight", f32, {4}}});
  expect_refused("has /train/inputs but no /train/targets", {images});
  expect_refused("has /train/targets but no /train/inputs", {classes});
  expect_refused("/validation differs from /train", {images, classes, {"/validation/tokens", u8, {100}}});
  expect_refused("/train/inputs: has the shape 4×5×5 (images have four dimensions)",
                 {{"/train/inputs", u8, {4, 5, 5}}, classes});
  expect_refused("/train/inputs: has the shape 4 ", {{"/train/inputs", f32, {4}}, classes});
  expect_refused("/train/inputs: has the shape 4×1×2×3×4×5 (N×features",
                 {{"/train/inputs", u8, {4, 1, 2, 3, 4, 5}}, classes});
  expect_refused("/train/inputs: has no examples", {{"/train/inputs", u8, {0, 5, 5, 1}}, {"/train/targets", u8, {0}}});
  expect_refused("its examples are empty", {{"/train/inputs", u8, {4, 5, 0, 1}}, classes});
  expect_refused("/train/targets: has 3 targets (/train/inputs has 4 examples)", {images, {"/train/targets", u8, {3}}});
  expect_refused("/train/targets: has the shape 4 (values", {images, {"/train/targets", f32, {4}}});
  expect_refused("store them as integers: labels.astype(\"i4\")", {images, {"/train/targets", f32, {4}}});
  expect_refused("/validation differs from /train",
                 {images, classes, {"/validation/inputs", u8, {2, 5, 6, 1}}, {"/validation/targets", u8, {2}}});
  expect_refused("/validation/inputs but no", {images, classes, {"/validation/inputs", u8, {2, 5, 5, 1}}});
}

TEST(Hdf5Dataset, MissingFile) {
  const ScratchFolder folder;
  expect_error(ExitStatus::missing_file, "none.h5: no such file", [&] { open(folder / "none.h5"); });
}

TEST(Hdf5Dataset, ValidationMayBeAbsent) {
  const ScratchFolder folder;
  const Datasets datasets = open(file_of(folder, {{"/train/inputs", f32, {4, 5}}, {"/train/targets", f32, {4, 2}}}));
  EXPECT_EQ(datasets.train->size(), 4);
  EXPECT_EQ(datasets.train->format().input_shape, Shape({5}));
  EXPECT_EQ(datasets.train->format().target_shape, Shape({2}));
  EXPECT_FALSE(datasets.train->format().has_classes());
  EXPECT_EQ(datasets.validation, nullptr);
  expect_error(ExitStatus::bad_data, "not classes", [&] { datasets.train->check_classes(10); });
}

TEST(Hdf5Dataset, SequencesAndVolumes) {
  const ScratchFolder folder;
  const auto format_of = [&](const Part& inputs) {
    return open(file_of(folder, {inputs, {"/train/targets", u8, {4}}})).train->format();
  };
  EXPECT_EQ(format_of({"/train/inputs", f32, {4, 7, 2}}), (ExampleFormat{{7, 2}, DType::f32, {}, DType::i32}));
  EXPECT_EQ(format_of({"/train/inputs", u8, {4, 3, 5, 6, 1}}),
            (ExampleFormat{{3, 5, 6, 1}, DType::u8, {}, DType::i32}));
}

/// Examples are the same from memory and from the file, with targets of any integer type.
TEST(Hdf5Dataset, ReadsInAnyOrderFromMemoryAndFile) {
  const ScratchFolder folder;
  constexpr std::size_t n = 50, pixels = 6;
  std::vector<std::uint8_t> images(n * pixels);
  std::iota(images.begin(), images.end(), std::uint8_t{0});
  std::vector<std::int64_t> wide(n);
  std::iota(wide.begin(), wide.end(), std::int64_t{1000});
  std::vector<std::uint16_t> narrow(wide.begin(), wide.end());
  {
    Hdf5File file = Hdf5File::create(folder / "d.h5");
    write_checked(file, "/train/inputs", u8, {n, 2, 3, 1}, images.data());
    write_checked(file, "/train/targets", i64, {n}, wide.data());
    write_checked(file, "/validation/inputs", u8, {n, 2, 3, 1}, images.data());
    write_checked(file, "/validation/targets", StoredType::u16(), {n}, narrow.data());
  }
  const auto file = std::make_shared<const Hdf5File>(Hdf5File::open(folder / "d.h5"));
  const std::vector<std::int64_t> examples{7, 3, 4, 5, 49, 0, 0, 1, 48, 49};
  for (const char* split : {"/train", "/validation"})
    for (const std::size_t limit : {default_memory_limit, std::size_t{0}}) {
      const auto dataset = open_hdf5_dataset(file, ExampleNames::in_group(split), {}, limit);
      EXPECT_EQ(dataset->description(), file->name() + ":" + split);
      std::vector<std::uint8_t> inputs(examples.size() * pixels);
      std::vector<std::int32_t> targets(examples.size());
      dataset->read(examples, inputs.data(), targets.data());
      for (std::size_t i = 0; i < examples.size(); ++i) {
        EXPECT_EQ(targets[i], 1000 + examples[i]);
        EXPECT_EQ(std::memcmp(&inputs[i * pixels], &images[static_cast<std::size_t>(examples[i]) * pixels], pixels), 0);
      }
      dataset->check_classes(1050);
      expect_error(ExitStatus::bad_data, "example 49 is of class 1049 (the model has 1049 classes, 0 to 1048)",
                   [&] { dataset->check_classes(1049); });
    }
}

/// Targets of pictures: a class at each pixel (255 where there is none), or two numbers at each pixel.
TEST(Hdf5Dataset, TargetsOfPictures) {
  const ScratchFolder folder;
  constexpr std::size_t n = 4, pixels = 6;
  const std::vector<std::uint8_t> images(n * pixels);
  std::vector<std::uint8_t> labels(n * pixels);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = i % 5 == 4 ? 255 : static_cast<std::uint8_t>(i % 3);
  std::vector<float> values(2 * n * pixels);
  std::iota(values.begin(), values.end(), 0.0f);
  {
    Hdf5File file = Hdf5File::create(folder / "d.h5");
    write_checked(file, "/classes/inputs", u8, {n, 2, 3, 1}, images.data());
    write_checked(file, "/classes/targets", u8, {n, 2, 3}, labels.data());
    write_checked(file, "/values/inputs", u8, {n, 2, 3, 1}, images.data());
    write_checked(file, "/values/targets", f32, {n, 2, 3, 2}, values.data());
  }
  const auto file = std::make_shared<const Hdf5File>(Hdf5File::open(folder / "d.h5"));
  const std::vector<std::int64_t> examples{2, 0};
  std::vector<std::uint8_t> inputs(examples.size() * pixels);
  const auto of_classes = open_hdf5_dataset(file, ExampleNames::in_group("/classes"), {});
  EXPECT_EQ(of_classes->format().target_shape, Shape({2, 3}));
  std::vector<std::int32_t> classes(examples.size() * pixels);
  of_classes->read(examples, inputs.data(), classes.data());
  EXPECT_EQ(classes, (std::vector<std::int32_t>{0, 1, 255, 0, 1, 2, 0, 1, 2, 0, 255, 2}));
  of_classes->check_classes(3, 255);
  expect_error(ExitStatus::bad_data, "example 0 is of class 255", [&] { of_classes->check_classes(3); });
  expect_error(ExitStatus::bad_data, "example 0 is of class 2 ", [&] { of_classes->check_classes(2, 255); });
  const auto of_values = open_hdf5_dataset(file, ExampleNames::in_group("/values"), {});
  EXPECT_EQ(of_values->format().target_shape, Shape({2, 3, 2}));
  std::vector<float> read(examples.size() * 2 * pixels);
  of_values->read(examples, inputs.data(), read.data());
  EXPECT_EQ(read[0], 24.0f);
  EXPECT_EQ(read[12], 0.0f);
}

TEST(Hdf5Dataset, ClassesThatDoNotFit) {
  const ScratchFolder folder;
  const std::uint8_t image[4] = {};
  for (const std::int64_t wrong : {std::int64_t{-1}, std::int64_t{1} << 31, std::int64_t{1} << 40}) {
    const std::int64_t targets[2] = {3, wrong};
    {
      Hdf5File file = Hdf5File::create(folder / "d.h5");
      file.write("/train/inputs", u8, {2, 2}, image);
      file.write("/train/targets", i64, {2}, targets);
    }
    expect_error(ExitStatus::bad_data, fmt::format("example 1 is of class {}", wrong), [&] { open(folder / "d.h5"); });
  }
}

TEST(Hdf5Dataset, DamageIsFound) {
  const ScratchFolder folder;
  const std::uint8_t images[] = {1, 2, 3, 4, 50, 60, 70, 80}, targets[] = {0, 1};
  {
    Hdf5File file = Hdf5File::create(folder / "d.h5");
    write_checked(file, "/train/inputs", u8, {2, 2, 2, 1}, images);
    write_checked(file, "/train/targets", u8, {2}, targets);
  }
  const std::string whole = read_file(folder / "d.h5");
  std::string damaged = whole;
  damaged[damaged.find("\x32\x3c\x46")] = 51;
  write_file(folder / "e.h5", damaged);
  expect_error(ExitStatus::bad_data, "/train/inputs: the checksum does not match", [&] { open(folder / "e.h5"); });
  write_file(folder / "f.h5", whole.substr(0, whole.size() / 2));
  expect_error(ExitStatus::bad_data, "is truncated", [&] { open(folder / "f.h5"); });
}

}  // namespace
}  // namespace lockstep::test
