// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/augment.hpp"

#include <fmt/format.h>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <set>

#include "core/random.hpp"
#include "data/batch/upload.hpp"
#include "reference/images.hpp"
#include "support/fixtures.hpp"
#include "support/scratch.hpp"

namespace lockstep::test {
namespace {

constexpr std::int64_t height = 6, width = 7, channels = 3, pixels = height * width * channels;
const ExampleFormat format{{height, width, channels}, DType::u8, {}, DType::i32};

AugmentConfig augment_of(const std::string& deck) {
  AugmentConfig config;
  read_config(parse_deck(deck, "test"), config);
  return config;
}

/// Images of random bytes: byte j of example i is `at(i, j)`.
class ByteImages final : public Dataset {
 public:
  explicit ByteImages(std::int64_t size, const ExampleFormat& examples) : size_(size), format_(examples) {}
  std::int64_t size() const override { return size_; }
  const ExampleFormat& format() const override { return format_; }
  std::string description() const override { return "bytes"; }
  void check_classes(std::int64_t, std::int64_t) const override {}
  static std::uint8_t at(std::int64_t example, std::int64_t i) {
    return static_cast<std::uint8_t>(
        philox(1, static_cast<std::uint64_t>(example), static_cast<std::uint64_t>(i)).word[0]);
  }
  void read(std::span<const std::int64_t> examples, void* inputs, void* targets) const override {
    auto* input = static_cast<std::uint8_t*>(inputs);
    auto* target = static_cast<std::byte*>(targets);
    for (const std::int64_t example : examples) {
      for (std::int64_t i = 0; i < pixels; ++i) *input++ = at(example, i);
      const auto number = static_cast<std::int32_t>(example);
      const auto value = static_cast<float>(example);
      std::memcpy(target, format_.has_classes() ? static_cast<const void*>(&number) : &value, 4);
      target += 4;
    }
  }

