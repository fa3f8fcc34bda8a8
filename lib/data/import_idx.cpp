// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/import_idx.hpp"

#include <vector>

#include "base/error.hpp"
#include "data/idx.hpp"
#include "data/import_output.hpp"
#include "io/checksum.hpp"

namespace lockstep {
namespace {

void write_split(Hdf5File& file, const std::string& group, const LabelledImages& all, std::int64_t first,
                 std::int64_t count) {
  const StoredType u8 = StoredType::of(DType::u8);
  std::vector<std::int64_t> extents = all.images.extents;
  extents[0] = count;
  if (extents.size() == 3) extents.push_back(1);
  const std::size_t image_bytes = all.images.values.size() / static_cast<std::size_t>(all.images.examples());
  write_checked(file, group + "/inputs", u8, extents,
                all.images.values.data() + static_cast<std::size_t>(first) * image_bytes);
  write_checked(file, group + "/targets", u8, {count}, all.labels.values.data() + first);
}

}  // namespace

std::string import_idx(const ImportIdxOptions& options) {
  check_output(options.output, options.overwrite, {options.images, options.labels});
  const LabelledImages all = read_labelled_images(options.images, options.labels);
  const std::int64_t examples = all.images.examples();
  validate(options.validation >= 0 && options.validation < examples, ExitStatus::bad_usage,
           "--validation {}: leaves nothing to train on (there are {} examples); give 0 to {}", options.validation,
           examples, examples - 1);

  const std::int64_t train = examples - options.validation;
  write_output(options.output, [&](Hdf5File& file) {
    write_split(file, "/train", all, 0, train);
    if (options.validation > 0) write_split(file, "/validation", all, train, options.validation);
  });
  return fmt::format("{}: {} examples to train on, {} to validate on", options.output, train, options.validation);
}

}  // namespace lockstep
