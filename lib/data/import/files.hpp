// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "io/checksum.hpp"
#include "io/hdf5.hpp"
#include "io/raw_file.hpp"

namespace lockstep {

/// Opens a file to import. Throws missing_file; throws bad_data for folders, and for pipes and devices, which have no
/// length and can be read only once.
RawFile open_input(const std::string& path);

/// Writes the HDF5 file `output` atomically: nothing is left of it if `write` throws.
void write_output(const std::filesystem::path& output, const std::function<void(Hdf5File&)>& write);

/// Consecutive rows that an importer writes to one group.
struct SplitSize {
  std::string group;  ///< "/train"
  std::int64_t rows;
};

/// Returns the splits /train and, for the last `validation` of all rows, /validation.
std::vector<SplitSize> hold_out_last(std::int64_t rows, std::int64_t validation);
/// Returns the splits for training and, as `--validation` asks for, the last examples for validation. Throws bad_usage
/// if none are left for training.
std::vector<SplitSize> hold_out_examples(std::int64_t examples, std::int64_t validation);

/// "3 examples to train on, 2 to validate on"; with ", 4 to test on" if there are any.
std::string splits_text(const std::vector<SplitSize>& splits);

/// One dataset for each split that is not empty, such as /train/inputs, written from the first row to the last.
class SplitRows {
 public:
  /// `row`: shape of one row.
  SplitRows(Hdf5File& file, const std::string& name, const StoredType& type, const std::vector<std::int64_t>& row,
            const std::vector<SplitSize>& splits);
  /// Appends `count` packed rows, which may lie in several splits.
  void append(const void* rows, std::int64_t count);
  void finish();

 private:
  struct Part {
    std::int64_t left;
    CheckedRows rows;
  };
  std::size_t row_bytes_;
  std::vector<Part> parts_;
  std::size_t current_ = 0;
};

}  // namespace lockstep
