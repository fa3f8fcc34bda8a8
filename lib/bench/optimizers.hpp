// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>
#include <string>

namespace lockstep {

/// Prints a table: milliseconds of a step of each optimizer on 25 million parameters in fp32, the bytes that it has to
/// read and write, and which share that is of what a copy reaches that is measured in turns with it.
void bench_optimizers(const std::function<void(const std::string&)>& print);

}  // namespace lockstep
