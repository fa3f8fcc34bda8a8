// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/augment.hpp"

#include <algorithm>
#include <cmath>

#include "core/random.hpp"

namespace lockstep {
namespace {

/// Random numbers for one image, one after the other.
class Draws {
 public:
  Draws(std::uint64_t seed, std::int64_t epoch, std::int64_t example)
      : random_(seed, RandomPurpose::augment, further | static_cast<std::uint64_t>(epoch)),
        next_(most * static_cast<std::uint64_t>(example)) {}

  double uniform() { return random_.uniform(next_++); }
  double between(double low, double high) { return low + (high - low) * uniform(); }
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(n), next_++));
  }
  /// From Beta(α, α), α ≤ 1: Jöhnk, "Erzeugung von betaverteilten und gammaverteilten Zufallszahlen", 1964. If α is so
  /// small that both powers are 0, their ratio follows from their logarithms.
  double beta(double alpha) {
    for (;;) {
      const double u = uniform(), v = uniform(), x = std::pow(u, 1 / alpha), y = std::pow(v, 1 / alpha);
      if (x + y > 1) continue;
      if (x + y > 0) return x / (x + y);
      if (u + v > 0) return 1 / (1 + std::exp((std::log(v) - std::log(u)) / alpha));
    }
  }

 private:
  static constexpr std::uint64_t most = 1 << 20;                    ///< numbers that an image may take
  static constexpr std::uint64_t further = std::uint64_t{1} << 48;  ///< keeps these streams apart from those of crops
                                                                    ///< and flips

  RandomStream random_;
  std::uint64_t next_;
};

/// torchvision's RandomResizedCrop: ten attempts at an area and an aspect, else the middle of the image at the nearest
/// aspect.
void resized_crop(Draws& draws, const AugmentConfig::ResizedCrop& config, std::int64_t height, std::int64_t width,
                  std::int64_t made_height, std::int64_t made_width, ImageChange& change) {
  const auto take = [&](double top, double left, double rows, double columns) {
    change.top = static_cast<float>(top);
    change.left = static_cast<float>(left);
    change.down = static_cast<float>(rows / static_cast<double>(made_height));
    change.right = static_cast<float>(columns / static_cast<double>(made_width));
  };
  const double area = static_cast<double>(height * width);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double target = area * draws.between(config.area[0], config.area[1]),
                 aspect = std::exp(draws.between(std::log(config.aspect[0]), std::log(config.aspect[1])));
    const auto columns = static_cast<std::int64_t>(std::lround(std::sqrt(target * aspect))),
               rows = static_cast<std::int64_t>(std::lround(std::sqrt(target / aspect)));
    if (columns < 1 || columns > width || rows < 1 || rows > height) continue;
    const std::int64_t top = draws.below(height - rows + 1), left = draws.below(width - columns + 1);
    return take(static_cast<double>(top), static_cast<double>(left), static_cast<double>(rows),
                static_cast<double>(columns));
  }
  const double h = static_cast<double>(height), w = static_cast<double>(width),
               aspect = std::clamp(w / h, config.aspect[0], config.aspect[1]),
               columns = std::min(w, std::round(h * aspect)), rows = std::min(h, std::round(w / aspect));
  take(std::floor((h - rows) / 2), std::floor((w - columns) / 2), rows, columns);
}

/// A box of this size around a pixel, cut at the edges of the image.
ImageBox box_around(std::int64_t row, std::int64_t column, std::int64_t rows, std::int64_t columns, std::int64_t height,
                    std::int64_t width) {
  const auto within = [](std::int64_t value, std::int64_t most) {
    return static_cast<std::int32_t>(std::clamp<std::int64_t>(value, 0, most));
  };
  const std::int64_t top = row - rows / 2, left = column - columns / 2;
  return {within(top, height), within(left, width), within(top + rows, height), within(left + columns, width)};
}

}  // namespace

void AugmentConfig::ResizedCrop::describe(Fields& fields) {
  fields.integer(
      "size", size, {1, 1e4},
      "side in pixels of the square that the crop is scaled to, which is what the network reads; in evaluations and "
      "predictions, images are cropped to that size at their centre (when not given: the image's own size)");
  fields.numbers("area", area, {0, 1, true}, "smallest and largest share of the image's area that a crop has");
  fields.numbers("aspect", aspect, positive,
                 "smallest and largest ratio of width to height that a crop has before it is scaled");
  for (const auto& [key, range] : {std::pair("area", &area), {"aspect", &aspect}})
    fields.check(range->size() == 2 && (*range)[0] <= (*range)[1], key,
                 "is not a range; give two numbers, the smaller one first");
}

