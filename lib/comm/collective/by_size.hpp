// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <vector>

#include "comm/collective/collective.hpp"

namespace lockstep {

/// Runs an operation in different ways, by the size of the stretch.
class BySize final : public Collective {
 public:
  struct Way {
    std::int64_t most;  ///< elements
    std::shared_ptr<Collective> collective;
  };
  /// By rising size; the last one takes whatever is left.
  explicit BySize(std::vector<Way> ways) : ways_(std::move(ways)) {}

  void start(std::int64_t first, std::int64_t count) override {
    running_ = ways_.back().collective.get();
    for (auto way = ways_.rbegin(); way != ways_.rend(); ++way)
      if (count <= way->most) running_ = way->collective.get();
    running_->start(first, count);
  }
  bool advance() override { return running_->advance(); }

 private:
  std::vector<Way> ways_;
  Collective* running_ = nullptr;
};

}  // namespace lockstep
