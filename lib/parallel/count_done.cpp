// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/count_done.hpp"

namespace lockstep {

void count_done(const ExecSpace& space, double count, const std::int32_t* left_out, double* sum) {
  Kokkos::parallel_for(
      "lockstep::count_done", RangePolicy(space, 0, 1),
      KOKKOS_LAMBDA(const std::int64_t) { *sum += *left_out != 0 ? 0.0 : count; });
}

}  // namespace lockstep