void AugmentConfig::ColorJitter::describe(Fields& fields) {
  fields.number("brightness", brightness, fraction,
                "brightness is multiplied by a random factor from 1 − this to 1 + this (0: unchanged)");
  fields.number("contrast", contrast, fraction,
                "the difference of each value from the mean of the grey image is multiplied by a random factor from 1 "
                "− this to 1 + this (0: unchanged)");
  fields.number("saturation", saturation, fraction,
                "the difference of each pixel from its grey value is multiplied by a random factor from 1 − this to 1 "
                "+ this (0: unchanged)");
  fields.number(
      "hue", hue, {0, 0.5},
      "the hue is shifted by a random amount from −this to this, in turns of the colour circle (0: unchanged)");
}

bool AugmentConfig::moves_pixels() const {
  return random_crop > 0 || horizontal_flip || random_resized_crop.present || cutout > 0 || mixes();
}

bool AugmentConfig::does_something() const { return color_jitter.present || noise > 0 || moves_pixels(); }

Shape AugmentConfig::input_shape(const ExampleFormat& format) const {
  const Shape& image = format.input_shape;
  if (!random_resized_crop.size || image.rank() != 3) return image;
  const std::int64_t size = *random_resized_crop.size;
  return image[0] < size || image[1] < size ? image : Shape{size, size, image[2]};
}

AugmentConfig AugmentConfig::for_evaluation() const {
  AugmentConfig config;
  config.random_resized_crop.size = random_resized_crop.size;
  return config;
}

void AugmentConfig::describe(Fields& fields) {
  fields.integer(
      "random_crop", random_crop, {0, 64},
      "pixels of zero padding on each side before a crop of the original size at a random place (0: no crop)");
  fields.optional_section(
      "random_resized_crop", random_resized_crop.present, [this](Fields& f) { random_resized_crop.describe(f); },
      "Random crop of the image, scaled to the image's size or to `size` (Szegedy et al. 2015; torchvision's "
      "RandomResizedCrop with antialias=False)");
  fields.check(!random_resized_crop.present || random_crop == 0, "random_resized_crop",
               "cannot be combined with random_crop; remove one of them");
  fields.boolean("horizontal_flip", horizontal_flip, "whether each image is mirrored left to right with probability ½");
  fields.optional_section(
      "color_jitter", color_jitter.present, [this](Fields& f) { color_jitter.describe(f); },
      "Random changes of brightness, contrast, saturation and hue, in this order, of u8 images (torchvision's "
      "ColorJitter)");
  fields.number("noise", noise, not_negative,
                "standard deviation of the normal noise added to each value, where 1 is white (0: none)");
  fields.integer("cutout", cutout, {0, 1e4},
                 "side in pixels of a square at a random place that is set to 0 after normalization (DeVries & Taylor "
                 "2017; 0: none)");
  fields.number("mixup", mixup, fraction,
                "α of the distribution Beta(α, α) of the weight λ of each image; the next image of the batch is mixed "
                "in with the weight 1 − λ, and so are the targets (Zhang et al. 2018; 0: none)");
  fields.number("cutmix", cutmix, fraction,
                "α of the distribution Beta(α, α) of the share of its area that each image keeps; a box of the next "
                "image of the batch covers the rest, and targets are mixed by area (Yun et al. 2019; 0: none); if "
                "mixup is given too, each image has one of the two, with probability ½");
}

