// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// What an IDX file of bytes (MNIST's own format) holds.
struct IdxArray {
  std::vector<std::int64_t> extents;
  std::vector<std::uint8_t> values;
  std::int64_t examples() const { return extents[0]; }
};

struct LabelledImages {
  IdxArray images;  ///< N×F, N×H×W or N×H×W×C; not empty
  IdxArray labels;  ///< N
};

/// Reads both files, plain or gzip. Throws missing_file, io_error, or bad_data for what is damaged or does not belong
/// together.
LabelledImages read_labelled_images(const std::string& images_file, const std::string& labels_file);

}  // namespace lockstep
