// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads the header of a file, as `import npy` does; the numbers reach to the file's end.
#include "data/dataset/stored_examples.hpp"
#include "io/array_file.hpp"
#include "support.hpp"

namespace lockstep::fuzz {

void read(Bytes bytes) {
  static const Folder folder;
  static ScratchFile array(folder / "array");
  may_refuse([&] {
    const std::string& name = array.holding(bytes);
    const NpyArray npy = read_npy_header(RawFile(name, RawFile::Access::read));
    require(npy.begin + npy.array.bytes() == bytes.size(), "the numbers end where the file does",
            extents_text(npy.array.extents));
    check_inputs(npy.array, name);
    check_targets(npy.array, name, npy.array.extents[0], name);
  });
}

void mend(std::span<std::uint8_t>) {}

}  // namespace lockstep::fuzz
