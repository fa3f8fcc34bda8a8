// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

namespace lockstep {

/// Gives memory that has been freed back to the system, which C's library keeps for what may be asked for next: after
/// a set-up that has needed much for a while, as initial values of parameters of which a rank keeps its part. Where the
/// library cannot, nothing is done.
void give_back_freed_memory();

}  // namespace lockstep
