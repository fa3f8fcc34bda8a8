// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

#include "core/tensor.hpp"

namespace lockstep {

/// A stretch of an image: rows top … bottom − 1, columns left … right − 1.
struct ImageBox {
  std::int32_t top = 0, left = 0, bottom = 0, right = 0;

  KOKKOS_INLINE_FUNCTION bool has(std::int64_t row, std::int64_t column) const {
    return row >= top && row < bottom && column >= left && column < right;
  }
};

/// What is done to one image as it becomes numbers to compute with, in this order.
struct ImageChange {
  float top = 0, left = 0;    ///< where the crop begins, in pixels of the image; outside it there are zeros
  float down = 1, right = 1;  ///< pixels of the image for a pixel of the crop: bilinear between them where not 1
  std::int32_t flip = 0;      ///< 1: left and right change places
  float brightness = 1, contrast = 1, saturation = 1;  ///< torchvision's factors, of u8 images
  float hue = 0;                                       ///< turns that it is moved by, of images of three colours
  std::uint64_t noise_stream = 0;
  ImageBox cut;            ///< becomes 0 (after normalisation: the mean)
  double share = 1;        ///< of this image, where another one is mixed in
  ImageBox other;          ///< if not empty, it is the other image there, and this one elsewhere
  std::int32_t mixed = 0;  ///< 1: the next image of the batch is mixed in
};

/// One pass from raw images to y [n, H′, W′, C]: x [n, H, W, C] u8, f32 or f64 → crop of H′×W′, flip, brightness,
/// contrast, saturation, hue, then scale[c] · x + shift[c] as `normalize`, noise, cut, mix. `changes`: u8 [n ·
/// sizeof(ImageChange)], of each image; where some are mixed, x and changes have one image more than y. `largest`: of a
/// channel, 255 for u8; colours are cut off there. `noise`: standard deviation of the normal noise, in units of
/// `largest`; its numbers depend on `seed`, the image's stream and the place alone. means: f64 [n + 1] scratch.
void change_images(const ExecSpace& space, const Tensor& x, const Tensor& changes, const Tensor& scale,
                   const Tensor& shift, double largest, double noise, std::uint64_t seed, const Tensor& means,
                   const Tensor& y);

/// y = share · own + (1 − share) · that of the next example: values [n (+ 1), K], as the images of `changes` are mixed.
void mix_values(const ExecSpace& space, const Tensor& changes, const Tensor& values, const Tensor& y);

/// Each example's own share, f64 [n]: 1 where it is not mixed.
void own_shares(const ExecSpace& space, const Tensor& changes, const Tensor& shares);

}  // namespace lockstep
