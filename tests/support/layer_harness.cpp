// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support/layer_harness.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "nn/model_config.hpp"
#include "ops/elementwise/copies.hpp"
#include "support/fixtures.hpp"

namespace lockstep::test {

std::vector<ListItem> parse_layers(const std::string& list) {
  ModelConfig config;
  read_config(parse_deck("layers: " + list + "\n", "test"), config);
  return config.resolved_layers();
}

ListItem parse_layer(const std::string& entry) { return parse_layers("[" + entry + "]").at(0); }

std::vector<ProviderKind> provider_kinds() {
  std::vector<ProviderKind> kinds{ProviderKind::automatic};
  for (const Provider* provider : providers())
    for (std::size_t k = 1; k < std::size(provider_names); ++k)
      if (provider->name() == provider_names[k]) kinds.push_back(static_cast<ProviderKind>(k));
  return kinds;
}

std::vector<ProviderKind> automatic_and_portable() {
  if (providers().size() == 1) return {ProviderKind::automatic};
  return {ProviderKind::automatic, ProviderKind::portable};
}

ProvidersConfig using_provider(ProviderKind kind) {
  ProvidersConfig config;
  config.matmul = config.convolution = kind;
  return config;
}

std::vector<std::int32_t> filling_tokens(std::uint64_t tag, std::int64_t count, std::int64_t vocabulary) {
  std::vector<std::int32_t> tokens;
  for (const double value : filling(tag, count))
    tokens.push_back(static_cast<std::int32_t>(std::floor((value + 1) / 2 * static_cast<double>(vocabulary))));
  return tokens;
}

namespace {

/// Pseudorandom row numbers for lookup tables of these sizes, cycling through the tables.
std::vector<double> filling_rows(std::uint64_t tag, std::int64_t count, std::span<const std::int64_t> tables) {
  std::vector<double> rows = filling(tag, count);
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows[i] = std::floor((rows[i] + 1) / 2 * static_cast<double>(tables[i % tables.size()]));
  return rows;
}

/// Number of examples in the first piece of n.
std::int64_t first_piece(const Layer& layer, std::int64_t n) {
  return layer.traits().needs_statistics ? (n + 1) / 2 : n;
}

/// View of examples first … first + count − 1 of all n.
Tensor rows(const Tensor& all, std::int64_t n, std::int64_t first, std::int64_t count) {
  if (!all) return {};
  const std::int64_t each = all.count() / n;
  std::vector<std::int64_t> extents(all.shape.extents().begin(), all.shape.extents().end());
  extents[0] = count * (all.shape[0] / n);
  return {static_cast<std::byte*>(all.data) + static_cast<std::size_t>(first * each) * size_of(all.dtype), all.dtype,
          Shape(extents)};
}

}  // namespace

LayerHarness::LayerHarness(const std::string& entry, const std::vector<Shape>& inputs, std::int64_t n,
                           const Options& options)
    : LayerHarness(dynamic_cast<const LayerConfig&>(*parse_layer(entry).config).make_layer(), inputs, n, options) {}

LayerHarness::LayerHarness(std::unique_ptr<Layer> layer, const std::vector<Shape>& inputs, std::int64_t n,
                           const Options& options)
    : layer_(std::move(layer)), dtype_(options.dtype), n_(n) {
  if (options.addition && !layer_->fuse_addition()) throw Error(ExitStatus::internal, "the layer takes no addition");
  if (options.fused != Activation::none && !layer_->fuse(options.fused))
    throw Error(ExitStatus::internal, "the layer takes no activation");
  const Shape output = layer_->output_shape(inputs);
  output_shape_ = output.with_batch(n);
  specs_ = layer_->parameters(inputs);
  layer_->plan({inputs, output, dtype_, options.providers, 3});
  layer_->allocate();
  const std::size_t saved = layer_->saved_bytes(n, output);
  std::size_t workspace = 0;
  for (const std::int64_t count : {n, first_piece(*layer_, n), n - first_piece(*layer_, n)})
    if (count > 0) workspace = std::max(workspace, layer_->prepare(count));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Shape shape = inputs[i].with_batch(n);
    dx_views_.emplace_back();
    if (layer_->traits().vocabulary > 0) {
      x_.emplace_back("tokens", DType::i32, shape);
      copy_from_host(ExecSpace(), filling_tokens(100 + i, shape.count(), layer_->traits().vocabulary).data(),
                     x_[i].get());
    } else {
      x_.push_back(layer_->traits().tables.empty()
                       ? make_filled(dtype_, shape, 100 + i)
                       : make_tensor(dtype_, shape, filling_rows(100 + i, shape.count(), layer_->traits().tables)));
      dx_.emplace_back("dx", dtype_, shape);
    }
    x_views_.push_back(x_[i].get());
  }
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    const DType master = master_dtype(dtype_);
    std::vector<double> values = filling(200 + i, specs_[i].shape.count(), 0.5);
    if (specs_[i].kind == ParameterSpec::Kind::statistic)
      for (double& value : values) value += 1;  // variances are positive
    parameter_.push_back(make_tensor(master, specs_[i].shape, values));
    weight_.emplace_back("weight", dtype_, specs_[i].shape);
    gradient_.emplace_back("gradient", master, specs_[i].shape);
    weight_views_.push_back(weight_[i].get());
    parameter_views_.push_back(parameter_[i].get());
    gradient_views_.push_back(gradient_[i].get());
  }
  y_ = OwnedTensor("y", dtype_, output_shape_);
  dy_ = OwnedTensor("dy", dtype_, output_shape_);
  saved_ = OwnedTensor("saved", DType::u8, {static_cast<std::int64_t>(saved)});
  workspace_ = OwnedTensor("workspace", DType::u8, {static_cast<std::int64_t>(workspace)});
  poison(saved_.get());
}

