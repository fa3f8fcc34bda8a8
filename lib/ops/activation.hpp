// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

namespace lockstep {

/// A function of one element whose derivative follows from its result: so whatever makes that element can
/// apply it before storing, and nobody keeps what it was given.
enum class Activation { none, relu, tanh, sigmoid };

/// Whether a gradient replaces what stands in its place or is added to it (later micro-batches of a step).
enum class Store { replace, add };

}  // namespace lockstep
