// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What `import idx` reads. An input is two files: the length of the first as 16 bits (low byte first), images, labels.
#include <algorithm>

#include "data/idx.hpp"
#include "support.hpp"

namespace lockstep::fuzz {

void read(Bytes bytes) {
  static const Folder folder;
  static ScratchFile images(folder / "images"), labels(folder / "labels");
  if (bytes.size() < 2) return;
  const std::size_t wanted = bytes[0] + 256u * bytes[1];
  const Bytes files = bytes.subspan(2);
  const std::size_t split = std::min(wanted, files.size());
  may_refuse([&] { read_labelled_images(images.holding(files.first(split)), labels.holding(files.subspan(split))); });
}

void mend(std::span<std::uint8_t>) {}

}  // namespace lockstep::fuzz
