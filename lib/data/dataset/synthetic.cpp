// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/dataset/synthetic.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/error.hpp"
#include "core/random.hpp"
#include "data/dataset/glyphs.hpp"
#include "data/dataset/token_dataset.hpp"

namespace lockstep {
namespace {

/// Nearly normal number of mean 0 and variance 1: the sum of twelve uniform numbers, from element `first` on, minus 6
/// (Irwin and Hall). It is used because sums are the same on every machine.
double nearly_normal(const RandomStream& random, std::uint64_t first) {
  double sum = -6;
  for (std::uint64_t k = 0; k < 12; ++k) sum += random.uniform(first + k);
  return sum;
}

constexpr std::size_t hidden = 4;                     // size of a row's vector v
constexpr std::uint64_t numbers_of_row = hidden + 1;  // the row's effect e, then its vector v

/// A uniform random number of mean 0 and this variance.
double spread(const RandomStream& random, std::uint64_t i, double variance) {
  return std::sqrt(3 * variance) * (2 * random.uniform(i) - 1);
}

/// The use of an example's random numbers; no two uses have any in common.
enum class Part : std::uint64_t { inputs = 0, target = 1, pool = 2, law = 3 };

RandomStream stream_of(std::uint64_t seed, Split split, Part part, std::int64_t example) {
  const std::uint64_t index = (static_cast<std::uint64_t>(split) << 52) | (static_cast<std::uint64_t>(part) << 48) |
                              static_cast<std::uint64_t>(example);
  return {seed, RandomPurpose::dataset, index};
}

std::string describe_split(const char* kind, Split split) {
  return fmt::format("synthetic {}, {}", kind, name_of(split));
}

/// Examples that are computed when they are read, so that any number of them takes no memory and no time in advance.
class ComputedDataset : public Dataset {
 public:
  std::int64_t size() const override { return size_; }
  const ExampleFormat& format() const override { return format_; }
  std::string description() const override { return description_; }
  bool is_computed() const override { return true; }
  void read(std::span<const std::int64_t> examples, void* inputs, void* targets) const override {
    auto* input = static_cast<std::byte*>(inputs);
    auto* target = static_cast<std::byte*>(targets);
    for (const auto example : examples) {
      compute(example, input, target);
      input += format_.input_bytes();
      target += format_.target_bytes();
    }
  }

 protected:
  ComputedDataset(const char* kind, Split split, std::uint64_t seed, std::int64_t size, const ExampleFormat& format)
      : description_(describe_split(kind, split)), split_(split), seed_(seed), size_(size), format_(format) {}

  RandomStream stream(Part part, std::int64_t example) const { return stream_of(seed_, split_, part, example); }

 private:
  virtual void compute(std::int64_t example, std::byte* input, std::byte* target) const = 0;

  std::string description_;
  Split split_;
  std::uint64_t seed_;
  std::int64_t size_;
  ExampleFormat format_;
};

/// Examples that belong to classes, which are all equally likely.
class ComputedClasses : public ComputedDataset {
 public:
  void check_classes(std::int64_t classes, std::int64_t /*ignored*/) const override {
    for (std::int64_t example = 0; classes < classes_ && example < size(); ++example)
      validate(*class_of(example) < classes, ExitStatus::bad_data,
               "{}: example {} is of class {} (the model has {} classes, 0 to {}); use fewer classes, or give the "
               "model's last layer more features",
               description(), example, *class_of(example), classes, classes - 1);
  }

 protected:
  ComputedClasses(const char* kind, Split split, std::uint64_t seed, std::int64_t size, const Shape& shape, DType type,
                  std::int64_t classes)
      : ComputedDataset(kind, split, seed, size, {shape, type, {}, DType::i32}), classes_(classes) {}

  std::optional<std::int32_t> class_of(std::int64_t example) const override {
    return static_cast<std::int32_t>(stream(Part::target, example).below(static_cast<std::uint64_t>(classes_), 0));
  }

