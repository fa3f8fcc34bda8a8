// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

/// `lockstep import idx`: MNIST's own format (http://yann.lecun.com/exdb/mnist), plain or gzip.
struct ImportIdxOptions {
  std::string images;  ///< u8, N×H×W (stored as N×H×W×1), N×H×W×C or N×F
  std::string labels;  ///< u8, N
  std::string output;
  std::int64_t validation = 0;  ///< the last N examples are for validation
  bool overwrite = false;
};

/// Reads the files piece by piece. Returns a line that says what was written. Throws missing_file, bad_data,
/// cannot_create, bad_usage.
std::string import_idx(const ImportIdxOptions& options);

}  // namespace lockstep
