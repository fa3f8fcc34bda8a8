// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// perf_sequences: GFLOP/s of attention's core and of the LSTM, forward and backward, and their share of the cores'
// multiply-add peak, as a Markdown table. Each figure is the best of a second's runs.

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "base/timer.hpp"
#include "fma_peak.hpp"
#include "nn/layers/lstm.hpp"
#include "ops/attention.hpp"

namespace lockstep::perf {
namespace {

/// A tensor of small numbers that are no multiples of anything.
OwnedTensor sample(DType dtype, const Shape& shape) {
  OwnedTensor tensor("lockstep::perf::sample", dtype, shape);
  const std::int64_t count = shape.count();
  dispatch_float(dtype, [&]<class T>(T) {
    std::vector<T> values(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i)
      values[static_cast<std::size_t>(i)] = T(static_cast<float>(static_cast<double>(i * 7 % 19) / 19 - 0.4) * 0.1f);
    copy_from_host(ExecSpace(), values.data(), tensor.get());
  });
  return tensor;
}

OwnedTensor bytes(std::size_t count) {
  return OwnedTensor("lockstep::perf::bytes", DType::u8, {static_cast<std::int64_t>(count)});
}

/// With one thread, what it spends on the processor: other programs on the machine then matter less.
double now() {
  timespec time;
  clock_gettime(host_shares_memory && ExecSpace().concurrency() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void measure(const std::string& what, double flops, double peak, const std::function<void()>& call) {
  const ExecSpace space;
  double best = 1e30;
  int runs = 0;
  for (const Timer total; total.seconds() < 1.0 || runs < 3; ++runs) {
    const double start = now();
    call();
    space.fence();
    best = std::min(best, now() - start);
  }
  fmt::print("| {} | {:.3f} | {:.1f} | {:.0f} % |\n", what, best * 1e3, flops / best / 1e9, 100 * flops / best / peak);
  std::fflush(stdout);
}

void measure_attention(const AttentionShape& s, double peak) {
  const ExecSpace space;
  const OwnedTensor qkv = sample(s.dtype, {s.n, s.length, 3 * s.width()}), dqkv = sample(s.dtype, qkv.get().shape);
  const OwnedTensor y = sample(s.dtype, {s.n, s.length, s.width()}), dy = sample(s.dtype, y.get().shape);
  const OwnedTensor logsumexp = sample(master_dtype(s.dtype), {s.n, s.heads, s.length});
  const OwnedTensor workspace = bytes(attention_workspace_bytes(space, s));
  const std::string name =
      fmt::format("attention {}×{}, {} heads of {}{}", s.n, s.length, s.heads, s.head_size, s.causal ? ", causal" : "");
  measure(name + " | forward", s.flops(), peak,
          [&] { attention_forward(space, s, qkv.get(), y.get(), logsumexp.get(), workspace.get()); });
  // Five products instead of two.
  measure(name + " | backward", 2.5 * s.flops(), peak, [&] {
    attention_backward(space, s, qkv.get(), y.get(), logsumexp.get(), dy.get(), dqkv.get(), workspace.get());
  });
}

void measure_lstm(std::int64_t n, std::int64_t length, std::int64_t in, std::int64_t units, DType dtype, double peak) {
  LstmConfig config;
  config.units = units;
  const auto layer = config.make_layer();
  const std::vector<Shape> inputs{{length, in}};
  const Shape output = layer->output_shape(inputs);
  layer->plan({inputs, output, dtype, {}, 0});
  std::vector<OwnedTensor> memory;
  std::vector<Tensor> parameters, weights, gradients;
  const auto view = [&](OwnedTensor tensor) {
    memory.push_back(std::move(tensor));
    return memory.back().get();
  };
  for (const auto& spec : layer->parameters(inputs)) {
    parameters.push_back(view(sample(master_dtype(dtype), spec.shape)));
    weights.push_back(view(sample(dtype, spec.shape)));
    gradients.push_back(view(sample(master_dtype(dtype), spec.shape)));
  }
  const Tensor x[] = {view(sample(dtype, inputs[0].with_batch(n)))}, dx[] = {view(sample(dtype, inputs[0].with_batch(n)))};
  const LayerTensors tensors{.x = x, .y = view(sample(dtype, output.with_batch(n))), .dx = dx,
                             .dy = view(sample(dtype, output.with_batch(n))), .parameters = parameters, .gradients = gradients,
                             .saved = view(bytes(layer->saved_bytes(n, output))), .workspace = view(bytes(layer->prepare(n)))};
  layer->set_weights(weights);
  const StepContext context;
  const std::string name = fmt::format("lstm {}×{}, {}→{}", n, length, in, units);
  measure(name + " | forward", layer->product_flops(n), peak, [&] { layer->forward(context, tensors); });
  measure(name + " | backward", 2 * layer->product_flops(n), peak, [&] { layer->backward(context, tensors); });
}

}  // namespace
}  // namespace lockstep::perf

int main(int argc, char** argv) {
  using namespace lockstep;
  const Kokkos::ScopeGuard kokkos(argc, argv);
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    const int cores = host_shares_memory ? ExecSpace().concurrency() : 1;
    const double peak = perf::fma_peak(master_dtype(dtype)) * cores;
    fmt::print("\n{}: peak of {} core{} {:.1f} GFLOP/s\n\n", name_of(dtype), cores, cores == 1 ? "" : "s", peak / 1e9);
    fmt::print("| what | direction | ms | GFLOP/s | of peak |\n|---|---|--:|--:|--:|\n");
    perf::measure_attention({8, 128, 8, 32, false, dtype}, peak);
    perf::measure_attention({8, 128, 8, 32, true, dtype}, peak);
    perf::measure_attention({1, 1024, 12, 64, true, dtype}, peak);
    perf::measure_lstm(16, 128, 512, 512, dtype, peak);
  }
}
