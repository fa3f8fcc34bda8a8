// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

namespace lockstep {

/// to += the numbers of a message, which are of another type than the sums where the wire has one. Of double and
/// double, and of float and float, bfloat16 or half.
template <class T, class W>
void add_message(T* to, const W* message, std::int64_t count);

}  // namespace lockstep
