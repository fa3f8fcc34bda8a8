// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "io/inspect.hpp"

#include <cstring>

#include "io/checkpoint.hpp"
#include "io/hdf5.hpp"
#include "support/scratch.hpp"

namespace lockstep::test {
namespace {

Checkpoint example() {
  Checkpoint checkpoint;
  const std::uint8_t values[] = {11, 12, 13, 14, 15, 16};
  const std::shared_ptr<std::byte[]> data(new std::byte[sizeof values]);
  std::memcpy(data.get(), values, sizeof values);
  checkpoint.arrays.push_back({"/model/fc/weight", DType::u8, {2, 3}, data});
  checkpoint.texts = {{"deck", "first line\nsecond line\n"}, {"state", "step: 7\n"}};
  return checkpoint;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Inspect, DescribesACheckpoint) {
  const ScratchFolder folder;
  write_checkpoint(folder / "c.h5", example());
  const Inspection inspection = inspect_file(folder / "c.h5");
  EXPECT_EQ(inspection.problem, "");
  for (const char* part :
       {"checkpoint, 3 datasets", "/model/fc/weight", "u8", "2×3", "6 B", "checksum ok", "second line"})
    EXPECT_TRUE(contains(inspection.text, part)) << part << " in\n" << inspection.text;
}

TEST(Inspect, NamesWhatIsDamaged) {
  const ScratchFolder folder;
  write_checkpoint(folder / "c.h5", example());
  std::string bytes = read_file(folder / "c.h5");
  const auto place = bytes.find("\x0b\x0c\x0d\x0e");
  ASSERT_NE(place, std::string::npos);
  bytes[place] = 99;
  write_file(folder / "c.h5", bytes);
  const Inspection inspection = inspect_file(folder / "c.h5");
  EXPECT_TRUE(contains(inspection.text, "checksum BAD")) << inspection.text;
  EXPECT_TRUE(contains(inspection.problem, "1 of 3 datasets are damaged (/model/fc/weight)")) << inspection.problem;
}

TEST(Inspect, FilesWithoutChecksumsAreFine) {
  const ScratchFolder folder;
  const std::uint8_t values[] = {1, 2};
  {
    Hdf5File file = Hdf5File::create(folder / "d.h5");
    file.write("/train/targets", StoredType::of(DType::u8), {2}, values);
  }
  const Inspection inspection = inspect_file(folder / "d.h5");
  EXPECT_EQ(inspection.problem, "");
  EXPECT_TRUE(contains(inspection.text, "no checksum")) << inspection.text;
}

TEST(Inspect, MissingAndForeignFiles) {
  const ScratchFolder folder;
  write_file(folder / "text", "no HDF5 here, only words\n");
  expect_error(ExitStatus::missing_file, "no such file", [&] { inspect_file(folder / "none"); });
  expect_error(ExitStatus::bad_data, "is not an HDF5 file", [&] { inspect_file(folder / "text"); });
}

}  // namespace
}  // namespace lockstep::test
