// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

#include "core/tensor.hpp"

namespace lockstep {

/// A rectangle in an image: rows top … bottom − 1, columns left … right − 1.
struct ImageBox {
  std::int32_t top = 0, left = 0, bottom = 0, right = 0;

  KOKKOS_INLINE_FUNCTION bool has(std::int64_t row, std::int64_t column) const {
    return row >= top && row < bottom && column >= left && column < right;
  }
};

/// The changes made to one image when it is converted to numbers for computation, in this order.
struct ImageChange {
  float top = 0, left = 0;    ///< corner of the crop, in pixels of the image; outside: 0, or its edge if scaled
  float down = 1, right = 1;  ///< pixels of the image per pixel of the crop; bilinear unless 1
  std::int32_t flip = 0;      ///< 1: mirrors left and right
  float brightness = 1, contrast = 1, saturation = 1;  ///< torchvision's factors, for u8 images
  float hue = 0;                                       ///< shift of the hue in turns, for images with three channels
  std::uint64_t noise_stream = 0;
  ImageBox cut;            ///< set to 0 (after normalization: to the mean)
  double share = 1;        ///< weight of this image if another one is mixed in
  ImageBox other;          ///< if not empty: holds the other image, while the rest holds this one
  std::int32_t mixed = 0;  ///< 1: the next image of the batch is mixed in
};

/// Converts raw images x [n, H, W, C] (u8, f32 or f64) to y [n, H′, W′, C] in one pass: crop to H′×W′, flip,
/// brightness, contrast, saturation, hue, then scale[c] · x + shift[c] as in `normalize`, noise, cut, mix. `changes`:
/// u8 [n · sizeof(ImageChange)], one for each image. If images are mixed, x and changes have one image more than y.
/// `largest`: the largest value of a channel, 255 for u8; colours are clamped to it. `noise`: standard deviation of the
/// normal noise, in units of `largest`; the noise depends only on `seed`, the image's stream and the position. means:
/// f64 [n + 1] scratch.
void change_images(const ExecSpace& space, const Tensor& x, const Tensor& changes, const Tensor& scale,
                   const Tensor& shift, double largest, double noise, std::uint64_t seed, const Tensor& means,
                   const Tensor& y);

/// y = share · own + (1 − share) · next, where own and next are an example's values and those of the example after it,
/// and images are mixed as in `changes`. values: [n (+ 1), K].
void mix_values(const ExecSpace& space, const Tensor& changes, const Tensor& values, const Tensor& y);

/// The share of each example itself, f64 [n]; 1 if it is not mixed.
void own_shares(const ExecSpace& space, const Tensor& changes, const Tensor& shares);

/// y = scale[c] · x + shift[c], where c is the last dimension: converts raw inputs (u8, f32 or f64) to numbers for
/// computation. `scale` and `shift` have y's master_dtype and C elements, or one for all channels. With scale = 1 /
/// (255 · std) and shift = −mean / std this is (x / 255 − mean) / std in one product and one sum.
void normalize(const ExecSpace& space, const Tensor& x, const Tensor& scale, const Tensor& shift, const Tensor& y);

}  // namespace lockstep
