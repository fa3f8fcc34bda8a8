// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "io/array_file.hpp"

#include "support/scratch.hpp"

namespace lockstep::test {
namespace {

class Npy : public testing::Test {
 protected:
  /// A header with this text. Its length takes two bytes in version 1, four in later versions.
  static std::string with_header(const std::string& text, int version = 1) {
    std::string bytes = "\x93NUMPY";
    bytes += static_cast<char>(version);
    bytes += '\0';
    for (int byte = 0; byte < (version == 1 ? 2 : 4); ++byte)
      bytes += static_cast<char>(text.size() >> (8 * byte) & 0xFF);
    return bytes + text;
  }
  static std::string dictionary(const std::string& descr, const std::string& shape,
                                const std::string& order = "False") {
    return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }   \n";
  }

  NpyArray read(const std::string& bytes) {
    write_file(path, bytes);
    return read_npy_header(RawFile(path, RawFile::Access::read));
  }
  void refused(const std::string& part, const std::string& bytes) {
    expect_error(ExitStatus::bad_data, "X.npy: " + part, [&] { read(bytes); });
  }

  ScratchFolder folder;
  const std::string path = folder / "X.npy";
};

TEST_F(Npy, ReadsWhatIsWritten) {
  for (const auto& [type, bytes] : {std::pair{StoredType::of(DType::f32), 4u},
                                    {StoredType::of(DType::f64), 8u},
                                    {StoredType::of(DType::u8), 1u},
                                    {StoredType::of(DType::i64), 8u}}) {
    const std::string header = npy_header(type, {3, 4});
    EXPECT_EQ(header.size() % 64, 0u);
    EXPECT_EQ(header.back(), '\n');
    const NpyArray npy = read(header + std::string(12 * bytes, 'x'));
    EXPECT_EQ(npy.array.type, type);
    EXPECT_EQ(npy.array.extents, (std::vector<std::int64_t>{3, 4}));
    EXPECT_EQ(npy.begin, header.size());
  }
  // The header that numpy.save(…, numpy.zeros((3, 4), "f4")) writes.
  EXPECT_EQ(npy_header(StoredType::of(DType::f32), {3, 4}),
            with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }" + std::string(58, ' ') + "\n"));
}

TEST_F(Npy, VersionsAndSpellings) {
  for (const int version : {1, 2, 3}) {
    const std::string start = with_header(dictionary("<i4", "(2, 1)"), version);
    EXPECT_EQ(read(start + std::string(8, 'x')).begin, start.size());
  }
  for (const std::string text : {"{'descr':'|u1','fortran_order':False,'shape':(4,)}",
                                 "{ \"shape\" : ( 4 , ) , \"descr\" : \"<u1\" , \"fortran_order\" : True }",
                                 "{'shape': (2, 2), 'fortran_order': False, 'descr': '|u1'}\n"}) {
    const NpyArray npy = read(with_header(text) + "four");
    EXPECT_EQ(npy.array.type, StoredType::of(DType::u8));
    EXPECT_EQ(npy.array.count(), 4);
  }
  EXPECT_EQ(read(with_header(dictionary("<f8", "()")) + "8 bytes.").array.extents, (std::vector<std::int64_t>{}));
}

TEST_F(Npy, HeadersThatAreNone) {
  for (const std::string text :
       {"", "{", "{}", "{'descr': '<f4'}", "{'descr': '<f4', 'fortran_order': False, 'shape': (1)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", "{'descr': '<f4', 'fortran_order': False, 'shape': [1]}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1e0,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} + 1", "{'descr': '<f4",
        "{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}",
        "{descr: '<f4', 'fortran_order': False, 'shape': (1,)}"})
    refused("its header is damaged", with_header(text) + "xxxx");
}

TEST_F(Npy, NumbersThatAreNotRead) {
  refused("holds bool", with_header(dictionary("|b1", "(1,)")) + "x");
  refused("holds Python objects (unpickling", with_header(dictionary("|O", "(1,)")) + "x");
  for (const std::string descr : {"<f2", "<c8", "<U5", "<M8[ns]", "<i3", "|i4", "=i4", "", "<", "<f", "\x1b\n"})
    refused("holds '", with_header(dictionary(descr, "(1,)")) + "xxxx");
  refused("holds '>f4', whose byte order is not this machine's; save X.astype(\"<f4\")",
          with_header(dictionary(">f4", "(1,)")) + "xxxx");
  refused("holds records of several fields",
          with_header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}") + "xxxx");
  refused("is in Fortran order (its first index runs fastest); save numpy.ascontiguousarray(X)",
          with_header(dictionary("<f4", "(1, 1)", "True")) + "xxxx");
}

TEST_F(Npy, OtherFiles) {
  refused("is an archive of arrays (.npz)", "PK\x03\x04 and more");
  refused("is pickled", "\x80\x04\x95");
  refused("is not a NumPy file", "");
  refused("is not a NumPy file", "1,2,3\n");
  refused("is in version 4.0", with_header(dictionary("<f4", "(1,)"), 4) + "xxxx");
  refused("has a header of 70000 bytes", with_header(std::string(70000, ' '), 2));
}

TEST_F(Npy, Sizes) {
  const std::string whole = npy_header(StoredType::of(DType::f32), {2, 3}) + std::string(24, 'x');
  for (std::size_t size = 6; size < whole.size(); ++size) refused("is truncated", whole.substr(0, size));
  refused("has bytes after its numbers (25 for 2×3 f32, which take 24)", whole + "x");
  refused("is truncated (its header promises 4294967296×4294967296×4294967296 f32",
          npy_header(StoredType::of(DType::f32), {1ll << 32, 1ll << 32, 1ll << 32}) + "xxxx");
  refused("holds no numbers", npy_header(StoredType::of(DType::f32), {1ll << 62, 1ll << 62, 0}));
}

}  // namespace
}  // namespace lockstep::test