 private:
  void compute(std::int64_t example, std::byte* input, std::byte* target) const final {
    const std::int32_t number = *class_of(example);
    std::memcpy(target, &number, sizeof number);
    compute_input(example, number, input);
  }
  virtual void compute_input(std::int64_t example, std::int32_t number, std::byte* input) const = 0;

  std::int64_t classes_;
};

/// Keeps the glyphs that it has drawn, if the dataset is not too large for that.
class GlyphDataset final : public ComputedClasses {
 public:
  GlyphDataset(Split split, std::uint64_t seed, double noise, std::int64_t size)
      : ComputedClasses("glyphs", split, seed, size, {glyph_size, glyph_size, 1}, DType::u8, glyph_classes),
        noise_(noise) {
    if (static_cast<std::size_t>(size) > most_kept / bytes_each) return;
    drawn_.resize(static_cast<std::size_t>(size));
    pixels_.resize(drawn_.size() * bytes_each);
  }

 private:
  static constexpr std::size_t bytes_each = static_cast<std::size_t>(glyph_size) * glyph_size;
  static constexpr std::size_t most_kept = std::size_t{256} << 20;

  void compute_input(std::int64_t example, std::int32_t digit, std::byte* input) const override {
    const auto draw = [&](std::uint8_t* pixels) { draw_glyph(stream(Part::inputs, example), digit, noise_, pixels); };
    if (drawn_.empty()) return draw(reinterpret_cast<std::uint8_t*>(input));
    const std::lock_guard lock(mutex_);
    const auto i = static_cast<std::size_t>(example);
    std::uint8_t* pixels = pixels_.data() + i * bytes_each;
    if (!drawn_[i]) draw(pixels);
    drawn_[i] = true;
    std::memcpy(input, pixels, bytes_each);
  }

  double noise_;
  mutable std::mutex mutex_;  // guards drawn_ and pixels_
  mutable std::vector<bool> drawn_;
  mutable std::vector<std::uint8_t> pixels_;
};

class PagesDataset final : public ComputedDataset {
 public:
  PagesDataset(Split split, std::uint64_t seed, double noise, std::int64_t size)
      : ComputedDataset("pages", split, seed, size,
                        {{page_size, page_size, 1}, DType::u8, {page_size, page_size}, DType::i32}),
        noise_(noise) {}
  void check_classes(std::int64_t classes, std::int64_t /*ignored*/) const override {
    validate(classes >= page_classes, ExitStatus::bad_data,
             "{}: its pixels are of {} classes (the model has {}); give the model's last layer more channels",
             description(), page_classes, classes);
  }

 private:
  void compute(std::int64_t example, std::byte* input, std::byte* target) const override {
    const auto cell = [&](std::int64_t i) { return stream(Part::inputs, page_cells * example + i); };
    const std::array<RandomStream, page_cells> cells{cell(0), cell(1), cell(2), cell(3)};
    draw_page(cells, stream(Part::pool, example), noise_, reinterpret_cast<std::uint8_t*>(input),
              reinterpret_cast<std::int32_t*>(target));
  }

  double noise_;
};

/// Example i is a range of a pool of random words that begins at a random place: as good as random for timing, and as
/// cheap to make as to copy.
class RandomDataset final : public ComputedClasses {
 public:
  RandomDataset(Split split, std::uint64_t seed, std::int64_t size, const Shape& shape, DType type,
                std::int64_t classes)
      : ComputedClasses("random", split, seed, size, shape, type, classes),
        pool_(static_cast<std::size_t>(shape.count()) + places) {
    const RandomStream random = stream(Part::pool, 0);
    for (std::size_t i = 0; i < pool_.size(); i += 4) {
      const RandomBits bits = random.bits(i);
      for (std::size_t k = 0; k < 4 && i + k < pool_.size(); ++k) pool_[i + k] = bits.word[k];
    }
    // 24 random bits: exact in f32, in [0, 1).
    if (type == DType::f32)
      for (auto& word : pool_) {
        const float value = static_cast<float>(word >> 8) * (1.0F / 16777216.0F);
        std::memcpy(&word, &value, sizeof value);
      }
  }

