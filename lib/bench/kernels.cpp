// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "bench/bench.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/median.hpp"
#include "bench/timing.hpp"
#include "ops/elementwise/copies.hpp"
#include "ops/elementwise/elementwise.hpp"
#include "ops/loss/loss.hpp"
#include "ops/norm/norm.hpp"
#include "ops/pool/pooling.hpp"
#include "ops/sequence/embedding.hpp"

namespace lockstep {
namespace {

constexpr std::int64_t elements = std::int64_t{1} << (is_a_device ? 27 : 24);

void fill_numbers(const ExecSpace& space, const Tensor& x) {
  float* const values = x.as<float>();
  Kokkos::parallel_for(
      "lockstep::bench::numbers", RangePolicy(space, 0, elements),
      KOKKOS_LAMBDA(const std::int64_t i) { values[i] = static_cast<float>(i * 7 % 19) / 19 - 0.4F; });
}

/// Measures the rows of a table on three tensors of one type, and on what else kernels take.
class KernelBench {
 public:
  KernelBench(DType dtype, const Print& print) : dtype_(dtype), print_(print) {
    copy_ = [this] { copy(space_, x_.get(), y_.get()); };
    const OwnedTensor small("lockstep::bench::numbers", DType::f32, {elements});
    fill_numbers(space_, small.get());
    for (const OwnedTensor* tensor : {&x_, &y_, &z_}) convert(space_, small.get(), tensor->get());
  }

  /// Prints a row for a kernel that moves `tensors` numbers of the type for each element, and `others` bytes in total.
  void row(const std::string& name, double tensors, double others, const std::function<void()>& call) const {
    const double bytes = tensors * static_cast<double>(x_.get().bytes()) + others;
    std::vector<double> times, copies;
    for (int round = 0; round < 5; ++round) {
      times.push_back(seconds_of(call));
      copies.push_back(seconds_of(copy_));
    }
    const double rate = bytes / median(times), copied = 2.0 * static_cast<double>(x_.get().bytes()) / median(copies);
    print_(fmt::format("| {} | {} | {:.3f} | {:.1f} | {:.1f} | {:.2f} |", name, name_of(dtype_), median(times) * 1e3,
                       rate * 1e-9, copied * 1e-9, rate / copied));
  }

  void elements_alone() const;
  void rows_of_features() const;
  void channels_of_images() const;
  void classes_and_tokens() const;

 private:
  Tensor as(const OwnedTensor& tensor, std::int64_t last) const {
    return tensor.get().reshaped({elements / last, last});
  }

