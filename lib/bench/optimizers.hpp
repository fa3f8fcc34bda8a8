// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>
#include <string>

namespace lockstep {

/// Prints a table of a step of each optimizer on 25 million parameters in fp32: its milliseconds, and the rate of the
/// bytes that it has to read and write, as a share of the rate of a copy that is measured in turns with it.
void bench_optimizers(const std::function<void(const std::string&)>& print);

}  // namespace lockstep
