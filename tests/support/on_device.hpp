// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <Kokkos_Core.hpp>
#include <vector>

#include "core/execution.hpp"

namespace lockstep::test {

/// Kernel y[i] = f(x[i]). (A struct, because nvcc accepts no lambdas in members of tests.)
template <class F, class In, class Out>
struct Apply {
  F f;
  Kokkos::View<const In*, MemorySpace> x;
  Kokkos::View<Out*, MemorySpace> y;
  KOKKOS_FUNCTION void operator()(const std::int64_t i) const { y(i) = f(x(i)); }
};

/// Returns f of each element, computed where kernels run.
template <class F, class In>
auto on_device(const F& f, const std::vector<In>& x) {
  using Out = decltype(f(In{}));
  const Kokkos::View<In*, MemorySpace> in("lockstep::test::in", x.size());
  const Kokkos::View<Out*, MemorySpace> out("lockstep::test::out", x.size());
  std::vector<Out> y(x.size());
  Kokkos::deep_copy(in, Kokkos::View<const In*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(x.data(), x.size()));
  Kokkos::parallel_for("lockstep::test::on_device", RangePolicy(ExecSpace(), 0, static_cast<std::int64_t>(x.size())),
                       Apply<F, In, Out>{f, in, out});
  Kokkos::deep_copy(Kokkos::View<Out*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(y.data(), y.size()), out);
  return y;
}

template <class F, class In>
auto on_device(const F& f, const In& x) {
  return on_device(f, std::vector<In>{x}).front();
}

}  // namespace lockstep::test
