// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "io/checksum.hpp"

namespace lockstep {

/// Neighbours among the rows that an importer reads.
struct SplitSize {
  std::string group;  ///< "/train"
  std::int64_t rows;
};

/// /train, and the last `validation` of all rows as /validation.
std::vector<SplitSize> hold_out_last(std::int64_t rows, std::int64_t validation);
/// Examples to train on and, as `--validation` has asked for, the last ones to validate on. Throws bad_usage when none
/// are left to train on.
std::vector<SplitSize> hold_out_examples(std::int64_t examples, std::int64_t validation);

/// "3 examples to train on, 2 to validate on"; ", 4 to test on", where there are such.
std::string splits_text(const std::vector<SplitSize>& splits);

/// One dataset of each split that is not empty, /train/inputs and so on, written from the first row to the last.
class SplitRows {
 public:
  /// `row`: the shape of one.
  SplitRows(Hdf5File& file, const std::string& name, const StoredType& type, const std::vector<std::int64_t>& row,
            const std::vector<SplitSize>& splits);
  /// The next `count` rows, packed, of any splits.
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