 private:
  std::int64_t size_;
  ExampleFormat format_;
};

reference::Picture picture(std::int64_t example) {
  reference::Picture result{height, width, channels, {}};
  for (std::int64_t i = 0; i < pixels; ++i) result.x.push_back(ByteImages::at(example, i));
  return result;
}

Normalization normalization(const ExampleFormat& format) {
  return {.unit = format.input_dtype == DType::u8 ? 255.0 : 1.0, .mean = {0.4}, .std = {0.3}};
}

std::vector<double> numbers(const Tensor& tensor) {
  ExecSpace().fence();
  if (tensor.dtype != DType::i32) return values_of(tensor);
  std::vector<std::int32_t> whole(static_cast<std::size_t>(tensor.count()));
  copy_to_host(ExecSpace(), tensor, whole.data());
  return {whole.begin(), whole.end()};
}

/// One example as a training step sees it.
std::vector<double> augmented(const AugmentConfig& config, std::int64_t epoch, std::int64_t example,
                              std::uint64_t seed = 1, DType dtype = DType::f64) {
  const ByteImages data(example + 2, format);
  HostBatch batch;
  const std::int64_t examples[] = {example, example + 1};
  const std::size_t count = config.mixes() ? 2 : 1;
  batch.inputs = Kokkos::View<std::byte*, StagingSpace>("inputs", 2 * format.input_bytes());
  batch.targets = Kokkos::View<std::byte*, StagingSpace>("targets", 2 * format.target_bytes());
  data.read(std::span(examples).first(count), batch.inputs.data(), batch.targets.data());
  batch.plan.examples = {example};
  const Augmenter augmenter(config, format, seed);
  for (std::size_t i = 0; i < count && augmenter.does_something(); ++i)
    batch.changes.push_back(augmenter.draw(epoch, examples[i]));
  BatchUploader uploader(format, normalization(format), dtype, 1, config, seed);
  return numbers(uploader.upload(ExecSpace(), batch, 0, 1).inputs);
}

std::vector<double> expected(const AugmentConfig& config, std::int64_t epoch, std::int64_t example) {
  const Augmenter augmenter(config, format, 1);
  const ImageChange own = augmenter.draw(epoch, example), other = augmenter.draw(epoch, example + 1);
  const Shape made = config.input_shape(format);
  return reference::mixed(own, made[1], channels, reference::changed(picture(example), own, made[0], made[1], 0.4, 0.3),
                          reference::changed(picture(example + 1), other, made[0], made[1], 0.4, 0.3));
}

TEST(Augment, IsWhatThePlainLoopsDo) {
  for (const char* deck :
       {"{}", "{random_crop: 2}", "{horizontal_flip: true}", "{random_resized_crop: {}}",
        "{random_resized_crop: {area: [0.2, 0.5], aspect: [0.5, 2]}, horizontal_flip: true}",
        "{random_resized_crop: {size: 4}, horizontal_flip: true, color_jitter: {contrast: 0.3}, cutout: 2, cutmix: 1}",
        "{color_jitter: {brightness: 0.4, contrast: 0.4, saturation: 0.4}}", "{color_jitter: {hue: 0.5}}",
        "{color_jitter: {saturation: 0.7, hue: 0.1}}", "{cutout: 3}", "{mixup: 0.4}", "{cutmix: 1}",
        "{random_crop: 1, horizontal_flip: true, color_jitter: {contrast: 0.9}, cutout: 2, mixup: 1, cutmix: 1}"}) {
    SCOPED_TRACE(deck);
    const AugmentConfig config = augment_of(deck);
    for (std::int64_t example = 0; example < 12; ++example) {
      EXPECT_LT(largest_difference(augmented(config, 3, example), expected(config, 3, example)), 1e-5) << example;
      EXPECT_LT(largest_difference(augmented(config, 3, example, 1, DType::f32), expected(config, 3, example)), 1e-4);
    }
  }
}

/// In evaluation, images are cropped to their middle, in the size of the training crops, and otherwise unchanged.
TEST(Augment, EvaluationsReadTheMiddle) {
  const AugmentConfig config = augment_of(
      "{random_resized_crop: {size: 4}, color_jitter: {hue: 0.2}, noise: 1, mixup: 1}");
  EXPECT_EQ(config.input_shape(format), (Shape{4, 4, channels}));
  ImageChange middle;
  middle.top = 1;
  middle.left = 2;  // 1.5 rounded to even, as Python does
  const std::vector<double> wanted = reference::changed(picture(5), middle, 4, 4, 0.4, 0.3);
  for (const AugmentConfig& augment : {config, config.for_evaluation()}) {
    const ByteImages data(9, format);
    HostBatch batch;
    batch.inputs = Kokkos::View<std::byte*, StagingSpace>("inputs", 2 * format.input_bytes());
    batch.targets = Kokkos::View<std::byte*, StagingSpace>("targets", 2 * format.target_bytes());
    batch.plan.examples = {4, 5};
    data.read(batch.plan.examples, batch.inputs.data(), batch.targets.data());
    BatchUploader uploader(format, normalization(format), DType::f64, 2, augment, 1);
    const std::vector<double> seen = numbers(uploader.upload(ExecSpace(), batch, 0, 2).inputs);
    EXPECT_LT(largest_difference({seen.end() - std::ssize(wanted), seen.end()}, wanted), 1e-12);
  }
}

/// With an α so small that powers with 1/α underflow to 0, one of the two images has the whole share.
TEST(Augment, SharesOfTinyAlphaAreAllOrNothing) {
  constexpr int images = 2000;
  for (const char* alpha : {"0.003", "1e-12", "1e-308"}) {
    SCOPED_TRACE(alpha);
    const Augmenter mixup(augment_of(fmt::format("{{mixup: {}}}", alpha)), format, 1),
        cutmix(augment_of(fmt::format("{{cutmix: {}}}", alpha)), format, 1);
    int ones = 0, between = 0;
    for (int example = 0; example < images; ++example) {
      const double share = mixup.draw(0, example).share;
      ones += share > 0.5 ? 1 : 0;
      between += share > 1e-9 && share < 1 - 1e-9 ? 1 : 0;
      const double left = cutmix.draw(0, example).share;
      EXPECT_TRUE(left >= 0 && left <= 1) << left;
    }
    EXPECT_NEAR(ones, images / 2, 100);  // 4.5 standard deviations
    EXPECT_LE(between, std::strtod(alpha, nullptr) > 1e-9 ? images / 5 : 0);
  }
}

/// For the usual α, the share is x / (x + y) of Jöhnk's powers to the last bit.
TEST(Augment, SharesOfUsualAlphaAreThoseOfPowers) {
  for (const char* alpha : {"0.2", "0.4", "1"}) {
    const Augmenter augmenter(augment_of(fmt::format("{{mixup: {}}}", alpha)), format, 7);
    const RandomStream random(7, RandomPurpose::augment, (std::uint64_t{1} << 48) | 3);
    const double power = 1 / std::strtod(alpha, nullptr);
    for (std::uint64_t example = 0; example < 200; ++example) {
      std::uint64_t number = example << 20;
      double x = 1, y = 1;
      while (x + y > 1) {
        x = std::pow(random.uniform(number), power);
        y = std::pow(random.uniform(number + 1), power);
        number += 2;
      }
      EXPECT_EQ(augmenter.draw(3, static_cast<std::int64_t>(example)).share, x / (x + y)) << alpha << " " << example;
    }
  }
}

TEST(Augment, FlipsHalfOfTheImages) {
  const Augmenter augmenter(augment_of("{horizontal_flip: true}"), format, 1);
  int flipped = 0;
  for (int example = 0; example < 1000; ++example) flipped += augmenter.draw(0, example).flip;
  EXPECT_NEAR(flipped, 500, 60);
}

TEST(Augment, CropsAtEveryPlaceAndNowhereElse) {
  const Augmenter augmenter(augment_of("{random_crop: 2}"), format, 1);
  std::set<std::pair<float, float>> seen;
  for (int example = 0; example < 1000; ++example) {
    const ImageChange change = augmenter.draw(0, example);
    EXPECT_LE(std::max(std::abs(change.top), std::abs(change.left)), 2);
    seen.emplace(change.top, change.left);
  }
  EXPECT_EQ(seen.size(), 25u);
}

/// Crops of a 224 × 200 image lie within it, and have the areas and aspect ratios that the deck asks for.
TEST(Augment, ResizedCropsLieInTheImage) {
  const ExampleFormat large{{224, 200, 3}, DType::u8, {}, DType::i32};
  const Augmenter augmenter(augment_of("{random_resized_crop: {area: [0.1, 0.6], aspect: [0.5, 2]}}"), large, 1);
  double areas = 0;
  for (int example = 0; example < 1000; ++example) {
    const ImageChange change = augmenter.draw(0, example);
    const float rows = 224 * change.down, columns = 200 * change.right;
    EXPECT_GE(std::min(change.top, change.left), 0);
    EXPECT_LE(change.top + rows, 224.01);
    EXPECT_LE(change.left + columns, 200.01);
    EXPECT_GT(columns / rows, 0.48);
    EXPECT_LT(columns / rows, 2.08);
    areas += static_cast<double>(rows * columns) / (224 * 200);
  }
  EXPECT_NEAR(areas / 1000, 0.35, 0.03);
}

TEST(Augment, NoiseHasItsSizeAndIsNotTheSameTwice) {
  const AugmentConfig config = augment_of("{noise: 0.1}");
  double squares = 0;
  std::set<double> seen;
  for (std::int64_t example = 0; example < 20; ++example) {
    const std::vector<double> plain = augmented({}, 0, example), noisy = augmented(config, 0, example);
    for (std::size_t i = 0; i < plain.size(); ++i) {
      squares += std::pow((noisy[i] - plain[i]) * 0.3, 2);
      seen.insert(noisy[i] - plain[i]);
    }
  }
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(20 * pixels)), 0.1, 0.005);
  EXPECT_GT(seen.size(), 2500u);
}

