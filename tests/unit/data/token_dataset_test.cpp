// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/dataset/token_dataset.hpp"

#include <hdf5.h>

#include <numeric>

#include "data/batch/upload.hpp"
#include "data/dataset/synthetic.hpp"
#include "data/open_datasets.hpp"
#include "support/checked_dataset.hpp"
#include "support/scratch.hpp"

namespace lockstep::test {
namespace {

using Tokens = std::vector<std::int32_t>;

/// Writes the tokens 0, 1, …, count-1 for training, and 0, 1, …, validation-1 for validation.
std::string file_of(const ScratchFolder& folder, const StoredType& type, std::int64_t count,
                    std::int64_t validation = 0) {
  const std::string name = folder / "text.h5";
  Hdf5File file = Hdf5File::create(name);
  const auto write = [&]<class T>(T, const std::string& split, std::int64_t n) {
    std::vector<T> tokens(static_cast<std::size_t>(n));
    std::iota(tokens.begin(), tokens.end(), T(0));
    write_checked(file, split, type, {n}, tokens.data());
  };
  for (const auto& [split, n] : {std::pair{"/train/tokens", count}, {"/validation/tokens", validation}}) {
    if (n == 0) continue;
    if (type.bytes == 1) write(std::uint8_t{}, split, n);
    if (type.bytes == 2) write(std::uint16_t{}, split, n);
    if (type.bytes == 4) write(std::int32_t{}, split, n);
    if (type.bytes == 8) write(std::int64_t{}, split, n);
  }
  file.close();
  return name;
}

Datasets open(const std::string& file, std::optional<std::int64_t> sequence_length) {
  DataConfig config;
  config.file = file;
  config.sequence_length = sequence_length;
  return open_datasets(config, 1);
}

TEST(TokenDataset, WindowsPredictWhatFollows) {
  const ScratchFolder folder;
  for (const StoredType& type :
       {StoredType::of(DType::u8), StoredType::u16(), StoredType::of(DType::i32), StoredType::of(DType::i64)}) {
    const std::string name = file_of(folder, type, 24, 9);
    const auto file = std::make_shared<const Hdf5File>(Hdf5File::open(name));
    for (const std::size_t limit : {default_memory_limit, std::size_t{8}}) {
      const auto dataset = open_token_dataset(file, "/train", 4, {}, limit);
      EXPECT_EQ(dataset->size(), 5);  // windows of 21 tokens; the last three are too few for another
      EXPECT_EQ(dataset->format(), (ExampleFormat{{4}, DType::i32, {4}, DType::i32}));
      EXPECT_TRUE(dataset->format().has_tokens() && dataset->format().has_classes());
      EXPECT_EQ(dataset->description(), name + ":/train/tokens");
      Tokens inputs(8), targets(8);
      dataset->read(std::vector<std::int64_t>{4, 1}, inputs.data(), targets.data());
      EXPECT_EQ(inputs, (Tokens{16, 17, 18, 19, 4, 5, 6, 7}));
      EXPECT_EQ(targets, (Tokens{17, 18, 19, 20, 5, 6, 7, 8}));
    }
    const Datasets datasets = open(name, 4);
    EXPECT_EQ(datasets.validation->size(), 2);
    EXPECT_EQ(datasets.validation->format(), datasets.train->format());
    EXPECT_EQ(open(name, 8).validation->size(), 1);
  }
}

/// A list of words is not taken as the vocabulary, which is one text with a character for each token.
TEST(TokenDataset, TheVocabularyIsOneText) {
  const ScratchFolder folder;
  const std::string name = file_of(folder, StoredType::of(DType::u8), 9);
  EXPECT_EQ(open(name, 4).train->vocabulary(), "");
  const hid_t file = H5Fopen(name.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, H5T_VARIABLE);
  const hsize_t extents[] = {2};
  const char* const words[] = {"the", "of"};
  const hid_t space = H5Screate_simple(1, extents, nullptr);
  const hid_t dataset = H5Dcreate2(file, "vocabulary", type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, words);
  H5Dclose(dataset), H5Sclose(space), H5Tclose(type), H5Fclose(file);
  EXPECT_EQ(open(name, 4).train->vocabulary(), "");
}

TEST(TokenDataset, NamesTheFirstTokenThatIsTooLarge) {
  const ScratchFolder folder;
  const std::string name = file_of(folder, StoredType::u16(), 600);
  const auto file = std::make_shared<const Hdf5File>(Hdf5File::open(name));
  for (const std::size_t limit : {default_memory_limit, std::size_t{8}}) {
    const auto dataset = open_token_dataset(file, "/train", 4, {}, limit);
    dataset->check_tokens(600);
    dataset->check_classes(600);
    expect_error(
        ExitStatus::bad_data,
        name + ":/train/tokens: token 530 at position 530 is outside the model's vocabulary of 530 words (0 to 529)",
        [&] { dataset->check_tokens(530); });
    expect_error(ExitStatus::bad_data, "token 599 at position 599 is outside the model's 599 outputs",
                 [&] { dataset->check_classes(599); });
  }
}

TEST(TokenDataset, SaysWhatIsWrong) {
  const ScratchFolder folder;
  const auto stored = [&](const StoredType& type, const std::vector<std::int64_t>& extents, const auto& values) {
    const std::string name = folder / "bad.h5";
    Hdf5File file = Hdf5File::create(name);
    file.write("/train/tokens", type, extents, values.data());
    file.close();
    return name;
  };
  const std::vector<std::int64_t> wide = {1, 2, -3, std::int64_t{1} << 31};
  const std::vector<float> reals(4);
  const StoredType i64 = StoredType::of(DType::i64);
  expect_error(ExitStatus::bad_data, "token -3 at position 2", [&] { open(stored(i64, {4}, wide), 2); });
  expect_error(ExitStatus::bad_data, "token 2147483648 at position 1",
               [&] { open(stored(i64, {2}, std::vector{wide[0], wide[3]}), 1); });
  expect_error(ExitStatus::bad_data, "holds f32", [&] { open(stored(StoredType::of(DType::f32), {4}, reals), 2); });
  expect_error(ExitStatus::bad_data, "has the shape 2×2", [&] { open(stored(i64, {2, 2}, wide), 2); });
  const std::string name = file_of(folder, StoredType::of(DType::u8), 8, 4);
  expect_error(ExitStatus::bad_data, "text.h5:/train/tokens: has 8 tokens", [&] { open(name, 8); });
  expect_error(ExitStatus::bad_data, "text.h5:/validation/tokens: has 4 tokens", [&] { open(name, 4); });
  expect_error(ExitStatus::bad_deck, "data.sequence_length: is missing", [&] { open(name, {}); });
}

TEST(TokenDataset, SequenceLengthIsForTokensOnly) {
  const ScratchFolder folder;
  const std::string name = folder / "images.h5";
  Hdf5File file = Hdf5File::create(name);
  const std::uint8_t zeros[64] = {};
  file.write("/train/inputs", StoredType::of(DType::u8), {4, 3}, zeros);
  file.write("/train/targets", StoredType::of(DType::u8), {4}, zeros);
  file.write("/train/tokens", StoredType::of(DType::u8), {4}, zeros);
  file.close();
  expect_error(ExitStatus::bad_data, "cannot be combined with /train/inputs", [&] { open(name, 2); });
  Hdf5File images = Hdf5File::create(name);
  images.write("/train/inputs", StoredType::of(DType::u8), {4, 3}, zeros);
  images.write("/train/targets", StoredType::of(DType::u8), {4}, zeros);
  images.close();
  expect_error(ExitStatus::bad_deck, "data.sequence_length: is given", [&] { open(name, 2); });
}

TEST(TokenDataset, RandomTokens) {
  RandomConfig config;
  config.vocabulary = 11;
  config.sequence_length = 6;
  config.train = 50;
  const auto dataset = config.make(Split::train, 1);
  EXPECT_EQ(dataset->size(), 50);
  dataset->check_tokens(11);
  dataset->check_classes(12);
  expect_error(ExitStatus::bad_data, "token 10 at position", [&] { dataset->check_tokens(10); });
  Tokens inputs(300), targets(300);
  std::vector<std::int64_t> all(50);
  std::iota(all.begin(), all.end(), std::int64_t{0});
  dataset->read(all, inputs.data(), targets.data());
  EXPECT_TRUE(std::equal(inputs.begin() + 1, inputs.end(), targets.begin()));
  std::vector<int> counts(11);
  for (const auto token : targets) ++counts.at(static_cast<std::size_t>(token));
  for (const int count : counts) EXPECT_GT(count, 8);
}

TEST(TokenDataset, TokensAreUploadedAsTheyAre) {
  const ScratchFolder folder;
  const auto dataset = std::move(open(file_of(folder, StoredType::of(DType::u8), 13), 4).train);
  HostBatch batch;
  batch.plan.examples = {2, 0, 1};
  batch.inputs = Kokkos::View<std::byte*, StagingSpace>("inputs", 3 * dataset->format().input_bytes());
  batch.targets = Kokkos::View<std::byte*, StagingSpace>("targets", 3 * dataset->format().target_bytes());
  dataset->read(batch.plan.examples, batch.inputs.data(), batch.targets.data());
  for (const DType compute : {DType::f32, DType::bf16}) {
    BatchUploader uploader(dataset->format(), {}, compute, 3);
    const DeviceBatch examples = uploader.upload(ExecSpace(), batch, 1, 2);
    EXPECT_EQ(examples.inputs.shape, Shape({2, 4}));
    EXPECT_EQ(examples.inputs.dtype, DType::i32);
    Tokens inputs(8), targets(8);
    copy_to_host(ExecSpace(), examples.inputs, inputs.data());
    copy_to_host(ExecSpace(), examples.targets, targets.data());
    EXPECT_EQ(inputs, (Tokens{0, 1, 2, 3, 4, 5, 6, 7}));
    EXPECT_EQ(targets, (Tokens{1, 2, 3, 4, 5, 6, 7, 8}));
  }
  DataConfig deck;
  deck.normalize.mean = deck.normalize.std = {1};
  expect_error(ExitStatus::bad_deck, "data.normalize: the inputs are tokens",
               [&] { normalization_of(deck, dataset->format(), false); });
  AugmentConfig augment;
  augment.horizontal_flip = true;
  expect_error(ExitStatus::bad_deck, "data.augment: the inputs are 4 tokens",
               [&] { check_augment(dataset->format(), augment); });
}

}  // namespace
}  // namespace lockstep::test
