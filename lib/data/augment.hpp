// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "config/fields.hpp"
#include "data/dataset.hpp"

namespace lockstep {

/// data.augment: what is done to training images as they are read.
struct AugmentConfig : Config {
  std::int64_t random_crop = 0;
  bool horizontal_flip = false;

  bool does_something() const { return random_crop > 0 || horizontal_flip; }
  void describe(Fields& fields) override {
    fields.integer("random_crop", random_crop, {0, 64},
                   "pixels of zero padding on each side before a crop of the original size at a random place");
    fields.boolean("horizontal_flip", horizontal_flip, "mirrors every other image, at random");
  }
};

/// Throws KeyError when something is to be done to examples that are no images.
void check_augment(const ExampleFormat& format, const AugmentConfig& augment);

/// Alters images in place. What happens to an image depends on seed, epoch and its number in the
/// dataset, not on the rank that reads it.
class Augmenter {
 public:
  /// `config` must fit (check_augment).
  Augmenter(const AugmentConfig& config, const ExampleFormat& format, std::uint64_t seed);

  void apply(std::int64_t epoch, std::int64_t example, std::byte* image);

 private:
  AugmentConfig config_;
  std::int64_t height_ = 0, width_ = 0;
  std::size_t pixel_bytes_ = 0;
  std::uint64_t seed_;
  std::vector<std::byte> original_;
};

}  // namespace lockstep
