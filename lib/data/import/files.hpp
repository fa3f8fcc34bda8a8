// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/import/importers.hpp"
#include "io/checksum.hpp"
#include "io/hdf5.hpp"
#include "io/raw_file.hpp"

namespace lockstep {

/// Opens a file to import. Throws missing_file; throws bad_data for folders, and for pipes and devices, which have no
/// length and can be read only once.
RawFile open_input(const std::string& path);

/// Writes the HDF5 file `output` atomically: nothing is left of it if `write` throws.
void write_output(const std::filesystem::path& output, const std::function<void(Hdf5File&)>& write);

/// Says which rows of a file an importer writes to /train, /validation and /test. Rows keep their order in each.
struct Splits {
  std::int64_t train = 0, validation = 0, test = 0;  ///< numbers of rows; test rows are the last of the file
  /// For each row before the test rows, whether it is for validation. If empty, the last `validation` of them are.
  std::vector<bool> is_held_out{};

  /// "3 examples to train on, 2 to validate on"; with ", 4 to test on" if there are any.
  std::string text() const;
};

/// Returns the splits of so many examples. Throws bad_usage if none are left for training.
Splits hold_out(std::int64_t examples, const HeldOutExamples& validation);

/// One dataset for each split that is not empty, such as /train/inputs, written from the first row to the last.
class SplitRows {
 public:
  /// `row`: shape of one row. `splits` outlives this.
  SplitRows(Hdf5File& file, const std::string& name, const StoredType& type, const std::vector<std::int64_t>& row,
            const Splits& splits);
  /// Appends `count` packed rows, which may lie in several splits.
  void append(const void* rows, std::int64_t count);
  void finish();

 private:
  enum Split { train, validation, test };
  Split split_of(std::int64_t row) const;

  const Splits& splits_;
  std::size_t row_bytes_;
  std::optional<CheckedRows> parts_[3];
  std::int64_t next_ = 0;
};

/// Warns if classes of one split of an imported file are missing from another.
void warn_of_missing_classes(const std::string& file);

}  // namespace lockstep