LayerTensors LayerHarness::tensors(std::int64_t first, std::int64_t count, bool wants_dx) {
  for (std::size_t i = 0; i < x_.size(); ++i) {
    x_views_[i] = rows(x_[i].get(), n_, first, count);
    dx_views_[i] = wants_dx && i < dx_.size() ? rows(dx_[i].get(), n_, first, count) : Tensor{};
  }
  poison(workspace_.get());
  return {.x = x_views_,
          .y = rows(y_.get(), n_, first, count),
          .dx = dx_views_,
          .dy = rows(dy_.get(), n_, first, count),
          .parameters = parameter_views_,
          .gradients = gradient_views_,
          .saved = rows(saved_.get(), n_, first, count),
          .workspace = workspace_.get()};
}

/// Calls `call` with the tensors of each piece and whether it is the first.
template <class Call>
void LayerHarness::for_pieces(bool wants_dx, Call call) {
  const std::int64_t middle = first_piece(*layer_, n_);
  call(tensors(0, middle, wants_dx), true);
  if (middle < n_) call(tensors(middle, n_ - middle, wants_dx), false);
}

PassContext LayerHarness::context(bool training, Store store) const {
  return {.training = training, .seed = 5, .step = 11, .first_example = 2, .gradients = store};
}

std::vector<double> LayerHarness::forward(bool training) {
  poison(y_.get());
  for (std::size_t i = 0; i < parameter_.size(); ++i) convert(ExecSpace(), parameter_views_[i], weight_views_[i]);
  layer_->set_weights(weight_views_);
  const PassContext step = context(training, Store::replace);
  if (layer_->traits().needs_statistics) {
    for_pieces(false, [&](const LayerTensors& given, bool first) {
      layer_->accumulate_statistics(step, {.x = given.x, .parameters = given.parameters, .workspace = given.workspace},
                                    first);
    });
    layer_->finalize_statistics(step, n_);
  }
  for_pieces(false, [&](const LayerTensors& given, bool) {
    layer_->forward(step, {.x = given.x,
                           .y = given.y,
                           .parameters = given.parameters,
                           .saved = given.saved,
                           .workspace = given.workspace});
  });
  ExecSpace().fence();
  return values_of(y_.get());
}

