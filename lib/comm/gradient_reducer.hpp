// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string>

#include "base/fields.hpp"
#include "comm/communicator.hpp"
#include "core/tensor.hpp"

namespace lockstep {

/// The deck's `parallel` section.
struct ParallelConfig : Config {
  enum class AllReduce { automatic, mpi };
  enum class Overlap { automatic, none };
  double bucket_mb = 25;
  AllReduce all_reduce = AllReduce::automatic;
  Overlap overlap = Overlap::automatic;

  void describe(Fields& fields) override;
};

/// Sums the flat gradient buffer over all ranks, in buckets: as the backward pass makes stretches of
/// it final, from its beginning on, each full bucket is summed. Nothing is averaged here: the
/// optimizer divides the sum once, by the number of examples of all ranks.
class GradientReducer {
 public:
  GradientReducer(const Communicator& comm, const ParallelConfig& config, const Tensor& gradients);

  /// The next `count` elements are final on this rank.
  void ready(const ExecSpace& space, std::int64_t count);
  /// Sums what is left; afterwards every rank holds the same gradients.
  void finish(const ExecSpace& space);

  /// Seconds spent in reductions since the last call.
  double take_exposed_seconds();

 private:
  void reduce_to(const ExecSpace& space, std::int64_t end);

  const Communicator& comm_;
  Tensor gradients_;
  std::int64_t bucket_;       ///< in elements
  std::int64_t ready_ = 0;    ///< elements that are final
  std::int64_t reduced_ = 0;  ///< elements that are summed
  double exposed_seconds_ = 0;
};

}  // namespace lockstep
