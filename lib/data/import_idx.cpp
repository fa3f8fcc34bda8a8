// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/import_idx.hpp"

#include <vector>

#include "data/idx.hpp"
#include "data/import_files.hpp"
#include "data/import_splits.hpp"
#include "io/replace_file.hpp"

namespace lockstep {

std::string import_idx(const ImportIdxOptions& options) {
  check_output(options.output, options.overwrite, {options.images, options.labels});
  const LabelledImages all = read_labelled_images(options.images, options.labels);
  const std::int64_t examples = all.images.examples();
  const std::vector<SplitSize> splits = hold_out_examples(examples, options.validation);
  std::vector<std::int64_t> image(all.images.extents.begin() + 1, all.images.extents.end());
  if (image.size() == 2) image.push_back(1);
  const StoredType u8 = StoredType::of(DType::u8);
  write_output(options.output, [&](Hdf5File& file) {
    SplitRows inputs(file, "inputs", u8, image, splits), targets(file, "targets", u8, {}, splits);
    inputs.append(all.images.values.data(), examples);
    targets.append(all.labels.values.data(), examples);
    inputs.finish();
    targets.finish();
  });
  return options.output + ": " + splits_text(splits);
}

}  // namespace lockstep
