// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/convert.hpp"

namespace lockstep {
namespace {

template <class From, class To>
void convert(const ExecSpace& space, std::int64_t count, const From* x, To* y) {
  Kokkos::parallel_for(
      "lockstep::convert", RangePolicy(space, 0, count), KOKKOS_LAMBDA(const std::int64_t i) {
        y[i] = static_cast<To>(static_cast<Compute<To>>(static_cast<Compute<From>>(x[i])));
      });
}

template <class From, class To>
void add_converted(const ExecSpace& space, std::int64_t count, const From* x, To* y) {
  using C = Compute<To>;
  Kokkos::parallel_for(
      "lockstep::add_converted", RangePolicy(space, 0, count), KOKKOS_LAMBDA(const std::int64_t i) {
        y[i] = static_cast<To>(static_cast<C>(y[i]) + static_cast<C>(static_cast<Compute<From>>(x[i])));
      });
}

}  // namespace

void convert(const ExecSpace& space, const Tensor& x, const Tensor& y) {
  dispatch_float(x.dtype, [&]<class From>(From) {
    dispatch_float(y.dtype, [&]<class To>(To) { convert<From, To>(space, x.count(), x.as<From>(), y.as<To>()); });
  });
}

void add_converted(const ExecSpace& space, const Tensor& x, const Tensor& y) {
  dispatch_float(x.dtype, [&]<class From>(From) {
    dispatch_float(y.dtype, [&]<class To>(To) { add_converted<From, To>(space, x.count(), x.as<From>(), y.as<To>()); });
  });
}

}  // namespace lockstep
