// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/convert.hpp"

#include "core/packs.hpp"

namespace lockstep {
namespace {

template <class From, class To>
void convert(const ExecSpace& space, std::int64_t count, const From* x, To* y) {
  for_elements(
      space, "lockstep::convert", count,
      KOKKOS_LAMBDA(std::int64_t, const From& in, To& out) {
        out = static_cast<To>(static_cast<Compute<To>>(static_cast<Compute<From>>(in)));
      },
      Reads(x), Writes(y));
}

template <class From, class To>
void add_converted(const ExecSpace& space, std::int64_t count, const From* x, To* y) {
  using C = Compute<To>;
  for_elements(
      space, "lockstep::add_converted", count,
      KOKKOS_LAMBDA(std::int64_t, const From& in, To& sum) {
        sum = static_cast<To>(static_cast<C>(sum) + static_cast<C>(static_cast<Compute<From>>(in)));
      },
      Reads(x), Updates(y));
}

}  // namespace

void convert(const ExecSpace& space, const Tensor& x, const Tensor& y) {
  dispatch_float(x.dtype, [&]<class From>(From) {
    dispatch_float(y.dtype, [&]<class To>(To) { convert<From, To>(space, x.count(), x.as<const From>(), y.as<To>()); });
  });
}

void add_converted(const ExecSpace& space, const Tensor& x, const Tensor& y) {
  dispatch_float(x.dtype, [&]<class From>(From) {
    dispatch_float(y.dtype,
                   [&]<class To>(To) { add_converted<From, To>(space, x.count(), x.as<const From>(), y.as<To>()); });
  });
}

}  // namespace lockstep
