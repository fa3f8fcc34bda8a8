// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <vector>

#include "comm/collective/collective.hpp"

namespace lockstep {

/// Runs an operation by different algorithms, depending on the number of elements.
class BySize final : public Collective {
 public:
  struct Choice {
    std::int64_t most;  ///< largest number of elements
    std::shared_ptr<Collective> collective;
  };
  /// `choices`: ordered by size; the last one is used for all larger counts.
  explicit BySize(std::vector<Choice> choices) : choices_(std::move(choices)) {}

  void start(std::int64_t first, std::int64_t count) override {
    running_ = choices_.back().collective.get();
    for (auto choice = choices_.rbegin(); choice != choices_.rend(); ++choice)
      if (count <= choice->most) running_ = choice->collective.get();
    running_->start(first, count);
  }
  bool advance() override { return running_->advance(); }

 private:
  std::vector<Choice> choices_;
  Collective* running_ = nullptr;
};

}  // namespace lockstep
