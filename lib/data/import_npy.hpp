// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

/// `lockstep import npy`: two arrays in NumPy's .npy files.
struct ImportNpyOptions {
  std::string inputs;   ///< u8, f32, or f64, which becomes f32; N×F, N×T×C, N×H×W×C or N×D×H×W×C
  std::string targets;  ///< integers: classes; f32, or f64, which becomes f32: N×K values
  std::string output;
  std::int64_t validation = 0;  ///< the last N examples are for validation
  bool overwrite = false;
};

/// Reads the files piece by piece. Returns a line that says what was written. Throws missing_file, bad_data,
/// cannot_create, bad_usage.
std::string import_npy(const ImportNpyOptions& options);

}  // namespace lockstep