  DType dtype_;
  const Print& print_;
  ExecSpace space_;
  OwnedTensor x_{"lockstep::bench::x", dtype_, {elements}}, y_{"lockstep::bench::y", dtype_, {elements}},
      z_{"lockstep::bench::z", dtype_, {elements}};
  std::function<void()> copy_;
};

Buffer workspace_of(std::size_t bytes) { return Buffer("lockstep::bench::workspace", std::max<std::size_t>(bytes, 8)); }

Tensor all_of(const Buffer& buffer) { return buffer.tensor(0, DType::u8, {static_cast<std::int64_t>(buffer.size())}); }

void KernelBench::elements_alone() const {
  row("relu", 2, 0, [&] { activation_forward(space_, Activation::relu, x_.get(), y_.get()); });
  row("relu, backward", 3, 0, [&] { activation_backward(space_, Activation::relu, x_.get(), y_.get(), z_.get()); });
  row("sum of two", 3, 0, [&] { add(space_, x_.get(), y_.get(), z_.get()); });
  row("dropout", 2, 0, [&] { dropout(space_, {.seed = 1, .rate = 0.1}, x_.get(), y_.get()); });
}

void KernelBench::rows_of_features() const {
  const std::int64_t c = 768;
  const std::int64_t rows = elements / 1024;  // 768 does not divide `elements`
  const auto part = [&](const OwnedTensor& tensor) { return Tensor{tensor.get().data, dtype_, {rows, c}}; };
  const Tensor x = part(x_), y = part(y_), z = part(z_);
  const double share = static_cast<double>(rows * c) / static_cast<double>(elements);
  const DType master = master_dtype(dtype_);
  const OwnedTensor weight("lockstep::bench::weight", master, {c}), bias("lockstep::bench::bias", master, {c}),
      moments("lockstep::bench::moments", master, {rows, 2});
  const Buffer workspace = workspace_of(
      std::max(layer_norm_workspace_bytes(dtype_, rows, c), bias_workspace_bytes(dtype_, rows, c)));
  const double of_rows = static_cast<double>(moments.get().bytes());
  row("bias, gelu", 3 * share, 0, [&] { bias_activation_forward(space_, bias.get(), Activation::gelu, y, z); });
  row("bias, gelu, backward", 3 * share, 0,
      [&] { bias_activation_backward(space_, Activation::gelu, z, y, bias.get(), Store::replace, all_of(workspace)); });
  row("layer norm", 2 * share, of_rows,
      [&] { layer_norm_forward(space_, 1e-5, x, weight.get(), bias.get(), y, moments.get()); });
  row("layer norm of a sum", 4 * share, of_rows,
      [&] { add_layer_norm_forward(space_, 1e-5, x, z, z, weight.get(), bias.get(), y, moments.get()); });
  row("layer norm, dx", 3 * share, of_rows,
      [&] { layer_norm_backward_data(space_, x, weight.get(), moments.get(), y, z, Store::replace); });
  row("layer norm, dweight", 2 * share, of_rows, [&] {
    layer_norm_backward_weight(space_, x, moments.get(), y, weight.get(), bias.get(), Store::replace,
                               all_of(workspace));
  });
}

void KernelBench::channels_of_images() const {
  const DType master = master_dtype(dtype_);
  for (const std::int64_t c : {64, 1024}) {
    const std::int64_t rows = elements / c;
    const auto channel = [&] { return OwnedTensor("lockstep::bench::channel", master, {c}); };
    const OwnedTensor owned[9] = {channel(), channel(), channel(), channel(), channel(),
                                  channel(), channel(), channel(), channel()};
    const BatchNormState state{owned[0].get(), owned[1].get(), owned[2].get(), owned[3].get(),
                               owned[4].get(), owned[5].get(), owned[6].get()};
    const Tensor x = as(x_, c), y = as(y_, c), z = as(z_, c);
    const Buffer workspace = workspace_of(batch_norm_workspace_bytes(dtype_, rows, c));
    const std::string of = fmt::format(" of {} channels", c);
    const BatchNormOutput output{.relu = true};
    row("batch norm" + of + ", moments", 1, 0, [&] { batch_norm_observe(space_, x, 0, state, all_of(workspace)); });
    batch_norm_conclude(space_, rows, 1e-5, state);
    batch_norm_coefficients(space_, owned[7].get(), owned[8].get(), state);
    row("batch norm" + of + ", relu", 2, 0, [&] { batch_norm_forward(space_, x, {}, state, output, y); });
    row("batch norm" + of + ", sums of dy", 2, 0,
        [&] { batch_norm_observe_backward(space_, x, y, output, true, z, state, all_of(workspace)); });
    row("batch norm" + of + ", dx", 3, 0, [&] { batch_norm_backward(space_, rows, x, output, z, state, y); });
  }
  const std::int64_t n = elements / (112 * 112 * 64);
  const PoolingShape shape{n, 112, 112, 64, {3, 2, 1}, {3, 2, 1}};
  const Shape pooled{n, shape.out_h(), shape.out_w(), 64};
  const Tensor x{x_.get().data, dtype_, {n, 112, 112, 64}}, y{y_.get().data, dtype_, pooled};
  const OwnedTensor winner("lockstep::bench::winner", DType::u8, pooled);
  const double share = static_cast<double>(x.count() + y.count()) / static_cast<double>(elements);
  row("max pooling", share, static_cast<double>(winner.get().bytes()),
      [&] { pooling_forward(space_, PoolingKind::max, shape, x, y, winner.get()); });
  row("max pooling, backward", share, static_cast<double>(winner.get().bytes()),
      [&] { pooling_backward(space_, PoolingKind::max, shape, winner.get(), y, x); });
}

void KernelBench::classes_and_tokens() const {
  const std::int64_t classes = 50'304, rows = elements / 65'536, features = 768, tokens = elements / 1024;
  const OwnedTensor targets("lockstep::bench::targets", DType::i32, {tokens});
  std::vector<std::int32_t> names(static_cast<std::size_t>(tokens));
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = static_cast<std::int32_t>(i * 7919 % classes);
  copy_from_host(space_, names.data(), targets.get());
  const auto part = [&](const OwnedTensor& t, std::int64_t n, std::int64_t c) {
    return Tensor{t.get().data, dtype_, {n, c}};
  };
  const auto share = [&](std::int64_t n, std::int64_t c) {
    return static_cast<double>(n * c) / static_cast<double>(elements);
  };
  const OwnedTensor per_row("lockstep::bench::per_row", DType::f64, {rows, 2});
  const Tensor of_rows{targets.get().data, DType::i32, {rows}};
  row("cross entropy of 50,304 classes", 2 * share(rows, classes), 0, [&] {
    cross_entropy_of_rows(space_, {}, part(x_, rows, classes), of_rows, part(y_, rows, classes), per_row.get(), 1);
  });
  row("softmax of 1,024", 2, 0, [&] { softmax_forward(space_, as(x_, 1024), as(y_, 1024)); });
  row("softmax of 1,024, backward", 3, 0, [&] { softmax_backward(space_, as(x_, 1024), as(y_, 1024), as(z_, 1024)); });
  const OwnedTensor weight("lockstep::bench::weight", master_dtype(dtype_), {classes, features});
  const Tensor read = targets.get().reshaped({1, tokens});
  const Tensor y{y_.get().data, dtype_, {1, tokens, features}};
  const double of_weight = static_cast<double>(weight.get().bytes());
  const double gathered = static_cast<double>(tokens * features) * static_cast<double>(size_of(master_dtype(dtype_)));
  row("embedding", share(tokens, features), gathered, [&] { embedding_forward(space_, read, weight.get(), y); });
  const Buffer workspace = workspace_of(embedding_workspace_bytes(dtype_, tokens, classes, features));
  const auto backward = [&] { embedding_backward(space_, read, y, weight.get(), Store::replace, all_of(workspace)); };
  row("embedding, backward", share(tokens, features), of_weight, backward);
  for (std::int32_t& name : names) name %= 64;
  copy_from_host(space_, names.data(), targets.get());
  row("embedding of 64 tokens, backward", share(tokens, features), of_weight, backward);
}

}  // namespace

void bench_kernels(const std::vector<DType>& types, const Print& print) {
  print("| kernel | type | ms | GB/s | a copy's GB/s | share |\n|---|---|--:|--:|--:|--:|");
  for (const DType dtype : types) {
    const KernelBench bench(dtype, print);
    bench.elements_alone();
    bench.rows_of_features();
    bench.channels_of_images();
    bench.classes_and_tokens();
  }
}

}  // namespace lockstep
