// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support/layer_harness.hpp"

#include <cmath>

#include "nn/model_config.hpp"
#include "ops/convert.hpp"
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

LayerHarness::LayerHarness(const std::string& entry, const std::vector<Shape>& inputs, std::int64_t n, const Options& options)
    : layer_(dynamic_cast<const LayerConfig&>(*parse_layer(entry).config).make_layer()), dtype_(options.dtype) {
  if (options.fused != Activation::none && !layer_->fuse(options.fused))
    throw Error(ExitStatus::internal, "the layer takes no activation");
  const Shape output = layer_->output_shape(inputs);
  output_shape_ = output.with_batch(n);
  specs_ = layer_->parameters(inputs);
  layer_->plan({inputs, output, dtype_, options.providers, 3});
  const std::size_t workspace = layer_->prepare(n), saved = layer_->saved_bytes(n, output);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Shape shape = inputs[i].with_batch(n);
    dx_views_.emplace_back();
    if (layer_->vocabulary() > 0) {
      x_.emplace_back("tokens", DType::i32, shape);
      copy_from_host(ExecSpace(), filling_tokens(100 + i, shape.count(), layer_->vocabulary()).data(), x_[i].get());
    } else {
      x_.push_back(make_filled(dtype_, shape, 100 + i));
      dx_.emplace_back("dx", dtype_, shape);
    }
    x_views_.push_back(x_[i].get());
  }
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    const DType master = master_dtype(dtype_);
    parameter_.push_back(make_filled(master, specs_[i].shape, 200 + i, 0.5));
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

LayerTensors LayerHarness::tensors(bool wants_dx) {
  for (std::size_t i = 0; i < dx_.size(); ++i) dx_views_[i] = wants_dx ? dx_[i].get() : Tensor{};
  poison(workspace_.get());
  return {.x = x_views_, .y = y_.get(), .dx = dx_views_, .dy = dy_.get(), .parameters = parameter_views_,
          .gradients = gradient_views_, .saved = saved_.get(), .workspace = workspace_.get()};
}

StepContext LayerHarness::context(bool training, Store store) const {
  return {.training = training, .seed = 5, .step = 11, .first_example = 2, .gradients = store};
}

std::vector<double> LayerHarness::forward(bool training) {
  poison(y_.get());
  LayerTensors given = tensors(true);
  given.dx = {};
  given.dy = {};
  given.gradients = {};
  for (std::size_t i = 0; i < parameter_.size(); ++i) convert(ExecSpace(), parameter_views_[i], weight_views_[i]);
  layer_->set_weights(weight_views_);
  layer_->forward(context(training, Store::replace), given);
  ExecSpace().fence();
  return values_of(y_.get());
}

LayerHarness::Gradients LayerHarness::backward(const std::vector<double>& dy, Store store, bool wants_dx) {
  set_values(dy_.get(), dy);
  std::vector<std::vector<double>> x_before;
  const std::vector<double> y_before = values_of(y_.get());
  for (std::size_t i = 0; i < inputs(); ++i) x_before.push_back(values_of(x_[i].get()));
  for (std::size_t i = 0; i < inputs(); ++i)
    if (!layer_->backward_reads_input(i)) poison(x_[i].get());
  if (!layer_->backward_reads_output()) poison(y_.get());
  for (const auto& dx : dx_) poison(dx.get());
  if (store == Store::replace)
    for (const auto& gradient : gradient_) poison(gradient.get());

  layer_->backward(context(true, store), tensors(wants_dx));
  ExecSpace().fence();

  set_values(y_.get(), y_before);
  for (std::size_t i = 0; i < inputs(); ++i) set_values(x_[i].get(), x_before[i]);
  Gradients result;
  if (wants_dx)
    for (const auto& dx : dx_) result.x.push_back(values_of(dx.get()));
  for (const auto& gradient : gradient_) result.parameters.push_back(values_of(gradient.get()));
  return result;
}

}  // namespace lockstep::test
