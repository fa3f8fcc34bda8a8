// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

namespace lockstep {

/// A function of one element that a product can apply to its result before it is stored.
enum class Activation { none, relu };

/// Whether a gradient replaces what stands in its place or is added to it (later micro-batches of a step).
enum class Store { replace, add };

}  // namespace lockstep
