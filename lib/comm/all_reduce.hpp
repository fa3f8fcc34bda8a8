// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <memory>

#include "comm/link.hpp"
#include "core/dtype.hpp"

namespace lockstep {

/// Sums of stretches of a buffer over ranks, of which each has one; afterwards all hold the same bits. All ranks begin
/// the same stretches in the same order. Nothing waits: who needs a sum calls `advance` until it says so.
class AllReduce {
 public:
  virtual ~AllReduce() = default;

  /// Begins to sum elements [first, first + count); the sum before must be done.
  virtual void start(std::int64_t first, std::int64_t count) = 0;
  /// Does what can be done now; whether the sum is done on this rank.
  virtual bool advance() = 0;
};

/// What is summed, in host memory.
struct Summands {
  DType dtype = DType::f32;  ///< f32 or f64
  void* data = nullptr;
};

enum class PeerAlgorithm { ring, halving_doubling, tree };

/// Sums by messages. `wire`: the type in which numbers travel, the summands' own or for f32 a 16-bit one; they are
/// added in fp32 all the same, and what every rank gets is rounded to the wire's type.
std::unique_ptr<AllReduce> peer_all_reduce(PeerAlgorithm algorithm, std::unique_ptr<Link> link,
                                           const Summands& summands, DType wire);

/// The MPI library's own.
std::unique_ptr<AllReduce> library_all_reduce(const Communicator& comm, const Summands& summands);

}  // namespace lockstep
