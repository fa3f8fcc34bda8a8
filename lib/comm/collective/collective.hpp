// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <memory>

#include "comm/collective/schedule.hpp"
#include "comm/spin_backoff.hpp"
#include "comm/transport.hpp"
#include "core/dtype.hpp"

namespace lockstep {

/// A collective operation on ranges of a buffer that each rank has. All ranks start the same ranges in the same order.
/// Nothing waits: callers call `advance` until it returns true.
class Collective {
 public:
  virtual ~Collective() = default;

  /// Starts with elements [first, first + count), where count may be 0; the previous operation must be done.
  virtual void start(std::int64_t first, std::int64_t count) = 0;
  /// Makes what progress is possible without waiting. Returns true if the operation is done on this rank.
  virtual bool advance() = 0;
};

/// Buffer of an operation, in host memory; it must outlive the operation.
struct ReduceBuffer {
  DType dtype = DType::f32;  ///< f32 or f64
  void* data = nullptr;
};

struct Algorithm;

// Message-based operations. `wire`: type of numbers in messages, either f32 (meaning the buffer's own type) or, for f32
// buffers, a 16-bit type. Sums are accumulated in the buffer's type; what a rank gets from others is rounded to the
// wire type. They throw Error (bad_deck) if the algorithm lacks the operation, and are collective over the transport's
// ranks.

/// Every rank gets the sums over all ranks, with the same bits.
std::unique_ptr<Collective> all_reduce(const Algorithm& algorithm, std::unique_ptr<Transport> transport,
                                       const ReduceBuffer& buffer, DType wire = DType::f32);
/// Rank r of P gets the sums of slice_of_rank(count, r, P) of the range; its other elements are left undefined.
std::unique_ptr<Collective> reduce_scatter(const Algorithm& algorithm, std::unique_ptr<Transport> transport,
                                           const ReduceBuffer& buffer, DType wire = DType::f32);
/// Every rank gets slice_of_rank(count, r, P) of the range from each rank r of P, with the same bits.
std::unique_ptr<Collective> all_gather(const Algorithm& algorithm, std::unique_ptr<Transport> transport,
                                       const ReduceBuffer& buffer, DType wire = DType::f32);

}  // namespace lockstep
