// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/step_votes.hpp"

#include <cassert>

namespace lockstep {
namespace {

template <class C>
void write(const ExecSpace& space, C stop, C checkpoint, C* riders, double* sums, const int* nonfinite) {
  Kokkos::parallel_for(
      "lockstep::step_votes::put", Kokkos::RangePolicy<ExecSpace>(space, 0, 1), KOKKOS_LAMBDA(int) {
        riders[0] = stop;
        riders[1] = checkpoint;
        riders[2] = static_cast<C>(sums[0] - sums[2]);
        sums[2] = sums[0];
        riders[3] = static_cast<C>(*nonfinite != 0 ? 1 : 0);
      });
}

}  // namespace

void StepVotes::put(const ExecSpace& space, const Tensor& riders, const Tensor& sums, const Tensor& nonfinite) const {
  assert(riders.count() >= 4);
  dispatch_master(riders.dtype, [&]<class C>(C) {
    write<C>(space, static_cast<C>(stop), static_cast<C>(checkpoint), riders.as<C>(), sums.as<double>(),
             nonfinite.as<int>());
  });
}

StepVotes StepVotes::read(const ExecSpace& space, const Tensor& riders) {
  StepVotes votes;
  dispatch_master(riders.dtype, [&]<class C>(C) {
    C values[4];
    copy_to_host(space, {riders.data, riders.dtype, {4}}, values);
    votes = {values[0] != C(0), values[1] != C(0), static_cast<double>(values[2]), values[3] != C(0)};
  });
  return votes;
}

}  // namespace lockstep
