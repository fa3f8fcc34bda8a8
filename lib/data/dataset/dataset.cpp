// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/dataset/dataset.hpp"

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

namespace lockstep {

DataPlace DataPlace::of(const std::string& text) {
  const std::size_t colon = text.rfind(":/");
  std::error_code ignored;
  if (colon == std::string::npos || std::filesystem::exists(text, ignored)) return {text, ""};
  std::string group = text.substr(colon + 1);
  while (!group.empty() && group.back() == '/') group.pop_back();
  return {text.substr(0, colon), group};
}

std::vector<double> ChosenExamples::sampling_weights() const {
  const std::vector<double> all = all_->sampling_weights();
  std::vector<double> chosen;
  for (std::int64_t i = 0; i < count_ && !all.empty(); ++i)
    chosen.push_back(all[static_cast<std::size_t>(number_in_file(i))]);
  return chosen;
}

void ChosenExamples::read(std::span<const std::int64_t> examples, void* inputs, void* targets) const {
  std::vector<std::int64_t> numbers;
  numbers.reserve(examples.size());
  for (const std::int64_t example : examples) numbers.push_back(number_in_file(example));
  all_->read(numbers, inputs, targets);
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

}  // namespace lockstep
