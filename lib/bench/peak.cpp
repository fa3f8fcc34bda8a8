// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "bench/peak.hpp"

#include <algorithm>
#include <cmath>

#include "base/timer.hpp"
#include "core/tensor.hpp"
#include "ops/portable/micro_product.hpp"

namespace lockstep {
namespace {

// Independent sums: more than latency (4 or 5 cycles) × units (2), and few enough for 16 registers besides the two
// factors.
constexpr int chains = 12;

/// Does multiply-adds of `steps` rounds over all chains, and returns their sum, so that none is optimised away.
template <class T>
__attribute__((noinline)) T run_chains(long steps, T scale, T shift) {
  T start[VectorOf<T>::lanes];
  const auto all = [&start](T value) {
    for (T& lane : start) lane = value;
    return load<T>(start);
  };
  Vector<T> sum[chains];
  const Vector<T> term = all(shift);
  for (int i = 0; i < chains; ++i) sum[i] = all(static_cast<T>(i));
  for (long step = 0; step < steps; ++step)
    for (int i = 0; i < chains; ++i) sum[i] = scale * sum[i] + term;
  T result = 0;
  for (int i = 0; i < chains; ++i) {
    store<T>(sum[i], start);
    for (const T lane : start) result += lane;
  }
  return result;
}

template <class T>
double measure() {
  constexpr long steps = 100'000;  // about 0.2 ms: short enough to fall between interruptions
  constexpr double flops = 2.0 * steps * chains * VectorOf<T>::lanes;
  double best = 0;
  volatile T factor = T(0.999), keep = 0;
  for (int run = 0; run < 1000; ++run) {
    const Timer timer;
    keep = run_chains<T>(steps, factor, T(0.001));
    best = std::max(best, flops / timer.seconds());
  }
  return std::isfinite(keep) ? best : 0;
}

template <class T>
double measure_on_device() {
  constexpr int steps = 10'000;
  constexpr std::int64_t threads = 1 << 19;
  constexpr double flops = 2.0 * steps * chains * threads;
  const ExecSpace space;
  const OwnedTensor results("lockstep::bench::peak", dtype_of<T>(), {threads});
  T* const result = results.get().as<T>();
  double best = 0;
  for (int run = 0; run < 10; ++run) {
    const Timer timer;
    Kokkos::parallel_for(
        "lockstep::bench::peak", RangePolicy(space, 0, threads), KOKKOS_LAMBDA(const std::int64_t thread) {
          T sum[chains];
          for (int i = 0; i < chains; ++i) sum[i] = static_cast<T>(thread + i);
          for (int step = 0; step < steps; ++step)
            for (int i = 0; i < chains; ++i) sum[i] = T(0.999) * sum[i] + T(0.001);
          T total = 0;
          for (int i = 0; i < chains; ++i) total += sum[i];
          result[thread] = total;
        });
    space.fence("lockstep::bench");
    best = std::max(best, flops / timer.seconds());
  }
  return best;
}

}  // namespace

double multiply_add_peak(DType dtype) {
  double peak = 0;
  dispatch_master(dtype, [&](auto real) {
    using T = decltype(real);
    if constexpr (is_a_device) peak = measure_on_device<T>();
    else peak = measure<T>();
  });
  return peak;
}

}  // namespace lockstep
