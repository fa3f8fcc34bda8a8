// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <vector>

#include "bench/products.hpp"

namespace lockstep {

/// Prints a table of the kernels that are bound by memory: the rate of the bytes that each has to read and write, as a
/// share of the rate of a copy that is measured in turns with it. Tensors are larger than caches.
void bench_kernels(const std::vector<DType>& types, const Print& print);

}  // namespace lockstep
