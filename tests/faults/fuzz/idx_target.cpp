// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads files as `import idx` does. An input is two files: the length of the first as 16 bits (low byte first), the
// images, and the labels.
#include <algorithm>
#include <vector>

#include "data/import/idx.hpp"
#include "support.hpp"

namespace lockstep::fuzz {

namespace {

void read_all(IdxFile& file) {
  std::vector<std::uint8_t> example(static_cast<std::size_t>(file.bytes_of_example()));
  for (std::int64_t i = 0; i < file.examples(); ++i) file.read(1, example.data());
  file.require_end();
}

}  // namespace

void read(Bytes bytes) {
  static const Folder folder;
  static ScratchFile images(folder / "images"), labels(folder / "labels");
  if (bytes.size() < 2) return;
  const std::size_t wanted = bytes[0] + 256u * bytes[1];
  const Bytes files = bytes.subspan(2);
  const std::size_t split = std::min(wanted, files.size());
  may_refuse([&] {
    LabelledImages opened = open_labelled_images(images.holding(files.first(split)),
                                                 labels.holding(files.subspan(split)));
    read_all(opened.images);
    read_all(opened.labels);
  });
}

void mend(std::span<std::uint8_t>) {}

}  // namespace lockstep::fuzz
