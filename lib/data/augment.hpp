// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "config/fields.hpp"
#include "data/dataset/dataset.hpp"
#include "ops/image/image_changes.hpp"

namespace lockstep {

/// data.augment: random changes of training images.
struct AugmentConfig : Config {
  /// torchvision's RandomResizedCrop with antialias=False.
  struct ResizedCrop {
    bool present = false;
    std::optional<std::int64_t> size;  ///< side of the square that it makes, in pixels; none: the image's own size
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
  /// Whether pixels move, vanish or are mixed with others, so that targets of single pixels would no longer belong to
  /// them.
  bool moves_pixels() const;
  /// Shape of the images that the network reads, for examples of this format. It differs from theirs if crops have a
  /// size of their own.
  Shape input_shape(const ExampleFormat& format) const;
  /// The part of this that also applies to images that are not trained on: the middle of the image, if crops have a
  /// size of their own.
  AugmentConfig for_evaluation() const;
  void describe(Fields& fields) override;
};

/// Throws KeyError if the changes do not suit examples of this format.
void check_augment(const ExampleFormat& format, const AugmentConfig& augment);

/// Crops the middle of an image of shape `from`, as large as `to` (both H×W×C), as torchvision's CenterCrop.
ImageChange middle_of(const Shape& from, const Shape& to);

/// Draws what is done to an image, as a function of the seed, the epoch and the image's number in the dataset, but not
/// of the rank that reads it. The step's kernel applies it (ops/image/image_changes.hpp).
class Augmenter {
 public:
  /// `config` must suit the format (check_augment).
  Augmenter(const AugmentConfig& config, const ExampleFormat& format, std::uint64_t seed);

  bool does_something() const { return config_.does_something(); }
  bool mixes() const { return config_.mixes(); }
  ImageChange draw(std::int64_t epoch, std::int64_t example) const;

 private:
  AugmentConfig config_;
  std::int64_t height_ = 0, width_ = 0;  ///< size of the image in the dataset
  std::int64_t rows_ = 0, columns_ = 0;  ///< size of the image that the network reads
  std::uint64_t seed_;
};

}  // namespace lockstep
