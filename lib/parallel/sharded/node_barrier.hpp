// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <optional>

#include "comm/collective/node_all_reduce.hpp"
#include "comm/spin_backoff.hpp"

namespace lockstep {

/// Lets the ranks of a node that share memory wait for each other in it; no barrier at all where they share none.
class NodeBarrier {
 public:
  /// `flags`: of the ranks that share memory; none: they share none. Collective over them.
  explicit NodeBarrier(const std::optional<NodeMemory>& flags)
      : barrier_(flags ? node_all_gather(*flags, 0, nullptr) : nullptr) {}

  bool is_shared() const { return barrier_ != nullptr; }
  /// Says that this rank has come here; does not wait.
  void start() {
    if (barrier_) barrier_->start(0, 0);
  }
  /// Whether all ranks have come here; does not wait.
  bool advance() { return !barrier_ || barrier_->advance(); }
  /// Waits until all ranks have come here.
  void wait() {
    start();
    wait_until([this] { return advance(); });
  }

 private:
  std::unique_ptr<Collective> barrier_;
};

}  // namespace lockstep
