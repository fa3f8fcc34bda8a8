// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/parameters/parameter_shard.hpp"

namespace lockstep {

void ParameterShard::divide(const ParameterLayout& layout, const ParameterDivision& division) {
  ranges_ = layout.owned();
  trained_ = layout.trained_size();
  const std::int64_t owned = layout.owned_count(), statistics = layout.summed_size() - layout.trained_size();
  const auto take = [](const char* name, std::int64_t count, Buffer& memory, Tensor& all) {
    memory = Buffer(name, static_cast<std::size_t>(count) * size_of(all.dtype));
    all = memory.tensor(0, all.dtype, {count});
  };
  has_own_values_ = division.values;
  has_own_gradients_ = division.gradients;
  if (division.values_elsewhere) values_ = {nullptr, values_.dtype, {owned}};
  else if (division.values) take("lockstep::owned_values", owned, value_memory_, values_);
  if (division.gradients) take("lockstep::owned_gradients", owned + statistics, gradient_memory_, gradients_);
}

Tensor ParameterShard::at(const Tensor& all, std::int64_t first, std::int64_t count) {
  return {static_cast<std::byte*>(all.data) + static_cast<std::size_t>(first) * size_of(all.dtype), all.dtype, {count}};
}

/// Position of a flat-buffer element when only owned ranges are stored; statistics follow all ranges.
std::int64_t ParameterShard::place(std::int64_t element) const {
  std::int64_t before = 0;
  for (const ElementRange& range : ranges_) {
    if (element < range.first + range.count) return before + element - range.first;
    before += range.count;
  }
  return before + element - trained_;
}

}  // namespace lockstep
