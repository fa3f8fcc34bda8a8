// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "fma_peak.hpp"

#include <algorithm>
#include <cmath>

#include "base/timer.hpp"

namespace lockstep::perf {
namespace {

#if defined(__AVX512F__)
constexpr int vector_bytes = 64;
#elif defined(__AVX__)
constexpr int vector_bytes = 32;
#else
constexpr int vector_bytes = 16;
#endif

// Independent sums: more than latency (4 or 5 cycles) × units (2), and they fit in 16 registers
// beside the two factors.
constexpr int chains = 12;

template <class T>
struct VectorOf {
  typedef T type __attribute__((vector_size(vector_bytes)));
};

/// Multiply-adds of `steps` rounds over all chains; returns their sum, so that none is left out.
template <class T>
__attribute__((noinline)) T run_chains(long steps, T scale, T shift) {
  using Vector = typename VectorOf<T>::type;
  Vector sum[chains], factor = Vector{} + scale, term = Vector{} + shift;
  for (int i = 0; i < chains; ++i) sum[i] = Vector{} + static_cast<T>(i);
  for (long step = 0; step < steps; ++step)
    for (int i = 0; i < chains; ++i) sum[i] = sum[i] * factor + term;
  Vector total{};
  for (int i = 0; i < chains; ++i) total += sum[i];
  T result = 0;
  for (std::size_t i = 0; i < vector_bytes / sizeof(T); ++i) result += total[i];
  return result;
}

template <class T>
double measure() {
  constexpr long steps = 100'000;  // about 0.2 ms: short enough to fall between interruptions
  constexpr double flops = 2.0 * steps * chains * (vector_bytes / sizeof(T));
  double best = 0;
  volatile T factor = T(0.999), keep = 0;
  for (int run = 0; run < 1000; ++run) {
    const Timer timer;
    keep = run_chains<T>(steps, factor, T(0.001));
    best = std::max(best, flops / timer.seconds());
  }
  return std::isfinite(keep) ? best : 0;
}

}  // namespace

double fma_peak(DType dtype) {
  return dispatch_master(dtype, [](auto real) { return measure<decltype(real)>(); });
}

}  // namespace lockstep::perf