 private:
  static constexpr std::size_t places = std::size_t{1} << 18;

  void compute_input(std::int64_t example, std::int32_t, std::byte* input) const override {
    std::memcpy(input, pool_.data() + stream(Part::inputs, example).below(places, 0), format().input_bytes());
  }

  std::vector<std::uint32_t> pool_;
};

/// Examples whose targets are values.
class ComputedValues : public ComputedDataset {
 public:
  using ComputedDataset::ComputedDataset;
  void check_classes(std::int64_t, std::int64_t) const override {
    throw Error(ExitStatus::bad_data,
                fmt::format("{}: has targets of {} numbers, not classes; choose a loss for values, such as mse",
                            description(), to_string(format().target_shape)));
  }
};

class LinearDataset final : public ComputedValues {
 public:
  LinearDataset(Split split, std::uint64_t seed, std::int64_t size, std::int64_t features, std::int64_t outputs,
                double noise)
      : ComputedValues("linear", split, seed, size, {{features}, DType::f32, {outputs}, DType::f32}), noise_(noise) {}

 private:
  void compute(std::int64_t example, std::byte* input, std::byte* target) const override {
    const RandomStream x = stream(Part::inputs, example), e = stream(Part::target, example);
    const std::int64_t features = format().input_shape[0], outputs = format().target_shape[0];
    auto* row = reinterpret_cast<float*>(input);
    auto* values = reinterpret_cast<float*>(target);
    for (std::int64_t j = 0; j < features; ++j)
      row[j] = static_cast<float>(2 * x.uniform(static_cast<std::uint64_t>(j)) - 1);
    for (std::int64_t k = 0; k < outputs; ++k) {
      double y = noise_ > 0 ? noise_ * nearly_normal(e, 12 * static_cast<std::uint64_t>(k)) : 0;
      for (std::int64_t j = 0; j < features; ++j) y += linear_weight(k, j) * static_cast<double>(row[j]);
      values[k] = static_cast<float>(y);
    }
  }

  double noise_;
};

/// The target is 1 for a click, else 0.
class ClicksDataset final : public ComputedValues {
 public:
  ClicksDataset(Split split, std::uint64_t seed, std::int64_t size, std::int64_t numbers, ClickWorld world)
      : ComputedValues("clicks", split, seed, size, {{numbers}, DType::f32, {1}, DType::f32}),
        world_(std::move(world)) {}

 private:
  void compute(std::int64_t example, std::byte* input, std::byte* target) const override {
    auto* const values = reinterpret_cast<float*>(input);
    world_.draw(stream(Part::inputs, example), values);
    *reinterpret_cast<float*>(target) = stream(Part::target, example).uniform(0) < world_.probability(values) ? 1.0F
                                                                                                              : 0.0F;
  }

  ClickWorld world_;
};

/// Random tokens, computed when they are read.
class RandomTokens final : public TokenDataset {
 public:
  RandomTokens(Split split, std::uint64_t seed, std::int64_t examples, std::int64_t sequence_length,
               std::int64_t vocabulary)
      : TokenDataset(describe_split("random", split), examples * sequence_length + 1, sequence_length, vocabulary - 1),
        random_(stream_of(seed, split, Part::inputs, 0)),
        vocabulary_(vocabulary) {}

 private:
  bool is_computed() const override { return true; }
  void read_tokens(std::int64_t first, std::int64_t count, std::int32_t* tokens) const override {
    for (std::int64_t i = 0; i < count; ++i)
      tokens[i] = static_cast<std::int32_t>(
          random_.below(static_cast<std::uint64_t>(vocabulary_), static_cast<std::uint64_t>(first + i)));
  }

