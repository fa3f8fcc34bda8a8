// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "io/inspect.hpp"

#include <cstring>

#include "io/hdf5.hpp"
#include "support/checked_dataset.hpp"
#include "support/scratch.hpp"
#include "support/whole_checkpoint.hpp"

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
       {"checkpoint, 3 datasets", "manifest ok", "/model/fc/weight", "u8", "2×3", "6 B", "checksum ok", "second line"})
    EXPECT_TRUE(contains(inspection.text, part)) << part << " in\n" << inspection.text;
}

/// Changes the first byte of the bytes `found` in the file.
void damage(const std::string& path, const std::string& found) {
  std::string bytes = read_file(path);
  const auto place = bytes.find(found);
  ASSERT_NE(place, std::string::npos);
  bytes[place] = 99;
  write_file(path, bytes);
}

TEST(Inspect, NamesWhatIsDamaged) {
  const ScratchFolder folder;
  const std::uint8_t values[] = {11, 12, 13, 14, 15, 16};
  {
    Hdf5File file = Hdf5File::create(folder / "d.h5");
    write_checked(file, "/train/inputs", StoredType::of(DType::u8), {2, 3}, values);
    write_text_checked(file, "/train/note", "text");
  }
  damage(folder / "d.h5", "\x0b\x0c\x0d\x0e");
  const Inspection inspection = inspect_file(folder / "d.h5");
  EXPECT_TRUE(contains(inspection.text, "checksum BAD")) << inspection.text;
  EXPECT_TRUE(contains(inspection.problem, "1 of 2 datasets are damaged (/train/inputs)")) << inspection.problem;
}

TEST(Inspect, DamagedCheckpointsAreNotOpened) {
  const ScratchFolder folder;
  write_checkpoint(folder / "c.h5", example());
  damage(folder / "c.h5", "\x0b\x0c\x0d\x0e");
  expect_error(ExitStatus::bad_data, "/model/fc/weight has changed", [&] { inspect_file(folder / "c.h5"); });
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
