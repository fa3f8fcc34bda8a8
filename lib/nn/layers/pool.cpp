// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/layers/pool.hpp"

#include <algorithm>

#include "nn/layers/axes.hpp"

namespace lockstep {

namespace {

Shape output_of(const PoolingShape& s) { return {s.n, s.out_h(), s.out_w(), s.c}; }

}  // namespace

void PoolConfig::describe(Fields& fields) {
  static constexpr const char* edges[] = {"window size in positions", "side of the square window",
                                          "side of the cubic window"};
  static constexpr std::int64_t largest[] = {max_pool_places, 16, 16};  // in volumes, each slice keeps its own
  const std::int64_t most = largest[dimensions - 1];
  fields.integer("kernel", kernel, {1, static_cast<double>(most)}, edges[dimensions - 1], Presence::required);
  fields.integer("stride", stride, {1, 1024}, "distance between neighbouring windows (when not given: kernel)");
  fields.integer(
      "padding", padding, {0, static_cast<double>(most / 2)},
      "number of pixels or positions added on each side; a maximum ignores them, and a mean counts them as zeros");
  fields.check(2 * padding <= kernel, "padding",
               fmt::format("{} is more than half the kernel of {} (a window would see only padding); use less", padding,
                           kernel));
}

std::unique_ptr<Layer> PoolConfig::make_layer() const { return std::make_unique<Pool>(*this); }
std::unique_ptr<Layer> GlobalAvgPoolConfig::make_layer() const { return std::make_unique<GlobalAvgPool>(); }

std::string_view Pool::type() const {
  static constexpr std::string_view types[][3] = {{"max_pool1d", "max_pool", "max_pool3d"},
                                                  {"avg_pool1d", "avg_pool", "avg_pool3d"}};
  return types[kind_ == PoolingKind::max ? 0 : 1][dimensions_ - 1];
}

PoolingShape Pool::slices(std::int64_t n, const Shape& input) const {
  const bool flat = dimensions_ == 1, deep = dimensions_ == 3;
  return {deep ? n * input[0] : n,
          flat ? 1 : input[-3],
          input[-2],
          input[-1],
          flat ? PoolingWindows{} : windows_,
          windows_};
}

PoolingShape Pool::along_depth(std::int64_t n, const Shape& input) const {
  const PoolingShape slice = slices(n, input);
  return {n, input[0], slice.out_h() * slice.out_w(), slice.c, windows_, {}};
}

Shape Pool::output_shape(std::span<const Shape> inputs) const {
  const Shape& input = inputs[0];
  check_spatial(type(), dimensions_, input);
  const auto space = input.extents().first(static_cast<std::size_t>(dimensions_));
  validate(*std::ranges::min_element(space) + 2 * windows_.padding >= windows_.kernel, ExitStatus::bad_deck,
           "the window ({}) is larger than its input ({}) plus padding; use a smaller one", windows_.kernel,
           to_string(input));
  std::vector<std::int64_t> extents;
  for (const std::int64_t extent : space) extents.push_back(windows_.count(extent));
  extents.push_back(input[-1]);
  return Shape(std::span(extents));
}

std::size_t Pool::saved_bytes(std::int64_t n, const Shape& output) const {
  if (kind_ != PoolingKind::max) return 0;
  const std::int64_t of_slices = dimensions_ == 3 ? output_of(slices(n, plan_.inputs[0])).count() : 0;
  return static_cast<std::size_t>(of_slices + n * output.count());
}

std::size_t Pool::prepare(std::int64_t n) {
  if (dimensions_ < 3) return 0;
  return static_cast<std::size_t>(output_of(slices(n, plan_.inputs[0])).count()) * size_of(plan_.dtype);
}

std::array<Tensor, 2> Pool::winners_in(const Tensor& saved, std::int64_t n) const {
  if (!saved) return {};
  const Tensor first{saved.data, DType::u8, output_of(slices(n, plan_.inputs[0]))};
  if (dimensions_ < 3) return {first, Tensor{}};
  return {first,
          {static_cast<std::byte*>(saved.data) + first.bytes(), DType::u8, output_of(along_depth(n, plan_.inputs[0]))}};
}

void Pool::forward(const PassContext& context, const LayerTensors& t) {
  const std::int64_t n = t.y.shape[0];
  const PoolingShape shape = slices(n, plan_.inputs[0]);
  const auto winners = winners_in(context.training ? t.saved : Tensor{}, n);
  if (dimensions_ < 3) return pooling_forward(context.space, kind_, shape, t.x[0], t.y, winners[0]);
  const Tensor pooled{t.workspace.data, plan_.dtype, output_of(shape)};
  pooling_forward(context.space, kind_, shape, t.x[0], pooled, winners[0]);
  pooling_forward(context.space, kind_, along_depth(n, plan_.inputs[0]), pooled, t.y, winners[1]);
}

void Pool::backward(const PassContext& context, const LayerTensors& t) {
  if (!t.dx[0]) return;
  const std::int64_t n = t.dy.shape[0];
  const PoolingShape shape = slices(n, plan_.inputs[0]);
  const auto winners = winners_in(t.saved, n);
  if (dimensions_ < 3) return pooling_backward(context.space, kind_, shape, winners[0], t.dy, t.dx[0]);
  const Tensor dpooled{t.workspace.data, plan_.dtype, output_of(shape)};
  pooling_backward(context.space, kind_, along_depth(n, plan_.inputs[0]), winners[1], t.dy, dpooled);
  pooling_backward(context.space, kind_, shape, winners[0], dpooled, t.dx[0]);
}

void UpsampleConfig::describe(Fields& fields) {
  fields.integer("factor", factor, {1, 1024}, "factor by which height and width grow");
}

std::unique_ptr<Layer> UpsampleConfig::make_layer() const { return std::make_unique<Upsample>(factor); }

Shape Upsample::output_shape(std::span<const Shape> inputs) const {
  check_spatial(type(), 2, inputs[0]);
  return {factor_ * inputs[0][0], factor_ * inputs[0][1], inputs[0][2]};
}

void Upsample::forward(const PassContext& context, const LayerTensors& t) {
  upsample_forward(context.space, factor_, t.x[0], t.y);
}

void Upsample::backward(const PassContext& context, const LayerTensors& t) {
  if (t.dx[0]) upsample_backward(context.space, factor_, t.dy, t.dx[0]);
}

Shape GlobalAvgPool::output_shape(std::span<const Shape> inputs) const {
  validate(
      inputs[0].rank() > 1, ExitStatus::bad_deck,
      "global_avg_pool reads images (H×W×C), sequences (T×C) or volumes (D×H×W×C), but its input is {}; give it one "
      "of these",
      to_string(inputs[0]));
  return {inputs[0][-1]};
}

void GlobalAvgPool::forward(const PassContext& context, const LayerTensors& t) {
  global_average_forward(context.space, t.x[0], t.y);
}

void GlobalAvgPool::backward(const PassContext& context, const LayerTensors& t) {
  if (t.dx[0]) global_average_backward(context.space, t.dy, t.dx[0]);
}

}  // namespace lockstep
