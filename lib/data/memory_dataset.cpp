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

std::int32_t class_at(const std::byte* targets, std::int64_t place) {
  std::int32_t target = 0;
  std::memcpy(&target, targets + static_cast<std::size_t>(place) * sizeof target, sizeof target);
  return target;
}

}  // namespace

void DatasetWithTargets::read(std::span<const std::int64_t> examples, void* inputs, void* targets) const {
  read_inputs(examples, static_cast<std::byte*>(inputs));
  gather(examples, targets_.values.get(), format_.target_bytes(), static_cast<std::byte*>(targets));
}

std::optional<std::int32_t> DatasetWithTargets::class_of(std::int64_t example) const {
  if (!format_.has_classes() || format_.target_shape.rank() > 0) return std::nullopt;
  return class_at(targets_.values.get(), example);
}

std::vector<double> DatasetWithTargets::sampling_weights() const {
  if (!targets_.weights) return {};
  std::vector<float> weights(static_cast<std::size_t>(size_));
  std::memcpy(weights.data(), targets_.weights.get(), weights.size() * sizeof(float));
  return {weights.begin(), weights.end()};
}

void DatasetWithTargets::check_classes(std::int64_t classes, std::int64_t ignored) const {
  validate(format_.has_classes(), ExitStatus::bad_data,
           "{}: has targets of {} numbers, not classes; choose a loss for values, such as mse, or give class numbers",
           description_, to_string(format_.target_shape));
  if (targets_.largest_class < classes) return;
  const std::int64_t of_each = format_.target_shape.count();
  for (std::int64_t place = 0; place < size_ * of_each; ++place) {
    const std::int32_t target = class_at(targets_.values.get(), place);
    validate(target < classes || target == ignored, ExitStatus::bad_data,
             "{}: example {} is of class {} (the model has {} classes, 0 to {}); correct the targets, give the model's "
             "last layer more features, or set loss.ignore_class for targets without a class",
             description_, place / of_each, target, classes, classes - 1);
  }
}

void DatasetWithTargets::check_values(double least, double most) const {
  if (format_.has_classes()) return;
  const std::int64_t of_each = format_.target_shape.count();
  const std::byte* const values = targets_.values.get();
  const std::optional<std::int64_t> place = first_outside(values, format_.target_dtype, size_ * of_each, least, most);
  if (!place) return;
  throw Error(
      ExitStatus::bad_data,
      fmt::format("{}: example {} has the target {:g}{} (this loss reads targets from {:g} to {:g}); correct the "
                  "targets (`lockstep check --data` names the first ten such examples), or choose another loss",
                  description_, *place / of_each, value_at(values, format_.target_dtype, *place),
                  of_each > 1 ? fmt::format(" as its number {}", *place % of_each) : "", least, most));
}

std::optional<std::int64_t> first_outside(const std::byte* values, DType dtype, std::int64_t count, double least,
                                          double most) {
  for (std::int64_t i = 0; i < count; ++i)
    if (const double value = value_at(values, dtype, i); value < least || value > most) return i;
  return std::nullopt;
}

double value_at(const std::byte* values, DType dtype, std::int64_t i) {
  double wide = 0;
  float narrow = 0;
  if (dtype == DType::f64) {
    std::memcpy(&wide, values + static_cast<std::size_t>(i) * sizeof wide, sizeof wide);
    return wide;
  }
  std::memcpy(&narrow, values + static_cast<std::size_t>(i) * sizeof narrow, sizeof narrow);
  return static_cast<double>(narrow);
}

void MemoryDataset::read_inputs(std::span<const std::int64_t> examples, std::byte* inputs) const {
  gather(examples, inputs_.get(), format().input_bytes(), inputs);
}

}  // namespace lockstep