/// Beta(α, α) has the mean ½ and the variance 1/(4 (2α + 1)).
TEST(Augment, SharesAreBetaDistributed) {
  for (const double alpha : {0.2, 1.0}) {
    const Augmenter augmenter(augment_of(fmt::format("{{mixup: {}}}", alpha)), format, 1);
    double sum = 0, squares = 0;
    constexpr int n = 4000;
    for (int example = 0; example < n; ++example) {
      const double share = augmenter.draw(0, example).share;
      sum += share;
      squares += (share - 0.5) * (share - 0.5);
    }
    EXPECT_NEAR(sum / n, 0.5, 0.02);
    EXPECT_NEAR(squares / n, 0.25 / (2 * alpha + 1), 0.01);
  }
}

TEST(Augment, DependsOnSeedEpochAndExampleOnly) {
  const AugmentConfig config = augment_of("{random_crop: 2, horizontal_flip: true, noise: 0.1, mixup: 1}");
  EXPECT_EQ(augmented(config, 3, 5), augmented(config, 3, 5));
  EXPECT_NE(augmented(config, 3, 5), augmented(config, 4, 5));
  EXPECT_NE(augmented(config, 3, 5), augmented(config, 3, 5, 2));
}

/// What the steps of a run see: inputs, targets, the targets of mixed-in partners, and shares.
struct Seen {
  std::vector<double> inputs, targets, others, shares;
  friend bool operator==(const Seen&, const Seen&) = default;
};