  RandomStream random_;
  std::int64_t vocabulary_;
};

}  // namespace

ClickWorld::ClickWorld(std::int64_t dense, const std::vector<std::int64_t>& vocabularies, const RandomStream& law)
    : law_(law) {
  std::uint64_t first = 0;
  for (; first < static_cast<std::uint64_t>(dense); ++first)
    dense_.push_back(spread(law_, first, 1 / static_cast<double>(dense)));
  for (const std::int64_t vocabulary : vocabularies) {
    first_.push_back(first);
    first += numbers_of_row * static_cast<std::uint64_t>(vocabulary);
    double sum = 0;
    auto& until = until_.emplace_back();
    for (std::int64_t r = 0; r < vocabulary; ++r) until.push_back(sum += 1 / static_cast<double>(r + 1));
  }
}

void ClickWorld::draw(const RandomStream& random, float* example) const {
  std::uint64_t next = 0;
  for (std::size_t j = 0; j < dense_.size(); ++j, next += 12)
    *example++ = static_cast<float>(nearly_normal(random, next));
  for (const auto& until : until_) {
    const auto row = std::ranges::upper_bound(until, random.uniform(next++) * until.back());
    *example++ = static_cast<float>(std::min(row, until.end() - 1) - until.begin());
  }
}

double ClickWorld::probability(const float* example) const {
  const auto tables = static_cast<double>(first_.size());
  const double pairs = std::max(tables * (tables - 1) / 2, 1.0);
  double logit = -1, squares = 0;
  for (const double w : dense_) logit += w * static_cast<double>(*example++);
  std::array<double, hidden> sum{};
  for (const std::uint64_t first : first_) {
    const std::uint64_t row = first + numbers_of_row * static_cast<std::uint64_t>(*example++);
    logit += spread(law_, row, 1 / tables);
    for (std::size_t h = 0; h < hidden; ++h) {
      const double v = spread(law_, row + 1 + h, 1 / std::sqrt(pairs * hidden));
      sum[h] += v;
      squares += v * v;
    }
  }
  for (const double s : sum) logit += s * s / 2;  // Σ vⱼ·vₖ over pairs is half of |Σ v|² − Σ |v|²
  return 1 / (1 + std::exp(squares / 2 - logit));
}

const char* name_of(Split split) { return split == Split::train ? "train" : "validation"; }

std::unique_ptr<Dataset> SyntheticConfig::make(Split split, std::uint64_t seed) const {
  return size(split) > 0 ? generate(split, seed) : nullptr;
}

std::unique_ptr<Dataset> GlyphsConfig::generate(Split split, std::uint64_t seed) const {
  return std::make_unique<GlyphDataset>(split, seed, noise, size(split));
}

std::unique_ptr<Dataset> PagesConfig::generate(Split split, std::uint64_t seed) const {
  return std::make_unique<PagesDataset>(split, seed, noise, size(split));
}

double linear_weight(std::int64_t output, std::int64_t feature) {
  return static_cast<double>((3 * output + feature) % 9 - 4) / 4;
}

std::unique_ptr<Dataset> LinearDataConfig::generate(Split split, std::uint64_t seed) const {
  return std::make_unique<LinearDataset>(split, seed, size(split), features, outputs, noise);
}

ClickWorld ClicksConfig::world(std::uint64_t seed) const {
  return {dense, vocabularies, stream_of(seed, Split::train, Part::law, 0)};
}

std::unique_ptr<Dataset> ClicksConfig::generate(Split split, std::uint64_t seed) const {
  const std::int64_t numbers = dense + static_cast<std::int64_t>(vocabularies.size());
  return std::make_unique<ClicksDataset>(split, seed, size(split), numbers, world(seed));
}

std::unique_ptr<Dataset> RandomConfig::generate(Split split, std::uint64_t seed) const {
  if (vocabulary) return std::make_unique<RandomTokens>(split, seed, size(split), *sequence_length, *vocabulary);
  return std::make_unique<RandomDataset>(split, seed, size(split), Shape(std::span<const std::int64_t>(shape)),
                                         type == Type::u8 ? DType::u8 : DType::f32, classes.value_or(10));
}

}  // namespace lockstep
