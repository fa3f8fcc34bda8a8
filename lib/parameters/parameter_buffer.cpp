// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parameters/parameter_buffer.hpp"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "ops/elementwise/copies.hpp"
#include "ops/elementwise/elementwise.hpp"

namespace lockstep {
namespace {

Buffer take(const Buffer& given, const char* name, std::int64_t count, DType dtype) {
  return given.size() > 0 ? given : Buffer(name, static_cast<std::size_t>(count) * size_of(dtype));
}

}  // namespace

void ParameterShard::divide(const ParameterLayout& layout, const ParameterDivision& division) {
  ranges_ = layout.owned();
  trained_ = layout.trained_size();
  const std::int64_t owned = layout.owned_count(), statistics = layout.summed_size() - layout.trained_size();
  const auto take = [](const char* name, std::int64_t count, Buffer& memory, Tensor& all) {
    memory = Buffer(name, static_cast<std::size_t>(count) * size_of(all.dtype));
    all = memory.tensor(0, all.dtype, {count});
  };
  has_own_values_ = division.values;
  has_own_gradients_ = division.gradients;
  if (division.values_elsewhere) values_ = {nullptr, values_.dtype, {owned}};
  else if (division.values) take("lockstep::owned_values", owned, value_memory_, values_);
  if (division.gradients) take("lockstep::owned_gradients", owned + statistics, gradient_memory_, gradients_);
}

Tensor ParameterShard::at(const Tensor& all, std::int64_t first, std::int64_t count) {
  return {static_cast<std::byte*>(all.data) + static_cast<std::size_t>(first) * size_of(all.dtype), all.dtype, {count}};
}

/// Position of a flat-buffer element when only owned ranges are stored; statistics follow all ranges.
std::int64_t ParameterShard::place(std::int64_t element) const {
  std::int64_t before = 0;
  for (const ElementRange& range : ranges_) {
    if (element < range.first + range.count) return before + element - range.first;
    before += range.count;
  }
  return before + element - trained_;
}

ParameterBuffer::ParameterBuffer(std::span<const LayerSpecs> layers, DType dtype, const ParameterMemory& memory,
                                 UnshardPlan windows)
    : dtype_(dtype),
      master_(master_dtype(dtype)),
      layout_(layers, dtype),
      updates_statistics_(memory.updates_statistics),
      windows_(std::move(windows)),
      values_(take(memory.values, "lockstep::parameters", windows_.value_count(layout_), master_)),
      gradients_(take(memory.gradients, "lockstep::gradients", windows_.gradient_count(layout_), master_)),
      owned_(values(), gradients()),
      layers_(layers.size(), LayerParameters{.first = layout_.size()}) {
  if (rounds()) rounded_ = take(memory.rounded, "lockstep::rounded_parameters", windows_.value_count(layout_), dtype_);
  std::unordered_map<std::string_view, const Parameter*> named;
  for (const Parameter& parameter : parameters()) named.emplace(parameter.name, &parameter);
  for (std::size_t node = 0; node < layers.size(); ++node)
    for (const ParameterSpec& spec : layers[node].parameters)
      add_view(node, *named.at(parameter_name(layers[node], spec)));
}

void ParameterBuffer::add_view(std::size_t node, const Parameter& parameter) {
  LayerParameters& layer = layers_[node];
  layer.values.push_back(values(parameter));
  layer.ranges.push_back(parameter.range);
  layer.first = std::min(layer.first, parameter.range.first);
  const bool frozen = parameter.kind == ParameterSpec::Kind::frozen;
  layer.gradients.push_back(frozen ? Tensor{} : gradients(parameter));
  if (parameter.kind == ParameterSpec::Kind::statistic) return;
  const auto offset = static_cast<std::size_t>(windows_.value_place(parameter.range.first)) * size_of(dtype_);
  layer.weights.push_back(rounds() ? rounded_.tensor(offset, dtype_, parameter.shape) : values(parameter));
  if (frozen || parameter.node != node) return;  // parameters of another node become final with that node
  if (layer.own.count == 0) layer.own.first = parameter.range.first;
  layer.own = ElementRange::between(layer.own.first,
                                    parameter.range.first + padded_count(parameter.range.count, master_));
}

void ParameterBuffer::own(std::vector<ElementRange> ranges) {
  layout_.own(std::move(ranges));
  owned_.divide(layout_, windows_.division);
}

void ParameterBuffer::initialize(const ExecSpace& space, std::uint64_t seed) {
  for (const Parameter& parameter : parameters()) {
    const bool is_divided = windows_.division.values && parameter.kind == ParameterSpec::Kind::trained;
    const OwnedTensor memory = is_divided ? OwnedTensor("lockstep::initial_values", master_, parameter.shape)
                                          : OwnedTensor();
    const Tensor whole = is_divided ? memory.get() : values(parameter);
    lockstep::initialize(space, parameter.initializer, seed, parameter.number, whole);
    if (!is_divided) continue;
    fill_kept(space, parameter, [&](ElementRange range, const Tensor& kept) {
      copy(space, at(memory.buffer(), range.first - parameter.range.first, {range.count}), kept);
    });
    space.fence("lockstep::initialize");  // before `memory` is freed
  }
  round(space);
}

void ParameterBuffer::fill_kept(const ExecSpace& space, const Parameter& parameter, const Fill& fill) {
  if (!windows_.division.values || parameter.kind != ParameterSpec::Kind::trained)
    return fill(parameter.range, values(parameter));
  for (const ElementRange& own : layout_.owned())
    if (const ElementRange part = own.within(parameter.range); part.count > 0) {
      if (owned_.store()) fill_store(space, part, fill);
      else fill(part, owned_.values(part));
    }
}

void ParameterBuffer::fill_store(const ExecSpace& space, ElementRange part, const Fill& fill) {
  constexpr std::int64_t most = std::int64_t{1} << 18;
  const std::int64_t longest = std::min(most, part.count);
  const OwnedTensor memory("lockstep::values_of_store", master_, {longest});
  std::vector<std::byte> host(memory.get().bytes());
  for (std::int64_t first = part.first; first < part.end(); first += longest) {
    const ElementRange piece{first, std::min(longest, part.end() - first)};
    const Tensor values = at(memory.buffer(), 0, {piece.count});
    fill(piece, values);
    copy_to_host(space, values, host.data());
    owned_.store()->write(owned_.value_at(piece.first), piece.count, host.data());
  }
}

void ParameterBuffer::round(const ExecSpace& space, ElementRange range) {
  if (!rounds() || range.count == 0) return;
  const auto offset = static_cast<std::size_t>(windows_.value_place(range.first)) * size_of(dtype_);
  convert(space, values(range), rounded_.tensor(offset, dtype_, {range.count}));
}

void ParameterBuffer::update_statistics(const ExecSpace& space, double scale, const std::int32_t* left_out) {
  if (layout_.summed_size() == trained_size() || !updates_statistics_) return;
  accumulate(space, scale, owned_.gradients(layout_.statistics()), values(layout_.statistics()), left_out);
}

}  // namespace lockstep