std::vector<std::pair<Tensor, std::string>> LayerHarness::undeclared() const {
  std::vector<std::pair<Tensor, std::string>> found;
  for (std::size_t i = 0; i < inputs(); ++i)
    if (!layer_->traits().backward_reads_inputs[i])
      found.emplace_back(x_[i].get(), fmt::format("backward_reads_inputs[{}]", i));
  if (!layer_->traits().backward_reads_output) found.emplace_back(y_.get(), "backward_reads_output");
  return found;
}

std::string LayerHarness::undeclared_reads(const std::vector<double>& dy) {
  const auto gradients = [&](std::span<const Tensor> hidden) {
    forward();  // an earlier backward pass may have overwritten its tensors
    const Gradients result = backward_without(hidden, dy, Store::replace, true);
    return std::pair(result.x, result.parameters);
  };
  const auto expected = gradients({});
  std::string names;
  for (const auto& [tensor, name] : undeclared())
    if (gradients({&tensor, 1}) != expected) names += (names.empty() ? "" : ", ") + name;
  return names;
}

LayerHarness::Gradients LayerHarness::backward(const std::vector<double>& dy, Store store, bool wants_dx) {
  std::vector<Tensor> hidden;
  for (const auto& [tensor, name] : undeclared()) hidden.push_back(tensor);
  return backward_without(hidden, dy, store, wants_dx);
}

LayerHarness::Gradients LayerHarness::backward_without(std::span<const Tensor> hidden, const std::vector<double>& dy,
                                                       Store store, bool wants_dx) {
  set_values(dy_.get(), dy);
  std::vector<std::vector<double>> before;
  for (const Tensor& tensor : hidden) before.push_back(values_of(tensor));
  for (const Tensor& tensor : hidden) poison(tensor);
  for (const auto& dx : dx_) poison(dx.get());
  if (store == Store::replace)
    for (const auto& gradient : gradient_) poison(gradient.get());

  const PassContext step = context(true, store);
  if (layer_->traits().needs_statistics) {
    for_pieces(wants_dx, [&](const LayerTensors& given, bool first) {
      layer_->accumulate_gradient_statistics(step, given, first);
    });
    layer_->finalize_gradient_statistics(step, tensors(0, n_, wants_dx), n_);
  }
  for_pieces(wants_dx, [&](const LayerTensors& given, bool) { layer_->backward(step, given); });
  ExecSpace().fence();

  for (std::size_t i = 0; i < hidden.size(); ++i) set_values(hidden[i], before[i]);
  Gradients result;
  if (wants_dx)
    for (const auto& dx : dx_) result.x.push_back(values_of(dx.get()));
  for (const auto& gradient : gradient_) result.parameters.push_back(values_of(gradient.get()));
  return result;
}

void golden_start(const ParameterBuffer& parameters, const Graph& graph) {
  std::vector<std::size_t> order(graph.nodes().size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](auto a, auto b) { return graph.nodes()[a].number < graph.nodes()[b].number; });
  std::uint64_t number = 400;
  std::int64_t fan_in = 1;  // biases use that of the weight before them
  for (const std::size_t node : order) {
    const auto& specs = graph.nodes()[node].parameters;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      if (specs[i].kind == ParameterSpec::Kind::statistic || !specs[i].tied_to.empty()) continue;
      const Tensor tensor = parameters.of_layer(node).values[i];
      if (tensor.shape.rank() > 1) fan_in = tensor.count() / tensor.shape[0];
      const bool scale_of_norm = tensor.shape.rank() == 1 && specs[i].name == "weight";
      auto values = filling(number++, tensor.count(), scale_of_norm ? 0.1 : 1 / std::sqrt(static_cast<double>(fan_in)));
      if (scale_of_norm)
        for (double& value : values) value += 1;
      set_values(tensor, values);
    }
  }
}

}  // namespace lockstep::test
