// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/layers/embedding.hpp"

#include "ops/sequence/embedding.hpp"

namespace lockstep {
namespace {

/// PyTorch's initialization of an embedding, N(0, 1), unless the deck gives a standard deviation.
Initializer embedding_start(double initial_std) { return Initializer::normal(initial_std > 0 ? initial_std : 1.0); }

const Shape& sequence_of(std::span<const Shape> inputs, std::string_view type) {
  validate(inputs[0].rank() == 2, ExitStatus::bad_deck,
           "{} reads sequences (positions×features), but its input is {}; put an embedding before it", type,
           to_string(inputs[0]));
  return inputs[0];
}

void pass_gradient(const PassContext& context, const LayerTensors& t) {
  if (t.dx[0] && t.dx[0].data != t.dy.data) copy(context.space, t.dy, t.dx[0]);
}

constexpr std::string_view std_help =
    "standard deviation of the initial weight, N(0, initial_std²) (0: N(0, 1), as in PyTorch)";

}  // namespace

void EmbeddingConfig::describe(Fields& fields) {
  fields.integer("vocabulary", vocabulary, {1, 2147483647}, "number of distinct tokens", Presence::required);
  fields.integer("features", features, {1, 1e9}, "length of the vector of a token", Presence::required);
  fields.number("initial_std", initial_std, {0, 1e6}, std_help);
}

void PositionEmbeddingConfig::describe(Fields& fields) {
  fields.integer("length", length, {1, 1e9}, "number of positions of the longest sequence", Presence::required);
  fields.number("initial_std", initial_std, {0, 1e6}, std_help);
}

std::unique_ptr<Layer> EmbeddingConfig::make_layer() const { return std::make_unique<Embedding>(*this); }
std::unique_ptr<Layer> PositionEmbeddingConfig::make_layer() const {
  return std::make_unique<PositionEmbedding>(*this);
}
std::unique_ptr<Layer> PositionEncodingConfig::make_layer() const { return std::make_unique<PositionEncoding>(); }

Shape Embedding::output_shape(std::span<const Shape> inputs) const {
  validate(inputs[0].rank() == 1, ExitStatus::bad_deck,
           "embedding reads tokens, one per position, but its input is {}; give it sequences of tokens",
           to_string(inputs[0]));
  return {inputs[0][0], config_.features};
}

std::vector<ParameterSpec> Embedding::parameters(std::span<const Shape>) const {
  return {{"weight", {config_.vocabulary, config_.features}, embedding_start(config_.initial_std)}};
}

std::size_t Embedding::prepare(std::int64_t n) {
  return embedding_workspace_bytes(plan_.dtype, n * plan_.output[0], config_.vocabulary, config_.features);
}

void Embedding::forward(const PassContext& context, const LayerTensors& t) {
  embedding_forward(context.space, t.x[0], t.parameters[0], t.y);
}

void Embedding::backward(const PassContext& context, const LayerTensors& t) {
  if (t.gradients[0]) embedding_backward(context.space, t.x[0], t.dy, t.gradients[0], context.gradients, t.workspace);
}

Shape PositionEmbedding::output_shape(std::span<const Shape> inputs) const {
  const Shape& input = sequence_of(inputs, type());
  validate(
      input[0] <= config_.length, ExitStatus::bad_deck,
      "a sequence of {} positions is longer than the {} of position_embedding (its weight has one row per position); "
      "set its length to {} or more, or use shorter sequences",
      input[0], config_.length, input[0]);
  return input;
}

std::vector<ParameterSpec> PositionEmbedding::parameters(std::span<const Shape> inputs) const {
  return {{"weight", {config_.length, inputs[0][1]}, embedding_start(config_.initial_std)}};
}

void PositionEmbedding::forward(const PassContext& context, const LayerTensors& t) {
  position_forward(context.space, t.x[0], t.parameters[0], t.y);
}

void PositionEmbedding::backward(const PassContext& context, const LayerTensors& t) {
  if (t.gradients[0]) position_backward(context.space, t.dy, t.gradients[0], context.gradients);
  pass_gradient(context, t);
}

Shape PositionEncoding::output_shape(std::span<const Shape> inputs) const { return sequence_of(inputs, type()); }

void PositionEncoding::allocate() {
  waves_ = OwnedTensor("lockstep::position_encoding::waves", plan_.master(), plan_.output);
  position_waves(ExecSpace(), waves_.get());
  ExecSpace().fence("lockstep::position_encoding::waves");
}

void PositionEncoding::forward(const PassContext& context, const LayerTensors& t) {
  position_forward(context.space, t.x[0], waves_.get(), t.y);
}

void PositionEncoding::backward(const PassContext& context, const LayerTensors& t) { pass_gradient(context, t); }

}  // namespace lockstep
