// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "io/hdf5.hpp"

#include <hdf5.h>
#include <unistd.h>

#include <numeric>
#include <optional>

#include "support/checked_dataset.hpp"
#include "support/scratch.hpp"

namespace lockstep::test {
namespace {

const StoredType f32 = StoredType::of(DType::f32);

std::string small_file(const ScratchFolder& folder, const std::string& name) {
  std::vector<float> values(60);
  std::iota(values.begin(), values.end(), 0.0F);
  Hdf5File file = Hdf5File::create(folder / name);
  write_checked(file, "/a/b/values", f32, {5, 3, 4}, values.data());
  write_text_checked(file, "/note", "two\nlines");
  file.close();
  return folder / name;
}

TEST(Hdf5, WritesWhatItReads) {
  const ScratchFolder folder;
  const Hdf5File file = Hdf5File::open(small_file(folder, "x.h5"));
  EXPECT_EQ(file.datasets(), (std::vector<std::string>{"/a/b/values", "/note"}));
  EXPECT_TRUE(file.has("/a/b/values"));
  EXPECT_FALSE(file.has("/a/c/values"));
  EXPECT_FALSE(file.has("/note/values"));  // /note is no group
  const StoredArray info = file.info("/a/b/values");
  EXPECT_EQ(to_string(info.type), "f32");
  EXPECT_EQ(extents_text(info.extents), "5×3×4");
  std::vector<double> wide(60);
  file.read("/a/b/values", StoredType::of(DType::f64), wide.data());
  EXPECT_EQ(wide[59], 59.0);
  EXPECT_EQ(file.read_text("/note"), "two\nlines");
  EXPECT_EQ(file.attribute("/note", "xxh3")->size(), 16u);
  EXPECT_FALSE(file.attribute("/note", "other"));
}

TEST(Hdf5, ReadsRows) {
  const ScratchFolder folder;
  const Hdf5File file = Hdf5File::open(small_file(folder, "x.h5"));
  const Hdf5Rows rows = file.rows("/a/b/values", f32);
  std::vector<float> two(24);
  rows.read(2, 2, two.data());
  EXPECT_EQ(two.front(), 24.0F);
  EXPECT_EQ(two.back(), 47.0F);
  expect_error(ExitStatus::bad_data, "/a/b/values, rows 4 to 5: cannot be read", [&] { rows.read(4, 2, two.data()); });
}

/// The library gives zeros for what is behind the end of the file.
TEST(Hdf5, ReadsNoRowsOfAFileThatHasShrunk) {
  const ScratchFolder folder;
  std::vector<std::uint8_t> bytes(20000, 7);
  const StoredType u8 = StoredType::of(DType::u8);
  Hdf5File created = Hdf5File::create(folder / "x.h5");
  write_checked(created, "/values", u8, {1000, 20}, bytes.data());
  created.close();
  std::optional<Hdf5File> file = Hdf5File::open(folder / "x.h5");
  const Hdf5Rows rows = file->rows("/values", u8);
  file.reset();  // the rows keep it open
  rows.read(990, 10, bytes.data());
  const auto size = std::filesystem::file_size(folder / "x.h5");
  std::filesystem::resize_file(folder / "x.h5", size - 5000);
  expect_error(ExitStatus::bad_data,
               fmt::format("x.h5:/values, rows 990 to 999: cannot be read (the file had {} bytes when it was opened, "
                           "and has {} now",
                           size, size - 5000),
               [&] { rows.read(990, 10, bytes.data()); });
  expect_error(ExitStatus::bad_data, "/values, row 3: cannot be read", [&] { rows.read(3, 1, bytes.data()); });
}

TEST(Hdf5, TextsOfAnyLengthKeepTheirBytes) {
  const ScratchFolder folder;
  const std::string texts[] = {"", "x", std::string(100000, 'y'), "α·β = γ\n"};
  Hdf5File file = Hdf5File::create(folder / "t.h5");
  for (int i = 0; i < 4; ++i) file.write_text("/t" + std::to_string(i), texts[i]);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(file.read_text("/t" + std::to_string(i)), texts[i]);
}

TEST(Hdf5, EqualContentsAreEqualFiles) {
  const ScratchFolder folder;
  const std::string first = read_file(small_file(folder, "x.h5"));
  ::sleep(1);  // time stamps in the files would differ
  EXPECT_EQ(first, read_file(small_file(folder, "y.h5")));
}

TEST(Hdf5, SaysWhatIsWrongWithAFile) {
  const ScratchFolder folder;
  expect_error(ExitStatus::missing_file, "no such file", [&] { Hdf5File::open(folder / "none.h5"); });
  expect_error(ExitStatus::missing_file, "no such file", [&] { Hdf5File::open(folder / "none/none.h5"); });
  expect_error(ExitStatus::bad_data, "is a folder", [&] { Hdf5File::open(folder.path()); });
  write_file(folder / "empty.h5", "");
  expect_error(ExitStatus::bad_data, "is empty", [&] { Hdf5File::open(folder / "empty.h5"); });
  write_file(folder / "text.h5", "this is a text, whatever its name says\n");
  expect_error(ExitStatus::bad_data, "is not an HDF5 file", [&] { Hdf5File::open(folder / "text.h5"); });
  expect_error(ExitStatus::cannot_create, "cannot be created", [&] { Hdf5File::create(folder / "none/new.h5"); });
}

TEST(Hdf5, RefusesFilesCutAtAnyLength) {
  const ScratchFolder folder;
  const std::string whole = read_file(small_file(folder, "x.h5"));
  for (std::size_t length = 1; length < whole.size(); length += 13) {
    write_file(folder / "cut.h5", whole.substr(0, length));
    // A file shorter than the format's first block does not record its length.
    expect_error(ExitStatus::bad_data,
                 length < 8    ? "is not an HDF5 file"
                 : length < 48 ? ""
                               : "is truncated",
                 [&] { Hdf5File::open(folder / "cut.h5"); });
  }
}

TEST(Hdf5, PromisesAreNotBelieved) {
  const ScratchFolder folder;
  const std::string name = folder / "promise.h5";
  const hid_t file = H5Fcreate(name.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hsize_t extents[] = {hsize_t{1} << 30, 100}, chunk[] = {1, 100};
  const hid_t space = H5Screate_simple(2, extents, nullptr), chunked = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(chunked, 2, chunk);
  H5Dclose(H5Dcreate2(file, "x", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, chunked, H5P_DEFAULT));
  H5Pclose(chunked), H5Sclose(space), H5Fclose(file);
  expect_error(ExitStatus::bad_data, "/x: needs 429496729600 bytes, but the file holds 0 for it",
               [&] { Hdf5File::open(name).info("/x"); });
}

/// Writes a file with four numbers in /x, and so many attributes of /x that its header has several blocks.
void write_numbers(const std::string& name, H5F_libver_t format, bool in_chunks, bool order_of_attributes,
                   hsize_t user_block) {
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS), creation = H5Pcreate(H5P_FILE_CREATE);
  H5Pset_libver_bounds(access, format, H5F_LIBVER_LATEST);
  H5Pset_userblock(creation, user_block);
  const hid_t file = H5Fcreate(name.c_str(), H5F_ACC_TRUNC, creation, access);
  const hsize_t extents[] = {4}, chunk[] = {2};
  const hid_t space = H5Screate_simple(1, extents, nullptr), scalar = H5Screate(H5S_SCALAR);
  const hid_t dataset_creation = H5Pcreate(H5P_DATASET_CREATE);
  if (in_chunks) H5Pset_chunk(dataset_creation, 1, chunk);
  if (order_of_attributes) H5Pset_attr_creation_order(dataset_creation, H5P_CRT_ORDER_TRACKED);
  const hid_t dataset = H5Dcreate2(file, "x", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, dataset_creation, H5P_DEFAULT);
  const float numbers[] = {1, 2, 3, 4};
  H5Dwrite(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers);
  for (int i = 0; i < 7; ++i)
    H5Aclose(
        H5Acreate2(dataset, fmt::format("attribute {}", i).c_str(), H5T_NATIVE_INT, scalar, H5P_DEFAULT, H5P_DEFAULT));
  H5Dclose(dataset), H5Pclose(dataset_creation), H5Sclose(space), H5Sclose(scalar);
  H5Fclose(file), H5Pclose(access), H5Pclose(creation);
}

TEST(Hdf5, ChunksOfTheNewestFormatAreRefused) {
  const ScratchFolder folder;
  const std::string name = folder / "numbers.h5";
  for (const H5F_libver_t format : {H5F_LIBVER_EARLIEST, H5F_LIBVER_V18, H5F_LIBVER_LATEST})
    for (const bool in_chunks : {false, true})
      for (const bool order_of_attributes : {false, true})
        for (const hsize_t user_block : {0, 512}) {
          write_numbers(name, format, in_chunks, order_of_attributes, user_block);
          const auto read = [&] {
            std::vector<float> numbers(4);
            Hdf5File::open(name).read("/x", StoredType::of(DType::f32), numbers.data());
            EXPECT_EQ(numbers, (std::vector<float>{1, 2, 3, 4}));
          };
          if (in_chunks && format == H5F_LIBVER_LATEST)
            expect_error(ExitStatus::bad_data, "/x: is stored in chunks as only HDF5's newest format has them", read);
          else read();
        }
}

TEST(Hdf5, NamesThatAreNoLineOfTextAreRefused) {
  const ScratchFolder folder;
  const std::string name = folder / "names.h5";
  const hid_t file = H5Fcreate(name.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  H5Gclose(H5Gcreate2(file, "two\nlines", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  H5Fclose(file);
  expect_error(ExitStatus::bad_data, "contains a name that is not a short line of text (/two\\x0alines)",
               [&] { Hdf5File::open(name).datasets(); });
}

TEST(Hdf5, LinksThatPointToNothingAreNamed) {
  const ScratchFolder folder;
  const std::string name = small_file(folder, "x.h5");
  const hid_t file = H5Fopen(name.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  H5Lcreate_soft("/a/gone", file, "soft", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_soft("/a/b/values", file, "whole", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_external("gone.h5", "/values", file, "external", H5P_DEFAULT, H5P_DEFAULT);
  H5Fclose(file);
  const Hdf5File links = Hdf5File::open(name);
  EXPECT_EQ(links.info("/whole").count(), 60);
  EXPECT_TRUE(links.has_dataset("/whole"));
  EXPECT_FALSE(links.has_dataset("/a/b") || links.has_dataset("/nothing"));
  for (const auto& [dataset, link, target] : {std::tuple("/soft", "/soft", "/a/gone"),
                                              {"/soft/values", "/soft", "/a/gone"},
                                              {"/external", "/external", "/values in the file gone.h5"}})
    expect_error(
        ExitStatus::bad_data,
        fmt::format(
            "x.h5:{}: the link {} points to nothing ({} does not exist, or cannot be opened); store the numbers",
            dataset, link, target),
        [&] {
          if (links.has(dataset)) links.info(dataset);
        });
}

TEST(Hdf5, WhatIsNoDatasetOfTheFileIsRefused) {
  const ScratchFolder folder;
  const std::string name = small_file(folder, "x.h5");
  const hid_t file = H5Fopen(name.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  H5Lcreate_external("y.h5", "/a", file, "other", H5P_DEFAULT, H5P_DEFAULT);
  H5Fclose(file);
  small_file(folder, "y.h5");
  const Hdf5File links = Hdf5File::open(name);
  expect_error(ExitStatus::bad_data, "/a/b: is a group (a dataset is expected)", [&] { links.info("/a/b"); });
  EXPECT_TRUE(links.has("/other/b/values"));
  expect_error(ExitStatus::bad_data, "/other/b/values: is in another file, reached by an external link",
               [&] { links.info("/other/b/values"); });
}

TEST(Hdf5, TextsOfVariableLengthAreRefused) {
  const ScratchFolder folder;
  const std::string name = folder / "text.h5";
  const hid_t file = H5Fcreate(name.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t space = H5Screate(H5S_SCALAR), type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, H5T_VARIABLE);
  H5Dclose(H5Dcreate2(file, "x", type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  H5Tclose(type), H5Sclose(space), H5Fclose(file);
  expect_error(ExitStatus::bad_data, "/x: is a string of variable length",
               [&] { Hdf5File::open(name).read_text("/x"); });
}

/// Reals of 3 bytes have no type in memory: a conversion to the next wider type would exceed the buffer.
TEST(Hdf5, RealsOfOddSizesAreNotRead) {
  const ScratchFolder folder;
  const std::string name = folder / "odd.h5";
  const hid_t file = H5Fcreate(name.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hsize_t extents[] = {100000};
  const hid_t space = H5Screate_simple(1, extents, nullptr), type = H5Tcopy(H5T_IEEE_F32LE);
  H5Tset_fields(type, 23, 16, 7, 0, 16), H5Tset_ebias(type, 63), H5Tset_size(type, 3);
  const hid_t dataset = H5Dcreate2(file, "x", type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  const std::vector<float> numbers(extents[0], 1);
  H5Dwrite(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers.data());
  H5Dclose(dataset), H5Tclose(type), H5Sclose(space), H5Fclose(file);
  EXPECT_EQ(to_string(Hdf5File::open(name).info("/x").type), "non-numeric data");
}

TEST(Hdf5, OddTypesAreNamed) {
  EXPECT_EQ(to_string(StoredType::u16()), "u16");
  EXPECT_FALSE(StoredType::u16().dtype());
  EXPECT_EQ(StoredType::of(DType::i32).dtype(), DType::i32);
}

}  // namespace
}  // namespace lockstep::test
