// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Changes one byte of a checkpoint at each of 100,000 places, and cuts it at each of 10,000 lengths: all are refused.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

#include "support/scratch.hpp"
#include "support/whole_checkpoint.hpp"

namespace lockstep::test {
namespace {

constexpr std::size_t places = 100000, lengths = 10000;

/// Writes a checkpoint with more bytes than places, and many datasets, so that a good part of it is HDF5 structure.
void write_example(const std::filesystem::path& path) {
  Checkpoint checkpoint;
  std::mt19937_64 random(1);
  for (int layer = 0; layer < 24; ++layer) {
    const Shape shape{1 + static_cast<std::int64_t>(random() % 2000)};
    NamedArray array{fmt::format("/model/layer_{}/weight", layer), DType::f32, shape, {}};
    const std::shared_ptr<std::byte[]> data(new std::byte[array.bytes()]);
    for (std::size_t i = 0; i < array.bytes(); ++i) data[i] = static_cast<std::byte>(random());
    array.data = data;
    checkpoint.arrays.push_back(array);
  }
  checkpoint.texts = {
      {"deck", std::string(3000, 'd')}, {"provenance", std::string(800, 'p')}, {"state", "{\"step\": 7}"}};
  write_checkpoint(path, checkpoint);
}

std::vector<std::size_t> some_of(std::size_t count, std::size_t end) {
  std::vector<std::size_t> all(end);
  std::iota(all.begin(), all.end(), std::size_t{0});
  std::shuffle(all.begin(), all.end(), std::mt19937_64(2));
  all.resize(std::min(count, end));
  return all;
}

/// Expects reading the file to be refused as damaged data are.
void expect_refused(const std::filesystem::path& path) {
  try {
    read_checkpoint(path);
    ADD_FAILURE() << "is accepted";
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.status()), static_cast<int>(ExitStatus::bad_data)) << error.what();
  }
}

TEST(CheckpointDamage, NoChangedByteIsAccepted) {
  const ScratchFolder folder;
  write_example(folder / "c.h5");
  std::string bytes = read_file(folder / "c.h5");
  ASSERT_GE(bytes.size(), places);
  const int file = ::open((folder / "c.h5").c_str(), O_WRONLY);
  ASSERT_GE(file, 0);
  std::mt19937_64 random(3);
  const auto put = [&](std::size_t place, char byte) {
    ASSERT_EQ(::pwrite(file, &byte, 1, static_cast<off_t>(place)), 1);
  };
  for (const std::size_t place : some_of(places, bytes.size())) {
    SCOPED_TRACE(place);
    put(place, static_cast<char>(bytes[place] ^ static_cast<char>(1 + random() % 255)));
    expect_refused(folder / "c.h5");
    put(place, bytes[place]);
    if (HasFailure()) break;
  }
  ::close(file);
  EXPECT_EQ(read_checkpoint(folder / "c.h5").arrays.size(), 24u);
}

TEST(CheckpointDamage, NoCutFileIsAccepted) {
  const ScratchFolder folder;
  write_example(folder / "c.h5");
  auto cuts = some_of(lengths, std::filesystem::file_size(folder / "c.h5"));
  std::ranges::sort(cuts, std::greater<>());
  for (const std::size_t length : cuts) {
    SCOPED_TRACE(length);
    std::filesystem::resize_file(folder / "c.h5", length);
    expect_refused(folder / "c.h5");
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace lockstep::test
