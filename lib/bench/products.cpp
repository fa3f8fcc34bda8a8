// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "bench/bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/duration.hpp"
#include "bench/timing.hpp"
#include "core/tensor.hpp"
#include "ops/elementwise/copies.hpp"
#include "ops/portable/micro_product.hpp"
#include "ops/products/provider.hpp"

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
double measure_on_host() {
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

/// Returns the FLOP/s that the calling core, or in builds for devices the whole device, reaches in fused multiply-adds
/// on registers (each counts as two operations), without matrix units: the best of many short runs, which take about
/// 0.3 s. f32 or f64. Products are compared with this peak.
double multiply_add_peak(DType dtype) {
  double peak = 0;
  dispatch_master(dtype, [&](auto real) {
    using T = decltype(real);
    if constexpr (is_a_device) peak = measure_on_device<T>();
    else peak = measure_on_host<T>();
  });
  return peak;
}

/// A tensor of small numbers without a common factor.
OwnedTensor sample(DType dtype, const Shape& shape) {
  std::vector<double> values(static_cast<std::size_t>(shape.count()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i * 7 % 19) / 19 - 0.4;
  const OwnedTensor exact("lockstep::bench::sample", DType::f64, shape);
  OwnedTensor tensor("lockstep::bench::sample", dtype, shape);
  copy_from_host(ExecSpace(), values.data(), exact.get());
  convert(ExecSpace(), exact.get(), tensor.get());
  return tensor;
}

/// Peak of all cores that kernels use, or of the device; measured once. 16-bit products are compared with fp32's peak.
double peak_of(DType dtype) {
  static std::map<DType, double> peaks;
  const DType master = master_dtype(dtype);
  if (!peaks.count(master)) peaks[master] = multiply_add_peak(master) * (is_a_device ? 1 : ExecSpace().concurrency());
  return peaks[master];
}

void print_header(const Print& print) {
  print("| product | type | provider | direction | ms | GFLOP/s | of peak |");
  print("|---|---|---|---|--:|--:|--:|");
}

/// Measures an inner product or a convolution, which take the same tensors.
template <class Product>
void measure(const std::string& name, DType dtype, const Provider& provider, Product* product, const Shape& x_shape,
             const Shape& weight_shape, const Shape& y_shape, double flops, const Print& print) {
  if (product == nullptr) return;
  const ExecSpace space;
  const DType master = master_dtype(dtype);
  const OwnedTensor x = sample(dtype, x_shape), weight = sample(dtype, weight_shape), y = sample(dtype, y_shape);
  const OwnedTensor bias = sample(master, {y_shape[-1]}), dx = sample(dtype, x_shape),
                    dweight = sample(master, weight_shape);
  const Buffer scratch("lockstep::bench::workspace", std::max<std::size_t>(8, product->workspace_bytes()));
  const Tensor workspace = scratch.tensor(0, DType::u8, {static_cast<std::int64_t>(scratch.size())});
  const auto row = [&](const char* direction, const std::function<void()>& call) {
    const double seconds = best_seconds_of(call);
    print(fmt::format("| {} | {} | {} | {} | {:.3f} | {:.1f} | {:.0f} % |", name, name_of(dtype), provider.name(),
                      direction, seconds * 1e3, flops / seconds / 1e9, 100 * flops / seconds / peak_of(dtype)));
  };
  product->set_weight(weight.get());
  row("forward", [&] { product->forward(space, x.get(), bias.get(), y.get(), workspace); });
  row("backward data", [&] { product->backward_data(space, y.get(), dx.get(), workspace); });
  row("backward weight",
      [&] { product->backward_weight(space, x.get(), y.get(), dweight.get(), Store::replace, workspace); });
}

ConvolutionShape convolution(std::int64_t n, std::int64_t edge, std::int64_t c, std::int64_t filters,
                             std::int64_t kernel, std::int64_t stride, DType dtype) {
  ConvolutionShape s;
  s.n = n, s.h = s.w = edge, s.c = c, s.filters = filters, s.kernel_h = s.kernel_w = kernel, s.stride = stride;
  s.pad_top = s.pad_left = s.pad_bottom = s.pad_right = kernel / 2;
  s.dtype = dtype, s.activation = Activation::relu;
  return s;
}

}  // namespace

void bench_peak(const Print& print) {
  const char* const unit = is_a_device ? "device" : "core";
  print(
      fmt::format("f32 {:.1f} GFLOP/s per {}, multiply-adds on registers", multiply_add_peak(DType::f32) * 1e-9, unit));
  print(fmt::format("f64 {:.1f} GFLOP/s per {}", multiply_add_peak(DType::f64) * 1e-9, unit));
  const OwnedTensor a("lockstep::bench::copy", DType::u8, {256 << 20}),
      b("lockstep::bench::copy", DType::u8, {256 << 20});
  const double seconds = best_seconds_of([&] { copy(ExecSpace(), a.get(), b.get()); });
  print(fmt::format("memory {:.1f} GB/s, reads and writes of a copy",
                    2.0 * static_cast<double>(a.get().bytes()) / seconds * 1e-9));
}

void bench_inner_products(const std::vector<DType>& types, std::int64_t batch, const Print& print) {
  print_header(print);
  std::vector<std::array<std::int64_t, 3>> products{{batch, 784, 1024}, {batch, 1024, 1024}, {batch, 3136, 1024},
                                                    {batch, 1024, 10},  {1024, 1024, 1024},  {1024, 256, 1024},
                                                    {1024, 1024, 256},  {1024, 256, 4096}};
  if (is_a_device) products.push_back({8192, 8192, 8192});
  for (const DType dtype : types)
    for (const auto& [rows, in, out] : products)
      for (const Provider* provider : providers()) {
        const InnerProductShape shape{rows, in, out, dtype, true, Activation::relu};
        measure(fmt::format("{} × {}→{}", rows, in, out), dtype, *provider, provider->inner_product(shape).get(),
                {rows, in}, {out, in}, {rows, out}, shape.flops(), print);
      }
}

void bench_convolutions(const std::vector<DType>& types, std::int64_t batch, const Print& print) {
  print_header(print);
  for (const DType dtype : types)
    for (const ConvolutionShape& s :
         {convolution(batch, 28, 1, 32, 5, 1, dtype), convolution(batch, 14, 32, 64, 5, 1, dtype),
          convolution(batch, 32, 16, 16, 3, 1, dtype), convolution(batch, 16, 32, 32, 3, 1, dtype),
          convolution(batch, 8, 64, 64, 3, 1, dtype), convolution(batch, 32, 16, 32, 3, 2, dtype),
          convolution(8, 56, 64, 64, 3, 1, dtype), convolution(8, 56, 64, 256, 1, 1, dtype),
          convolution(8, 14, 1024, 256, 1, 1, dtype), convolution(8, 224, 3, 64, 7, 2, dtype)})
      for (const Provider* provider : providers())
        measure(fmt::format("{} × {}→{} at {}², {}×{}{}", s.n, s.c, s.filters, s.h, s.kernel_h, s.kernel_w,
                            s.stride > 1 ? fmt::format(" / {}", s.stride) : ""),
                dtype, *provider, provider->convolution(s).get(), {s.n, s.h, s.w, s.c},
                {s.filters, s.c / s.groups, s.kernel_h, s.kernel_w}, {s.n, s.out_h(), s.out_w(), s.filters}, s.flops(),
                print);
}

}  // namespace lockstep
