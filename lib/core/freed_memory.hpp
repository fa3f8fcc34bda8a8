// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

namespace lockstep {

/// Returns freed memory, which the C library keeps for later allocations, to the system. Worth calling after a set-up
/// with a high temporary demand, such as drawing all initial parameters on a rank that keeps only its shard. No effect
/// where the C library has no such call.
void give_back_freed_memory();

}  // namespace lockstep
