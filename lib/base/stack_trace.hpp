// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>

namespace lockstep {

/// Lets the calling thread be asked where it is.
void allow_stack_trace();

/// Where the thread that called allow_stack_trace is: one line a call, the innermost first. For other threads. Empty
/// when it does not answer within a second: it is stopped, or waits in the kernel for what cannot be interrupted.
std::string stack_trace();

}  // namespace lockstep
