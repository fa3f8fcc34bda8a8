// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/raw_file.hpp"
#include "io/stored_type.hpp"

// NumPy's .npy files: a header, which is a Python dictionary as text, and the numbers after it.
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
namespace lockstep {

/// What comes before the numbers of an array in C order and this machine's byte order: version 1.0, padded to 64 bytes.
std::string npy_header(const StoredType& type, const std::vector<std::int64_t>& extents);

/// An array in a file, of integers or reals.
struct NpyArray {
  StoredArray array;
  std::uint64_t begin = 0;  ///< where its numbers begin, which reach to the end of the file
};

/// Reads the header, of version 1.0 to 3.0. Throws bad_data for what is no such file, for one that is shorter or longer
/// than its header promises, and for arrays in Fortran order, in the other byte order, or of what is no integer or
/// real.
NpyArray read_npy_header(const RawFile& file);

}  // namespace lockstep