Seen batches_of(const AugmentConfig& config, int ranks, std::int64_t micro, int depth, const ExampleFormat& examples) {
  const ByteImages data(53, examples);
  std::vector<std::vector<Seen>> all(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    const Sampler sampler(
        {.dataset_size = 53, .global_batch = 10, .seed = 4, .epochs = 2, .rank = rank, .partition = {.ranks = ranks}});
    DataLoader loader(data, sampler, 10, config, 4, depth);
    BatchUploader uploader(examples, normalization(examples), DType::f32, micro, config, 4);
    while (const HostBatch* batch = loader.next()) {
      Seen& seen = all[static_cast<std::size_t>(rank)].emplace_back();
      for (std::int64_t first = 0; first < batch->size(); first += micro) {
        const DeviceBatch piece = uploader.upload(ExecSpace(), *batch, first, std::min(micro, batch->size() - first));
        const auto append = [](std::vector<double>& to, const Tensor& from) {
          if (!from) return;
          const std::vector<double> more = numbers(from);
          to.insert(to.end(), more.begin(), more.end());
        };
        append(seen.inputs, piece.inputs);
        append(seen.targets, piece.targets);
        append(seen.others, piece.mixed.others);
        append(seen.shares, piece.mixed.shares);
      }
    }
  }
  Seen together;
  for (std::size_t step = 0; step < all[0].size(); ++step)
    for (const auto& own : all) {
      const auto append = [](std::vector<double>& to, const std::vector<double>& from) {
        to.insert(to.end(), from.begin(), from.end());
      };
      append(together.inputs, own[step].inputs);
      append(together.targets, own[step].targets);
      append(together.others, own[step].others);
      append(together.shares, own[step].shares);
    }
  return together;
}

/// Batches are equal bit for bit for any number of ranks and micro-batches, and for any depth of prefetching.
TEST(Augment, BatchesAreTheSameOnAnyNumberOfRanks) {
  const ExampleFormat values{{height, width, channels}, DType::u8, {1}, DType::f32};
  for (const char* deck :
       {"{random_crop: 1}", "{random_resized_crop: {}, color_jitter: {contrast: 0.5}, noise: 0.1, cutout: 2}",
        "{random_resized_crop: {size: 5}, color_jitter: {hue: 0.5}, noise: 0.1, cutmix: 1}",
        "{random_crop: 1, mixup: 0.5, cutmix: 1}"})
    for (const ExampleFormat& examples : {format, values}) {
      SCOPED_TRACE(deck);
      const AugmentConfig config = augment_of(deck);
      const Seen one = batches_of(config, 1, 10, 3, examples);
      EXPECT_EQ(one.targets.size(), 106u);
      EXPECT_EQ(one.shares.size(), config.mixes() && examples.has_classes() ? 106u : 0u);
      for (const int ranks : {1, 2, 3, 4}) EXPECT_TRUE(one == batches_of(config, ranks, 2, 5, examples)) << ranks;
    }
}

TEST(Augment, ValuesAreMixedLikeTheirImages) {
  const ExampleFormat values{{height, width, channels}, DType::u8, {1}, DType::f32};
  const AugmentConfig config = augment_of("{mixup: 1}");
  const Seen seen = batches_of(config, 1, 10, 3, values), classes = batches_of(config, 1, 10, 3, format);
  for (std::size_t i = 0; i < seen.targets.size(); ++i)
    EXPECT_NEAR(seen.targets[i], classes.shares[i] * classes.targets[i] + (1 - classes.shares[i]) * classes.others[i],
                1e-4);
}

TEST(Augment, RefusesWhatItDoesNotSuit) {
  const auto refused = [](const char* deck, const ExampleFormat& examples, const char* words) {
    SCOPED_TRACE(deck);
    expect_error(ExitStatus::bad_deck, words, [&] { check_augment(examples, augment_of(deck)); });
  };
  check_augment({{7}, DType::f32, {}, DType::i32}, {});
  refused("{random_crop: 1}", {{7}, DType::f32, {}, DType::i32}, "data.augment");
  refused("{mixup: 1}", {{5, 5, 3}, DType::u8, {5, 5}, DType::i32}, "the targets belong to the pixels");
  refused("{color_jitter: {contrast: 0.5}}", {{5, 5, 3}, DType::f32, {}, DType::i32}, "data.augment.color_jitter");
  refused("{color_jitter: {saturation: 0.5}}", {{5, 5, 1}, DType::u8, {}, DType::i32}, "saturation");
  refused("{color_jitter: {hue: 0.5}}", {{5, 5, 1}, DType::u8, {}, DType::i32}, "color_jitter.hue");
  refused("{random_resized_crop: {size: 6}}", {{6, 5, 3}, DType::u8, {}, DType::i32}, "smaller than 6×6");
  for (const char* deck :
       {"{random_resized_crop: {area: [0.5]}}", "{random_resized_crop: {aspect: [2, 1]}}", "{color_jitter: {hue: 0.6}}",
        "{mixup: 1.5}", "{random_crop: 1, random_resized_crop: {}}", "{noise: -1}"})
    EXPECT_THROW(augment_of(deck), Error) << deck;
}

}  // namespace
}  // namespace lockstep::test
