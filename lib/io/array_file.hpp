// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/dtype.hpp"

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

}  // namespace lockstep
