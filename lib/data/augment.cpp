// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/augment.hpp"

#include <cstring>

#include "core/random.hpp"

namespace lockstep {

void check_augment(const ExampleFormat& format, const AugmentConfig& augment) {
  validate_key(!augment.does_something() || format.input_shape.rank() == 3, "data.augment",
               "the inputs are {}{}, no images (H×W×C); remove it", to_string(format.input_shape),
               format.has_tokens() ? " tokens" : "");
}

Augmenter::Augmenter(const AugmentConfig& config, const ExampleFormat& format, std::uint64_t seed)
    : config_(config), seed_(seed) {
  check_augment(format, config);
  if (!config.does_something()) return;
  height_ = format.input_shape[0];
  width_ = format.input_shape[1];
  pixel_bytes_ = static_cast<std::size_t>(format.input_shape[2]) * size_of(format.input_dtype);
  original_.resize(format.input_bytes());
}

void Augmenter::apply(std::int64_t epoch, std::int64_t example, std::byte* image) {
  if (original_.empty()) return;
  const RandomStream random(seed_, RandomPurpose::augment, static_cast<std::uint64_t>(epoch));
  const auto number = 3 * static_cast<std::uint64_t>(example);
  const auto places = static_cast<std::uint64_t>(2 * config_.random_crop + 1);
  const auto down = static_cast<std::int64_t>(random.below(places, number)) - config_.random_crop;
  const auto right = static_cast<std::int64_t>(random.below(places, number + 1)) - config_.random_crop;
  const bool flip = config_.horizontal_flip && random.below(2, number + 2) == 1;

  std::memcpy(original_.data(), image, original_.size());
  std::memset(image, 0, original_.size());
  for (std::int64_t row = 0; row < height_; ++row) {
    const std::int64_t from_row = row + down;
    if (from_row < 0 || from_row >= height_) continue;
    for (std::int64_t column = 0; column < width_; ++column) {
      const std::int64_t from_column = (flip ? width_ - 1 - column : column) + right;
      if (from_column < 0 || from_column >= width_) continue;
      std::memcpy(image + static_cast<std::size_t>(row * width_ + column) * pixel_bytes_,
                  original_.data() + static_cast<std::size_t>(from_row * width_ + from_column) * pixel_bytes_,
                  pixel_bytes_);
    }
  }
}

}  // namespace lockstep
