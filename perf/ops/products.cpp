// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// perf_products [PART OF A NAME]…: GFLOP/s of the presets' large products, with every provider of this
// build, and their share of the cores' multiply-add peak, as a Markdown table. Each figure is the
// best of a second's runs. Convolutions count their padding, which a library may skip: hence shares
// above 100 %.

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "base/timer.hpp"
#include "fma_peak.hpp"
#include "ops/provider.hpp"

namespace lockstep::perf {
namespace {

constexpr std::int64_t batch = 128;

/// A tensor of small numbers that are no multiples of anything.
OwnedTensor sample(DType dtype, const Shape& shape) {
  OwnedTensor tensor("lockstep::perf::sample", dtype, shape);
  const std::int64_t count = shape.count();
  dispatch_master(dtype, [&](auto real) {
    std::vector<decltype(real)> values(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i)
      values[static_cast<std::size_t>(i)] = static_cast<decltype(real)>(static_cast<double>(i * 7 % 19) / 19 - 0.4);
    copy_from_host(ExecSpace(), values.data(), tensor.get());
  });
  return tensor;
}

/// With one thread, what it spends on the processor: other programs on the machine then matter less.
double now() {
  timespec time;
  clock_gettime(host_shares_memory && ExecSpace().concurrency() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Seconds of the fastest call.
double best_of(const std::function<void()>& call) {
  const ExecSpace space;
  double best = 1e30;
  int runs = 0;
  for (const Timer total; total.seconds() < 1.0 || runs < 3; ++runs) {
    const double start = now();
    call();
    space.fence();
    best = std::min(best, now() - start);
  }
  return best;
}

void print_row(const std::string& product, DType dtype, std::string_view provider, const std::string& direction,
               double flops, double seconds, double peak) {
  fmt::print("| {} | {} | {} | {} | {:.3f} | {:.1f} | {:.0f} % |\n", product, name_of(dtype), provider, direction,
             seconds * 1e3, flops / seconds / 1e9, 100 * flops / seconds / peak);
  std::fflush(stdout);
}

/// Either kind of product: they take the same tensors.
template <class Product>
void measure(const std::string& name, DType dtype, const Provider& provider, Product* product, const Shape& x_shape,
             const Shape& weight_shape, const Shape& y_shape, double flops, double peak) {
  if (product == nullptr) return;
  const ExecSpace space;
  const OwnedTensor x = sample(dtype, x_shape), weight = sample(dtype, weight_shape), y = sample(dtype, y_shape);
  const OwnedTensor bias = sample(dtype, {y_shape[-1]}), dx = sample(dtype, x_shape);
  const OwnedTensor dweight = sample(dtype, weight_shape);
  const Buffer scratch("lockstep::perf::workspace", std::max<std::size_t>(8, product->workspace_bytes()));
  const Tensor workspace = scratch.tensor(0, DType::u8, {static_cast<std::int64_t>(scratch.size())});
  product->set_weight(weight.get());
  print_row(name, dtype, provider.name(), "forward", flops,
            best_of([&] { product->forward(space, x.get(), bias.get(), y.get(), workspace); }), peak);
  print_row(name, dtype, provider.name(), "backward data", flops,
            best_of([&] { product->backward_data(space, y.get(), dx.get(), workspace); }), peak);
  print_row(name, dtype, provider.name(), "backward weight", flops,
            best_of([&] { product->backward_weight(space, x.get(), y.get(), dweight.get(), Store::replace, workspace); }), peak);
}

void measure(const std::string& name, const InnerProductShape& shape, double peak) {
  for (const Provider* provider : providers())
    measure(name, shape.dtype, *provider, provider->inner_product(shape).get(), {shape.n, shape.in},
            {shape.out, shape.in}, {shape.n, shape.out}, shape.flops(), peak);
}

void measure(const std::string& name, const ConvolutionShape& s, double peak) {
  for (const Provider* provider : providers())
    measure(name, s.dtype, *provider, provider->convolution(s).get(), {s.n, s.h, s.w, s.c},
            {s.filters, s.c / s.groups, s.kernel_h, s.kernel_w}, {s.n, s.out_h(), s.out_w(), s.filters}, s.flops(), peak);
}

ConvolutionShape same_convolution(std::int64_t size, std::int64_t c, std::int64_t filters, std::int64_t kernel,
                                  DType dtype) {
  ConvolutionShape s;
  s.n = batch, s.h = s.w = size, s.c = c, s.filters = filters, s.kernel_h = s.kernel_w = kernel;
  s.pad_top = s.pad_left = s.pad_bottom = s.pad_right = kernel / 2;
  s.dtype = dtype, s.activation = Activation::relu;
  return s;
}

void measure_all(const std::vector<std::string>& wanted, DType dtype) {
  const int cores = host_shares_memory ? ExecSpace().concurrency() : 1;
  const double peak = fma_peak(dtype) * cores;
  fmt::print("\n{}: peak of {} core{} {:.1f} GFLOP/s\n\n", name_of(dtype), cores, cores == 1 ? "" : "s", peak / 1e9);
  fmt::print("| product, batch {} | type | provider | direction | ms | GFLOP/s | of peak |\n|---|---|---|---|--:|--:|--:|\n", batch);
  const auto run = [&](const std::string& name, const auto& shape) {
    const bool chosen = wanted.empty() || std::any_of(wanted.begin(), wanted.end(), [&](const std::string& part) {
                          return name.find(part) != std::string::npos;
                        });
    if (chosen) measure(name, shape, peak);
  };
  run("conv 5×5 1→32 at 28²", same_convolution(28, 1, 32, 5, dtype));
  run("conv 5×5 32→64 at 14²", same_convolution(14, 32, 64, 5, dtype));
  for (const auto& [in, out] : {std::pair(3136, 1024), std::pair(1024, 10), std::pair(784, 1024), std::pair(1024, 1024)})
    run(fmt::format("linear {}→{}", in, out), InnerProductShape{batch, in, out, dtype, true, Activation::relu});
}

}  // namespace
}  // namespace lockstep::perf

int main(int argc, char** argv) {
  const Kokkos::ScopeGuard kokkos(argc, argv);
  const std::vector<std::string> wanted(argv + 1, argv + argc);
  for (const auto dtype : {lockstep::DType::f32, lockstep::DType::f64}) lockstep::perf::measure_all(wanted, dtype);
}
