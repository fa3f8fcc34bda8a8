// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <memory>

#include "comm/collective/schedule.hpp"
#include "comm/spin_backoff.hpp"
#include "comm/transport.hpp"
#include "core/dtype.hpp"

namespace lockstep {

/// An operation on stretches of a buffer, of which each rank has one. All ranks begin the same stretches in the same
/// order. Nothing waits: who needs the result calls `advance` until it says so.
class Collective {
 public:
  virtual ~Collective() = default;

  /// Begins with elements [first, first + count); the operation before must be done. 0 elements are allowed.
  virtual void start(std::int64_t first, std::int64_t count) = 0;
  /// Does what can be done now; whether the operation is done on this rank.
  virtual bool advance() = 0;
};

/// What an operation reads and writes, in host memory; it stays where it is as long as the operation.
struct ReduceBuffer {
  DType dtype = DType::f32;  ///< f32 or f64
  void* data = nullptr;
};

struct Algorithm;

// Operations by messages. `wire`: the type in which numbers travel, f32 (the buffer's own) or for buffers of f32 a
// 16-bit one; they are added in the buffer's type all the same, and what ranks get from others is rounded to the wire's
// type. They throw Error (bad_deck) where the algorithm has no such operation, and are collective over the transport's
// ranks.

/// Every rank gets the sums over all ranks: the same bits.
std::unique_ptr<Collective> all_reduce(const Algorithm& algorithm, std::unique_ptr<Transport> transport,
                                       const ReduceBuffer& buffer, DType wire = DType::f32);
/// Rank r of P gets the sums of slice_of_rank(count, r, P) of the stretch; what it has elsewhere in it means nothing.
std::unique_ptr<Collective> reduce_scatter(const Algorithm& algorithm, std::unique_ptr<Transport> transport,
                                           const ReduceBuffer& buffer, DType wire = DType::f32);
/// Every rank gets slice_of_rank(count, r, P) of the stretch from each rank r of P: the same bits.
std::unique_ptr<Collective> all_gather(const Algorithm& algorithm, std::unique_ptr<Transport> transport,
                                       const ReduceBuffer& buffer, DType wire = DType::f32);

}  // namespace lockstep
