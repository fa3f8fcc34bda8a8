// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/memory_plan.hpp"

namespace lockstep {

/// Records when each tensor is used, and derives whether it must hold all examples, and its lifetime. Times number the
/// tasks of the forward pass, the loss, and the tasks of the backward pass.
class TensorUses {
 public:
  struct Tensor {
    std::size_t bytes = 0;  // of one example
    std::vector<int> times;
  };

  /// Appends a segment; returns the time of its first task.
  int add_segment(std::size_t tasks, std::int64_t chunk) {
    const int begin = static_cast<int>(segment_at_.size());
    segment_at_.insert(segment_at_.end(), tasks, segments_.size());
    segments_.push_back({begin, begin + static_cast<int>(tasks) - 1, chunk});
    return begin;
  }
  int add_tensor(std::size_t bytes) {
    tensors_.push_back({bytes, {}});
    return static_cast<int>(tensors_.size()) - 1;
  }
  void use(int tensor, int time) { tensors_[static_cast<std::size_t>(tensor)].times.push_back(time); }

  bool whole(int tensor) const {
    const auto& times = tensors_[static_cast<std::size_t>(tensor)].times;
    return std::any_of(times.begin(), times.end(), [&](int time) { return segment_of(time) != segment_of(times[0]); });
  }
  Lifetime lifetime(int tensor, std::int64_t batch) const {
    const Tensor& t = tensors_[static_cast<std::size_t>(tensor)];
    const bool all = whole(tensor);
    Lifetime life{0, std::numeric_limits<int>::max(), -1};
    for (const int time : t.times) {
      const Span& span = segments_[segment_of(time)];
      const bool throughout = all && span.chunk < batch;  // each chunk runs the segment from its first task
      life.first = std::min(life.first, throughout ? span.begin : time);
      life.last = std::max(life.last, throughout ? span.end : time);
    }
    const std::int64_t examples = all ? batch : std::min(batch, segments_[segment_of(t.times[0])].chunk);
    life.bytes = t.bytes * static_cast<std::size_t>(examples);
    return life;
  }
  std::size_t tensors() const { return tensors_.size(); }
  std::size_t segment_of(int time) const { return segment_at_[static_cast<std::size_t>(time)]; }

 private:
  struct Span {
    int begin, end;
    std::int64_t chunk;
  };
  std::vector<Span> segments_;
  std::vector<std::size_t> segment_at_;  // for each time
  std::vector<Tensor> tensors_;
};

}  // namespace lockstep
