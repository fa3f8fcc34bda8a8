// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/memory_dataset.hpp"

#include <cstring>

#include "base/error.hpp"

namespace lockstep {
namespace {

void gather(std::span<const std::int64_t> examples, const std::byte* from, std::size_t bytes, std::byte* to) {
  for (const auto example : examples) {
    std::memcpy(to, from + static_cast<std::size_t>(example) * bytes, bytes);
    to += bytes;
  }
}

}  // namespace

void DatasetWithTargets::read(std::span<const std::int64_t> examples, void* inputs, void* targets) const {
  read_inputs(examples, static_cast<std::byte*>(inputs));
  gather(examples, targets_.data(), format_.target_bytes(), static_cast<std::byte*>(targets));
}

void DatasetWithTargets::check_classes(std::int64_t classes) const {
  validate(format_.has_classes(), ExitStatus::bad_data,
           "{}: has targets of {} numbers, not classes; choose a loss for numbers (mse), or give class numbers",
           description_, to_string(format_.target_shape));
  for (std::int64_t example = 0; example < size_; ++example) {
    std::int32_t target = 0;
    std::memcpy(&target, targets_.data() + static_cast<std::size_t>(example) * sizeof target, sizeof target);
    validate(target >= 0 && target < classes, ExitStatus::bad_data,
             "{}: example {} is of class {} (the model has {} classes, 0 to {}); correct the targets, or give the "
             "model's last layer more features",
             description_, example, target, classes, classes - 1);
  }
}

void MemoryDataset::read_inputs(std::span<const std::int64_t> examples, std::byte* inputs) const {
  gather(examples, inputs_.data(), format().input_bytes(), inputs);
}

}  // namespace lockstep
