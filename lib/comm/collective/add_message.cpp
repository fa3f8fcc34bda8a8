// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/collective/add_message.hpp"

#include "core/float16.hpp"

namespace lockstep {

template <class T, class W>
void add_message(T* to, const W* message, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] += T(message[i]);
}

template void add_message(double*, const double*, std::int64_t);
template void add_message(float*, const float*, std::int64_t);
template void add_message(float*, const bfloat16*, std::int64_t);
template void add_message(float*, const half*, std::int64_t);

}  // namespace lockstep
