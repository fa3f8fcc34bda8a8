// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `import idx`. An input is two files: the length of the first as 16 bits (low byte first), images, labels.
#include <algorithm>

#include "data/import_idx.hpp"
#include "support.hpp"

namespace lockstep::fuzz {
void read(Bytes bytes) {
  static const Folder folder;
  if (bytes.size() < 2) return;
  const std::size_t wanted = bytes[0] + 256u * bytes[1];
  const Bytes files = bytes.subspan(2);
  const std::size_t split = std::min(wanted, files.size());
  const std::string images = folder.file("images", files.first(split)),
                    labels = folder.file("labels", files.subspan(split));
  may_refuse(
      [&] { import_idx({.images = images, .labels = labels, .output = folder.file("output.h5"), .overwrite = true}); });
}

void mend(std::vector<std::uint8_t>&) {}

}  // namespace lockstep::fuzz
