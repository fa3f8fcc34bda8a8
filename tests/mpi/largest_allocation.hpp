// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>

namespace lockstep::test {

/// Bytes of the largest block that `new` has returned in this program since the last call.
std::size_t take_largest_allocation();

}  // namespace lockstep::test
