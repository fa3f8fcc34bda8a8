// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "config/fields.hpp"
#include "core/random.hpp"
#include "data/dataset/dataset.hpp"

namespace lockstep {

enum class Split { train, validation };
const char* name_of(Split split);

/// data.synthetic: examples that are computed when they are read. Each depends only on the seed, its split and its
/// number, and is the same on every machine.
struct SyntheticConfig : Config {
  std::int64_t train = 8192;
  std::int64_t validation = 1024;

  void describe(Fields& fields) override;
  std::int64_t size(Split split) const { return split == Split::train ? train : validation; }
  /// Null for a split without examples.
  std::unique_ptr<Dataset> make(Split split, std::uint64_t seed) const;

 private:
  virtual std::unique_ptr<Dataset> generate(Split split, std::uint64_t seed) const = 0;
};

/// Drawn digits: images [28, 28, 1] u8 of ten classes.
struct GlyphsConfig : SyntheticConfig {
  double noise = 0.2;

  void describe(Fields& fields) override;

 private:
  std::unique_ptr<Dataset> generate(Split split, std::uint64_t seed) const override;
};

/// Pages with up to four drawn digits: images [64, 64, 1] u8, and for each pixel one of eleven classes (draw_page).
struct PagesConfig : SyntheticConfig {
  double noise = 0.2;

  void describe(Fields& fields) override;

 private:
  std::unique_ptr<Dataset> generate(Split split, std::uint64_t seed) const override;
};

/// y_k = Σ_j w_kj · x_j + noise, w_kj = linear_weight(k, j), x_j uniform in [−1, 1).
struct LinearDataConfig : SyntheticConfig {
  std::int64_t features = 32;
  std::int64_t outputs = 1;
  double noise = 0;

  void describe(Fields& fields) override;

 private:
  std::unique_ptr<Dataset> generate(Split split, std::uint64_t seed) const override;
};

/// ((3·output + feature) mod 9 − 4) / 4: −1, −0.75, …, 1, repeated.
double linear_weight(std::int64_t output, std::int64_t feature);

/// A known law of who clicks on what. An example is `dense` values x, nearly N(0, 1), and a row number for each of some
/// tables, where row r is drawn with a probability proportional to 1/(r + 1) (Zipf's law). The logit of a click is −1 +
/// w·x + Σ eₖ + Σ vⱼ·vₖ over the tables and their pairs j < k, where eₖ and vₖ (four numbers) belong to the row of
/// table k. All of w, e and v are uniform around 0, scaled such that each of the three sums has a standard deviation of
/// about 1 over evenly drawn rows.
class ClickWorld {
 public:
  /// `vocabularies`: number of rows of each table. `law`: gives w, e and v.
  ClickWorld(std::int64_t dense, const std::vector<std::int64_t>& vocabularies, const RandomStream& law);

  /// Draws an example's dense values and row numbers from `random`.
  void draw(const RandomStream& random, float* example) const;
  /// Probability of a click on the example: the best that a network can predict.
  double probability(const float* example) const;

 private:
  std::vector<double> dense_;               // w
  std::vector<std::vector<double>> until_;  // of each table: Σ 1/(r + 1) over the rows up to each row
  std::vector<std::uint64_t> first_;        // of each table: the first number in law_ of its rows
  RandomStream law_;
};

/// Vectors of dense values, followed by a row number for each of some tables. Targets {1}: 1 for a click, else 0. See
/// ClickWorld.
struct ClicksConfig : SyntheticConfig {
  std::int64_t dense = 4;
  std::vector<std::int64_t> vocabularies{100, 50, 20, 10};

  void describe(Fields& fields) override;
  /// The law that gives the probabilities of the targets.
  ClickWorld world(std::uint64_t seed) const;

 private:
  std::unique_ptr<Dataset> generate(Split split, std::uint64_t seed) const override;
};

/// Random numbers of any shape or, if `vocabulary` is given, random tokens; for benchmarks.
struct RandomConfig : SyntheticConfig {
  enum class Type { f32, u8 };

  std::vector<std::int64_t> shape;
  std::optional<std::int64_t> classes;  ///< number of classes, for inputs that are no tokens; none: 10
  Type type = Type::f32;
  std::optional<std::int64_t> vocabulary, sequence_length;  ///< for tokens

  void describe(Fields& fields) override;

 private:
  std::unique_ptr<Dataset> generate(Split split, std::uint64_t seed) const override;
};

/// The kinds of synthetic data, for Fields::one_of.
std::span<const Alternative> synthetic_kinds();

}  // namespace lockstep
