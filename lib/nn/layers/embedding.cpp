// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/layers/embedding.hpp"

#include <cmath>
#include <numeric>

#include "core/memory_plan.hpp"
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

constexpr std::int64_t most_rows = 2147483647;       // limit of all tables together: row numbers are i32
constexpr std::int64_t most_rows_of_one = 16777216;  // limit of one table: f32 represents smaller integers exactly

std::int64_t sum_of(const std::vector<std::int64_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0});
}

/// Bytes of the i32 row numbers, which lie at the start of the workspace.
std::size_t bytes_of_rows(std::int64_t rows) { return align_up(static_cast<std::size_t>(rows) * sizeof(std::int32_t)); }

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

void EmbeddingTablesConfig::describe(Fields& fields) {
  fields.integers("vocabularies", vocabularies, {1, most_rows_of_one},
                  "number of rows of each table; the input has one row number, from 0, for each table");
  fields.check(!vocabularies.empty(), "vocabularies", "the list is empty; give the number of rows of each table");
  fields.check(sum_of(vocabularies) <= most_rows, "vocabularies",
               fmt::format("the tables have {} rows in total (at most {} are allowed); use fewer", sum_of(vocabularies),
                           most_rows));
  fields.integer("features", features, {1, 1e9}, "length of a row of a table", Presence::required);
}

std::unique_ptr<Layer> EmbeddingTablesConfig::make_layer() const { return std::make_unique<EmbeddingTables>(*this); }

Shape EmbeddingTables::output_shape(std::span<const Shape> inputs) const {
  const auto tables = static_cast<std::int64_t>(config_.vocabularies.size());
  validate(inputs[0] == Shape{tables}, ExitStatus::bad_deck,
           "embedding_tables has {} tables, but its input is {} (one row number per table is needed); slice the row "
           "numbers out of the example, or give as many vocabularies",
           tables, to_string(inputs[0]));
  return {tables, config_.features};
}

std::vector<ParameterSpec> EmbeddingTables::parameters(std::span<const Shape>) const {
  std::vector<Initializer::Part> bounds;
  for (const std::int64_t rows : config_.vocabularies)
    bounds.push_back({rows * config_.features, 1 / std::sqrt(static_cast<double>(rows))});
  return {{"weight", {sum_of(config_.vocabularies), config_.features}, Initializer::uniform(std::move(bounds))}};
}

void EmbeddingTables::allocate() {
  std::vector<std::int64_t> first{0};
  for (const std::int64_t rows : config_.vocabularies) first.push_back(first.back() + rows);
  first_ = OwnedTensor("lockstep::embedding_tables", DType::i64, {static_cast<std::int64_t>(first.size())});
  copy_from_host(ExecSpace(), first.data(), first_.get());
}

std::size_t EmbeddingTables::prepare(std::int64_t n) {
  const std::int64_t rows = n * std::ssize(config_.vocabularies);
  return bytes_of_rows(rows) +
         embedding_workspace_bytes(plan_.dtype, rows, sum_of(config_.vocabularies), config_.features);
}

Tensor EmbeddingTables::rows_of(const PassContext& context, const LayerTensors& t) const {
  const Tensor rows{t.workspace.data, DType::i32, t.x[0].shape};
  find_table_rows(context.space, t.x[0], first_.get(), rows);
  return rows;
}

void EmbeddingTables::forward(const PassContext& context, const LayerTensors& t) {
  embedding_forward(context.space, rows_of(context, t), t.parameters[0], t.y);
}

void EmbeddingTables::backward(const PassContext& context, const LayerTensors& t) {
  if (t.gradients[0]) {
    const Tensor rows = rows_of(context, t);
    const std::size_t after = bytes_of_rows(rows.count());
    const Tensor rest{static_cast<std::byte*>(t.workspace.data) + after,
                      DType::u8,
                      {t.workspace.count() - static_cast<std::int64_t>(after)}};
    embedding_backward(context.space, rows, t.dy, t.gradients[0], context.gradients, rest);
  }
  if (t.dx[0]) fill_zero(context.space, t.dx[0]);  // the output is not differentiable in a row number
}

std::unique_ptr<Layer> DotInteractionConfig::make_layer() const { return std::make_unique<DotInteraction>(); }

Shape DotInteraction::output_shape(std::span<const Shape> inputs) const {
  validate(inputs.size() == 2, ExitStatus::bad_deck,
           "dot_interaction has {} input (it needs a vector, and several others); name them: from: [bottom, tables]",
           inputs.size());
  const Shape &first = inputs[0], &others = inputs[1];
  validate(
      first.rank() == 1 && others.rank() == 2 && others[1] == first[0], ExitStatus::bad_deck,
      "dot_interaction cannot read {} and {} (a vector of d values, and one of shape k×d, are needed); give it two "
      "that match",
      to_string(first), to_string(others));
  return {first[0] + others[0] * (others[0] + 1) / 2};
}

void DotInteraction::forward(const PassContext& context, const LayerTensors& t) {
  dot_interaction_forward(context.space, t.x[0], t.x[1], t.y);
}

void DotInteraction::backward(const PassContext& context, const LayerTensors& t) {
  if (t.dx[0] || t.dx[1]) dot_interaction_backward(context.space, t.x[0], t.x[1], t.dy, t.dx[0], t.dx[1]);
}

}  // namespace lockstep
