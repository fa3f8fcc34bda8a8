// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs a kernel that writes to an illegal address, as if in step 7 of a run, after a harmless one: the process must
// name it and end. For machines with a GPU (scripts/gpu_check).
#include <Kokkos_Core.hpp>

#include "base/heartbeat.hpp"
#include "core/device.hpp"
#include "core/tensor.hpp"
#include "run/resilience/signals.hpp"

using namespace lockstep;

namespace {

void write_to(const ExecSpace& space, const char* name, std::int64_t count, double* numbers) {
  Kokkos::parallel_for(name, RangePolicy(space, 0, count), KOKKOS_LAMBDA(const std::int64_t i) { numbers[i] = 1; });
}

}  // namespace

int main(int argc, char** argv) {
  record_kernels();
  const Kokkos::ScopeGuard kokkos(argc, argv);
  report_aborts(0);
  heartbeat().step = 7;
  heartbeat().enter(0);
  const ExecSpace space;
  const OwnedTensor numbers("numbers", DType::f64, {1000});
  write_to(space, "lockstep::harmless", 1000, numbers.get().as<double>());
  space.fence();
  write_to(space, "lockstep::planted", 1000, reinterpret_cast<double*>(std::uintptr_t{4096}));
  space.fence();
  return 0;
}
