// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/augment.hpp"

#include <cstring>
#include <set>

#include "support/scratch.hpp"

namespace lockstep::test {
namespace {

constexpr std::int64_t height = 4, width = 5, channels = 2;
using Image = std::vector<std::uint16_t>;  // two u8 channels as one number, never 0

const ExampleFormat format{{height, width, channels}, DType::u8, {}, DType::i32};

Image original() {
  Image image(height * width);
  for (std::size_t i = 0; i < image.size(); ++i) image[i] = static_cast<std::uint16_t>(0x4101 + 3 * i);
  return image;
}

Image augmented(const AugmentConfig& config, std::int64_t epoch, std::int64_t example, std::uint64_t seed = 1) {
  Image image = original();
  Augmenter(config, format, seed).apply(epoch, example, reinterpret_cast<std::byte*>(image.data()));
  return image;
}

AugmentConfig config_of(std::int64_t crop, bool flip) {
  AugmentConfig config;
  config.random_crop = crop;
  config.horizontal_flip = flip;
  return config;
}

/// What cropping at (down, right) and flipping must give.
Image expected(std::int64_t down, std::int64_t right, bool flip) {
  const Image from = original();
  Image to(from.size(), 0);
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < width; ++x) {
      const std::int64_t from_y = y + down, from_x = (flip ? width - 1 - x : x) + right;
      if (from_y >= 0 && from_y < height && from_x >= 0 && from_x < width)
        to[static_cast<std::size_t>(y * width + x)] = from[static_cast<std::size_t>(from_y * width + from_x)];
    }
  return to;
}

TEST(Augment, NothingByDefault) { EXPECT_EQ(augmented({}, 0, 0), original()); }

TEST(Augment, FlipsHalfOfTheImages) {
  int flipped = 0;
  for (int example = 0; example < 1000; ++example) {
    const Image image = augmented(config_of(0, true), 0, example);
    EXPECT_TRUE(image == original() || image == expected(0, 0, true));
    flipped += image != original();
  }
  EXPECT_NEAR(flipped, 500, 60);
}

TEST(Augment, CropsAtEveryPlaceAndNowhereElse) {
  std::set<Image> allowed, seen;
  for (std::int64_t down = -2; down <= 2; ++down)
    for (std::int64_t right = -2; right <= 2; ++right) allowed.insert(expected(down, right, false));
  for (int example = 0; example < 1000; ++example) seen.insert(augmented(config_of(2, false), 0, example));
  EXPECT_EQ(seen, allowed);
}

TEST(Augment, DependsOnSeedEpochAndExampleOnly) {
  const AugmentConfig config = config_of(2, true);
  int same_epoch = 0, same_seed = 0;
  for (int example = 0; example < 200; ++example) {
    EXPECT_EQ(augmented(config, 3, example), augmented(config, 3, example));
    same_epoch += augmented(config, 3, example) == augmented(config, 4, example);
    same_seed += augmented(config, 3, example) == augmented(config, 3, example, 2);
  }
  EXPECT_LT(same_epoch, 20);  // 1 in 50 by chance
  EXPECT_LT(same_seed, 20);
}

TEST(Augment, RefusesVectors) {
  const ExampleFormat vectors{{7}, DType::f32, {}, DType::i32};
  Augmenter({}, vectors, 1);
  expect_error(ExitStatus::bad_deck, "data.augment", [&] { Augmenter(config_of(1, false), vectors, 1); });
}

}  // namespace
}  // namespace lockstep::test
