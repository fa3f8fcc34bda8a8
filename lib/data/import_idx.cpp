// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/import_idx.hpp"

#include <algorithm>
#include <vector>

#include "data/idx.hpp"
#include "data/import_files.hpp"
#include "data/import_splits.hpp"
#include "io/replace_file.hpp"

namespace lockstep {
namespace {

void add_examples(IdxFile& from, SplitRows& to) {
  constexpr std::int64_t bytes_in_piece = std::int64_t{4} << 20;
  const std::int64_t each = from.bytes_of_example();
  const std::int64_t most = std::clamp(bytes_in_piece / each, std::int64_t{1}, from.examples());
  std::vector<std::uint8_t> piece(static_cast<std::size_t>(most * each));
  for (std::int64_t first = 0; first < from.examples(); first += most) {
    const std::int64_t count = std::min(most, from.examples() - first);
    from.read(count, piece.data());
    to.append(piece.data(), count);
  }
  from.require_end();
  to.finish();
}

}  // namespace

std::string import_idx(const ImportIdxOptions& options) {
  check_output(options.output, options.overwrite, {options.images, options.labels});
  LabelledImages all = open_labelled_images(options.images, options.labels);
  const std::vector<SplitSize> splits = hold_out_examples(all.images.examples(), options.validation);
  std::vector<std::int64_t> image(all.images.extents().begin() + 1, all.images.extents().end());
  if (image.size() == 2) image.push_back(1);
  const StoredType u8 = StoredType::of(DType::u8);
  write_output(options.output, [&](Hdf5File& file) {
    SplitRows inputs(file, "inputs", u8, image, splits), targets(file, "targets", u8, {}, splits);
    add_examples(all.images, inputs);
    add_examples(all.labels, targets);
  });
  return options.output + ": " + splits_text(splits);
}

}  // namespace lockstep
