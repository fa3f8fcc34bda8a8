// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/layers/embedding_tables.hpp"

#include <cmath>
#include <numeric>

#include "core/memory_plan.hpp"
#include "ops/sequence/embedding.hpp"

namespace lockstep {
namespace {

constexpr std::int64_t most_rows = 2147483647;       // limit of all tables together: row numbers are i32
constexpr std::int64_t most_rows_of_one = 16777216;  // limit of one table: f32 represents smaller integers exactly

std::int64_t sum_of(const std::vector<std::int64_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0});
}

/// Bytes of the i32 row numbers, which lie at the start of the workspace.
std::size_t bytes_of_rows(std::int64_t rows) { return align_up(static_cast<std::size_t>(rows) * sizeof(std::int32_t)); }

}  // namespace

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

}  // namespace lockstep
