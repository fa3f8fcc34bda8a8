// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checkpoints, whole and as `model.weights`.
#include "hdf5_checksums.hpp"
#include "io/checkpoint.hpp"
#include "support.hpp"

namespace lockstep::fuzz {

void read(Bytes bytes) {
  static const Folder folder;
  const std::string file = folder.file("checkpoint.h5", bytes);
  may_refuse([&] { read_checkpoint(file); });
  may_refuse([&] { read_parameters(file); });
}

void mend(std::vector<std::uint8_t>& bytes) { mend_hdf5_checksums(bytes); }

}  // namespace lockstep::fuzz
