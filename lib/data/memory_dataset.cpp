// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/memory_dataset.hpp"

#include <cstring>

#include "base/error.hpp"

namespace lockstep {
namespace {

void gather(std::span<const std::int64_t> examples, const std::byte* from, std::size_t bytes, std::byte* to) {
  if (bytes == 0) return;
  for (const auto example : examples) {
    std::memcpy(to, from + static_cast<std::size_t>(example) * bytes, bytes);
    to += bytes;
  }
}

std::int32_t class_at(const std::byte* targets, std::int64_t example) {
  std::int32_t target = 0;
  std::memcpy(&target, targets + static_cast<std::size_t>(example) * sizeof target, sizeof target);
  return target;
}

}  // namespace

void DatasetWithTargets::read(std::span<const std::int64_t> examples, void* inputs, void* targets) const {
  read_inputs(examples, static_cast<std::byte*>(inputs));
  gather(examples, targets_.values.get(), format_.target_bytes(), static_cast<std::byte*>(targets));
}

void DatasetWithTargets::check_classes(std::int64_t classes) const {
  validate(format_.has_classes(), ExitStatus::bad_data,
           "{}: has targets of {} numbers, not classes; choose a loss for numbers (mse), or give class numbers",
           description_, to_string(format_.target_shape));
  if (targets_.largest_class < classes) return;
  std::int64_t example = 0;
  while (class_at(targets_.values.get(), example) < classes) ++example;
  throw Error(ExitStatus::bad_data,
              fmt::format("{}: example {} is of class {} (the model has {} classes, 0 to {}); correct the targets, or give "
                          "the model's last layer more features",
                          description_, example, class_at(targets_.values.get(), example), classes, classes - 1));
}

void MemoryDataset::read_inputs(std::span<const std::int64_t> examples, std::byte* inputs) const {
  gather(examples, inputs_.get(), format().input_bytes(), inputs);
}

}  // namespace lockstep