void check_augment(const ExampleFormat& format, const AugmentConfig& augment) {
  validate_key(!augment.does_something() || format.input_shape.rank() == 3, "data.augment",
               "the inputs are {}{}, not images (H×W×C); remove it", to_string(format.input_shape),
               format.has_tokens() ? " tokens" : "");
  validate_key(!augment.moves_pixels() || format.target_shape.rank() <= (format.has_classes() ? 0 : 1), "data.augment",
               "the targets belong to the pixels of the images ({}), which it would move away from them; use noise and "
               "color_jitter alone, or remove it",
               to_string(format.target_shape));
  validate_key(!augment.color_jitter.present || format.input_dtype == DType::u8, "data.augment.color_jitter",
               "the inputs are {} (colours from 0 to 255, u8, are expected); remove it, or store them as u8",
               name_of(format.input_dtype));
  for (const auto& [key, amount] :
       {std::pair("saturation", augment.color_jitter.saturation), {"hue", augment.color_jitter.hue}})
    validate_key(amount == 0 || format.input_shape[-1] == 3, fmt::format("data.augment.color_jitter.{}", key),
                 "the number of channels is {} (red, green and blue are expected); remove it", format.input_shape[-1]);
  const std::optional<std::int64_t>& size = augment.random_resized_crop.size;
  validate_key(!size || (format.input_shape[0] >= *size && format.input_shape[1] >= *size),
               "data.augment.random_resized_crop.size",
               "the images are {}, smaller than {}×{} (evaluations crop the centre to that size); make it smaller",
               to_string(format.input_shape), *size, *size);
}

ImageChange middle_of(const Shape& from, const Shape& to) {
  const auto margin = [&](int side) {
    return static_cast<float>(std::nearbyint(0.5 * static_cast<double>(from[side] - to[side])));
  };
  ImageChange change;
  change.top = margin(0);
  change.left = margin(1);
  return change;
}

Augmenter::Augmenter(const AugmentConfig& config, const ExampleFormat& format, std::uint64_t seed)
    : config_(config), seed_(seed) {
  check_augment(format, config);
  if (!config.does_something()) return;
  height_ = format.input_shape[0];
  width_ = format.input_shape[1];
  const Shape made = config.input_shape(format);
  rows_ = made[0];
  columns_ = made[1];
}

ImageChange Augmenter::draw(std::int64_t epoch, std::int64_t example) const {
  ImageChange change;
  const RandomStream random(seed_, RandomPurpose::augment, static_cast<std::uint64_t>(epoch));
  const auto number = 3 * static_cast<std::uint64_t>(example);
  const auto places = static_cast<std::uint64_t>(2 * config_.random_crop + 1);
  const auto shift = [&](std::uint64_t i) {
    return static_cast<float>(static_cast<std::int64_t>(random.below(places, i)) - config_.random_crop);
  };
  change.top = shift(number);
  change.left = shift(number + 1);
  change.flip = config_.horizontal_flip && random.below(2, number + 2) == 1 ? 1 : 0;

  Draws draws(seed_, epoch, example);
  if (config_.random_resized_crop.present)
    resized_crop(draws, config_.random_resized_crop, height_, width_, rows_, columns_, change);
  const auto factor = [&](double around) {
    return static_cast<float>(around > 0 ? draws.between(1 - around, 1 + around) : 1);
  };
  change.brightness = factor(config_.color_jitter.brightness);
  change.contrast = factor(config_.color_jitter.contrast);
  change.saturation = factor(config_.color_jitter.saturation);
  if (const double hue = config_.color_jitter.hue; hue > 0) change.hue = static_cast<float>(draws.between(-hue, hue));
  if (config_.noise > 0)
    change.noise_stream = (std::uint64_t{1} << 49) | (static_cast<std::uint64_t>(draws.below(1 << 24)) << 24) |
                          static_cast<std::uint64_t>(draws.below(1 << 24));
  if (config_.cutout > 0)
    change.cut = box_around(draws.below(rows_), draws.below(columns_), config_.cutout, config_.cutout, rows_, columns_);
  if (config_.mixes()) {
    change.mixed = 1;
    const bool boxes = config_.mixup == 0 || (config_.cutmix > 0 && draws.below(2) == 1);
    change.share = draws.beta(boxes ? config_.cutmix : config_.mixup);
    if (boxes) {
      const double side = std::sqrt(1 - change.share);
      change.other = box_around(draws.below(rows_), draws.below(columns_),
                                std::lround(side * static_cast<double>(rows_)),
                                std::lround(side * static_cast<double>(columns_)), rows_, columns_);
      const double area = (change.other.bottom - change.other.top) * (change.other.right - change.other.left);
      change.share = 1 - area / static_cast<double>(rows_ * columns_);
      change.mixed = area > 0 ? 1 : 0;
    }
  }
  return change;
}

}  // namespace lockstep
