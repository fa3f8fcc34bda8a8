// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "config/fields.hpp"
#include "data/dataset.hpp"
#include "ops/image_changes.hpp"

namespace lockstep {

/// data.augment: what is done to training images.
struct AugmentConfig : Config {
  /// torchvision's RandomResizedCrop.
  struct ResizedCrop {
    bool present = false;
    std::optional<std::int64_t> size;  ///< of the square that it makes; none: the image's own
    std::vector<double> area{0.08, 1}, aspect{3.0 / 4, 4.0 / 3};
    void describe(Fields& fields);
  };
  /// torchvision's ColorJitter: factors from 1 − x to 1 + x.
  struct ColorJitter {
    bool present = false;
    double brightness = 0, contrast = 0, saturation = 0, hue = 0;
    void describe(Fields& fields);
  };

  std::int64_t random_crop = 0;
  bool horizontal_flip = false;
  ResizedCrop random_resized_crop;
  ColorJitter color_jitter;
  double noise = 0;
  std::int64_t cutout = 0;
  double mixup = 0, cutmix = 0;

  bool mixes() const { return mixup > 0 || cutmix > 0; }
  bool does_something() const;
  /// What the network reads of such examples: other than they are where crops have a size of their own.
  Shape input_shape(const ExampleFormat& format) const;
  /// What of this is done to images that are not trained on: of crops of a size of their own, the middle.
  AugmentConfig for_evaluation() const;
  void describe(Fields& fields) override;
};

/// Throws KeyError when something is to be done to examples that it does not suit.
void check_augment(const ExampleFormat& format, const AugmentConfig& augment);

/// The middle of an image of `from`, as large as `to` (H×W×C both), as torchvision's CenterCrop.
ImageChange middle_of(const Shape& from, const Shape& to);

/// Draws what is done to an image: a function of seed, epoch and its number in the dataset, not of the rank that reads
/// it. The work itself is that of the step's kernel (ops/image_changes.hpp).
class Augmenter {
 public:
  /// `config` must fit (check_augment).
  Augmenter(const AugmentConfig& config, const ExampleFormat& format, std::uint64_t seed);

  bool does_something() const { return config_.does_something(); }
  bool mixes() const { return config_.mixes(); }
  ImageChange draw(std::int64_t epoch, std::int64_t example) const;

 private:
  AugmentConfig config_;
  std::int64_t height_ = 0, width_ = 0;  ///< of the image
  std::int64_t rows_ = 0, columns_ = 0;  ///< of what it becomes
  std::uint64_t seed_;
};

}  // namespace lockstep
