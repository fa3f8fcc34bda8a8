// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/dtype.hpp"

namespace lockstep {

/// Numbers that others are to read, as the file's name says: HDF5 (.h5: one dataset), NumPy (.npy) or text (.csv: a
/// line for each row, below a line of names). It comes into being all at once: without `commit`, nothing is left and
/// nothing is replaced.
class ArrayFile {
 public:
  class Format;

  /// `extents`: rows × what a row holds; `name`: of the dataset, and of columns. Throws bad_usage for another kind of
  /// file, and cannot_create. i32, f32 and f64.
  ArrayFile(const std::filesystem::path& path, const std::string& name, DType dtype,
            const std::vector<std::int64_t>& extents);
  ~ArrayFile();

  /// Throws bad_usage where a file's name is of no kind: to be asked before what is to be in it is computed.
  static void require_kind(const std::filesystem::path& path);

  /// The next `rows` rows. Throws io_error, as `commit` does.
  void append(const void* numbers, std::int64_t rows);
  void commit();

 private:
  std::unique_ptr<Format> format_;
};

}  // namespace lockstep
