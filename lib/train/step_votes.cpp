// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/step_votes.hpp"

#include <cassert>

namespace lockstep {
namespace {

template <class C>
void write(const ExecSpace& space, C stop, C checkpoint, C* riders, double* sums) {
  Kokkos::parallel_for(
      "lockstep::step_votes::put", Kokkos::RangePolicy<ExecSpace>(space, 0, 1), KOKKOS_LAMBDA(int) {
        riders[0] = stop;
        riders[1] = checkpoint;
        riders[2] = static_cast<C>(sums[0] - sums[2]);
        sums[2] = sums[0];
      });
}

}  // namespace

void StepVotes::put(const ExecSpace& space, const Tensor& riders, const Tensor& sums) const {
  assert(riders.count() >= 3);
  dispatch_master(riders.dtype, [&]<class C>(C) {
    write<C>(space, static_cast<C>(stop), static_cast<C>(checkpoint), riders.as<C>(), sums.as<double>());
  });
}

StepVotes StepVotes::read(const ExecSpace& space, const Tensor& riders) {
  StepVotes votes;
  dispatch_master(riders.dtype, [&]<class C>(C) {
    C values[3];
    copy_to_host(space, {riders.data, riders.dtype, {3}}, values);
    votes = {values[0] != C(0), values[1] != C(0), static_cast<double>(values[2])};
  });
  return votes;
}

}  // namespace lockstep
