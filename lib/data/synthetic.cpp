// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/synthetic.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/error.hpp"
#include "core/random.hpp"
#include "data/glyphs.hpp"
#include "data/memory_dataset.hpp"
#include "data/token_dataset.hpp"

namespace lockstep {
namespace {

/// What the numbers of an example are for, so that no two uses share any.
enum class Part : std::uint64_t { inputs = 0, target = 1, pool = 2 };

RandomStream stream_of(std::uint64_t seed, Split split, Part part, std::int64_t example) {
  const std::uint64_t index = (static_cast<std::uint64_t>(split) << 52) | (static_cast<std::uint64_t>(part) << 48) |
                              static_cast<std::uint64_t>(example);
  return {seed, RandomPurpose::dataset, index};
}

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::vector<std::int32_t> random_classes(std::int64_t size, std::int64_t classes, Split split, std::uint64_t seed) {
  std::vector<std::int32_t> targets(static_cast<std::size_t>(size));
  for (std::int64_t i = 0; i < size; ++i)
    targets[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(
        stream_of(seed, split, Part::target, i).below(static_cast<std::uint64_t>(classes), 0));
  return targets;
}

std::string describe_split(const char* kind, Split split) {
  return fmt::format("synthetic {}, {}", kind, name_of(split));
}

class GlyphDataset final : public DatasetWithTargets {
 public:
  GlyphDataset(Split split, std::uint64_t seed, double noise, std::vector<std::int32_t> digits)
      : DatasetWithTargets(describe_split("glyphs", split), static_cast<std::int64_t>(digits.size()),
                           {{glyph_size, glyph_size, 1}, DType::u8, {}, DType::i32}, bytes_of(digits)),
        split_(split),
        seed_(seed),
        noise_(noise),
        digits_(std::move(digits)),
        drawn_(digits_.size()),
        pixels_(digits_.size() * bytes_each) {}

 private:
  static constexpr std::size_t bytes_each = static_cast<std::size_t>(glyph_size) * glyph_size;

  /// Draws on first use: a rank draws only its share, behind the step, and starts at once.
  void read_inputs(std::span<const std::int64_t> examples, std::byte* inputs) const override {
    const std::lock_guard lock(mutex_);
    for (const auto example : examples) {
      const auto i = static_cast<std::size_t>(example);
      std::uint8_t* pixels = pixels_.data() + i * bytes_each;
      if (!drawn_[i]) draw_glyph(stream_of(seed_, split_, Part::inputs, example), digits_[i], noise_, pixels);
      drawn_[i] = true;
      std::memcpy(inputs, pixels, bytes_each);
      inputs += bytes_each;
    }
  }

  Split split_;
  std::uint64_t seed_;
  double noise_;
  std::vector<std::int32_t> digits_;
  mutable std::mutex mutex_;  // guards what follows
  mutable std::vector<bool> drawn_;
  mutable std::vector<std::uint8_t> pixels_;
};

/// Example i is a piece of a pool of random bytes that begins at a place of its own: as good as
/// random for timing, and as cheap to make as to copy.
class RandomDataset final : public DatasetWithTargets {
 public:
  RandomDataset(Split split, std::uint64_t seed, const ExampleFormat& format, std::vector<std::int32_t> classes)
      : DatasetWithTargets(describe_split("random", split), static_cast<std::int64_t>(classes.size()), format,
                           bytes_of(classes)),
        split_(split),
        seed_(seed),
        pool_(static_cast<std::size_t>(format.input_shape.count()) + places) {
    const RandomStream random = stream_of(seed, split, Part::pool, 0);
    for (std::size_t i = 0; i < pool_.size(); i += 4) {
      const RandomBits bits = random.bits(i);
      for (std::size_t k = 0; k < 4 && i + k < pool_.size(); ++k) pool_[i + k] = bits.word[k];
    }
    // 24 random bits: exact in f32, in [0, 1).
    if (format.input_dtype == DType::f32)
      for (auto& word : pool_) {
        const float value = static_cast<float>(word >> 8) * (1.0F / 16777216.0F);
        std::memcpy(&word, &value, sizeof value);
      }
  }

 private:
  static constexpr std::size_t places = std::size_t{1} << 18;

  void read_inputs(std::span<const std::int64_t> examples, std::byte* inputs) const override {
    const std::size_t bytes = format().input_bytes();
    for (const auto example : examples) {
      const auto place = stream_of(seed_, split_, Part::inputs, example).below(places, 0);
      std::memcpy(inputs, pool_.data() + place, bytes);
      inputs += bytes;
    }
  }

  Split split_;
  std::uint64_t seed_;
  std::vector<std::uint32_t> pool_;
};

/// Tokens are computed as they are read.
class RandomTokens final : public TokenDataset {
 public:
  RandomTokens(Split split, std::uint64_t seed, std::int64_t examples, std::int64_t sequence_length,
               std::int64_t vocabulary)
      : TokenDataset(describe_split("random", split), examples * sequence_length + 1, sequence_length),
        random_(stream_of(seed, split, Part::inputs, 0)),
        vocabulary_(vocabulary) {}

 private:
  void read_tokens(std::int64_t first, std::int64_t count, std::int64_t* tokens) const override {
    for (std::int64_t i = 0; i < count; ++i)
      tokens[i] = static_cast<std::int64_t>(
          random_.below(static_cast<std::uint64_t>(vocabulary_), static_cast<std::uint64_t>(first + i)));
  }
  bool all_below(std::int64_t limit) const override { return limit >= vocabulary_; }

  RandomStream random_;
  std::int64_t vocabulary_;
};

/// Nearly normal, of variance 1: twelve uniform numbers (Irwin and Hall), as only sums are exact
/// everywhere.
double nearly_normal(const RandomStream& random, std::uint64_t first) {
  double sum = -6;
  for (std::uint64_t k = 0; k < 12; ++k) sum += random.uniform(first + k);
  return sum;
}

}  // namespace

const char* name_of(Split split) { return split == Split::train ? "train" : "validation"; }

std::unique_ptr<Dataset> SyntheticConfig::make(Split split, std::uint64_t seed) const {
  return size(split) > 0 ? generate(split, seed) : nullptr;
}

std::unique_ptr<Dataset> GlyphsConfig::generate(Split split, std::uint64_t seed) const {
  return std::make_unique<GlyphDataset>(split, seed, noise, random_classes(size(split), glyph_classes, split, seed));
}

double linear_weight(std::int64_t output, std::int64_t feature) {
  return static_cast<double>((3 * output + feature) % 9 - 4) / 4;
}

std::unique_ptr<Dataset> LinearDataConfig::generate(Split split, std::uint64_t seed) const {
  std::vector<float> inputs, targets;
  inputs.reserve(static_cast<std::size_t>(size(split) * features));
  targets.reserve(static_cast<std::size_t>(size(split) * outputs));
  for (std::int64_t i = 0; i < size(split); ++i) {
    const RandomStream x = stream_of(seed, split, Part::inputs, i), e = stream_of(seed, split, Part::target, i);
    for (std::int64_t j = 0; j < features; ++j)
      inputs.push_back(static_cast<float>(2 * x.uniform(static_cast<std::uint64_t>(j)) - 1));
    const float* row = inputs.data() + i * features;
    for (std::int64_t k = 0; k < outputs; ++k) {
      double y = noise * nearly_normal(e, 12 * static_cast<std::uint64_t>(k));
      for (std::int64_t j = 0; j < features; ++j) y += linear_weight(k, j) * static_cast<double>(row[j]);
      targets.push_back(static_cast<float>(y));
    }
  }
  return std::make_unique<MemoryDataset>(describe_split("linear", split), size(split),
                                         ExampleFormat{{features}, DType::f32, {outputs}, DType::f32}, bytes_of(inputs),
                                         bytes_of(targets));
}

std::unique_ptr<Dataset> RandomConfig::generate(Split split, std::uint64_t seed) const {
  if (vocabulary) return std::make_unique<RandomTokens>(split, seed, size(split), *sequence_length, *vocabulary);
  const ExampleFormat format{
      Shape(std::span<const std::int64_t>(shape)), type == Type::u8 ? DType::u8 : DType::f32, {}, DType::i32};
  return std::make_unique<RandomDataset>(split, seed, format,
                                         random_classes(size(split), classes.value_or(10), split, seed));
}

}  // namespace lockstep
