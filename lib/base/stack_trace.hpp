// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>

namespace lockstep {

/// Prepares the calling thread to be traced by `stack_trace`.
void allow_stack_trace();

/// Returns the calls on the stack of the thread that called `allow_stack_trace`, one per line, the innermost first. To
/// be called by another thread. Empty if the traced thread does not answer within a second, because it is stopped or in
/// an uninterruptible wait.
std::string stack_trace();

}  // namespace lockstep
