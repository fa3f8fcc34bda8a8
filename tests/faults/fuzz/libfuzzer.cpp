// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The functions that libFuzzer calls (CMake option LOCKSTEP_FUZZ).
#include <cstddef>
#include <cstdint>

#include "target.hpp"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  lockstep::fuzz::read({data, size});
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  size = LLVMFuzzerMutate(data, size, max_size);
  if (seed % 8 != 0) lockstep::fuzz::mend({data, size});  // some keep wrong checksums
  return size;
}
