// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/raw_file.hpp"
#include "io/stored_type.hpp"

// NumPy's .npy format: a header, which is a Python dictionary as text, followed by the numbers.
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
namespace lockstep {

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
