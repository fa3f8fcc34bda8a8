// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/dtype.hpp"
#include "io/raw_file.hpp"
#include "io/stored_type.hpp"

namespace lockstep {

/// Output file of numbers for other programs, in the format of its extension: HDF5 (.h5, one dataset), NumPy (.npy) or
/// text (.csv, one line per row below a line of column names). The file appears only on `commit`; without it, nothing
/// is left and nothing is replaced.
class ArrayFile {
 public:
  class Format;

  /// `extents`: [rows, extents of a row…]; `dtype`: i32, f32 or f64; `name`: name of the dataset or prefix of the
  /// columns. Throws bad_usage for an unknown extension, and what ReplaceFile throws.
  ArrayFile(const std::filesystem::path& path, const std::string& name, DType dtype,
            const std::vector<std::int64_t>& extents);
  ~ArrayFile();

  /// Throws bad_usage for an unknown extension; to be called before the numbers are computed.
  static void require_kind(const std::filesystem::path& path);

  /// Appends `rows` packed rows. Throws io_error, as does `commit`.
  void append(const void* numbers, std::int64_t rows);
  void commit();

 private:
  std::unique_ptr<Format> format_;
};

// NumPy's .npy format: a header, which is a Python dictionary as text, followed by the numbers.
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html

/// Returns the header (version 1.0, padded to 64 bytes) of an array in C order and this machine's byte order.
std::string npy_header(const StoredType& type, const std::vector<std::int64_t>& extents);

/// An array of integers or reals in a file.
struct NpyArray {
  StoredArray array;
  std::uint64_t begin = 0;  ///< offset of its numbers, which reach to the end of the file
};

/// Reads a header of version 1.0 to 3.0. Throws bad_data if the file is no .npy file, is shorter or longer than its
/// header says, or holds an array in Fortran order, in the other byte order, or of another type than integers or reals.
NpyArray read_npy_header(const RawFile& file);

}  // namespace lockstep
