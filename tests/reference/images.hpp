// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "ops/image/image_changes.hpp"

namespace lockstep::reference {

/// An image [height, width, channels], with what ImageChange says done to it step by step, each on the whole image.
/// Without noise, and before it is mixed.
struct Picture {
  std::int64_t height, width, channels;
  std::vector<double> x;

  double& at(std::int64_t row, std::int64_t column, std::int64_t c) {
    return x[static_cast<std::size_t>((row * width + column) * channels + c)];
  }
  double grey(std::int64_t row, std::int64_t column) {
    if (channels == 3) return 0.2989 * at(row, column, 0) + 0.587 * at(row, column, 1) + 0.114 * at(row, column, 2);
    double sum = 0;
    for (std::int64_t c = 0; c < channels; ++c) sum += at(row, column, c);
    return sum / static_cast<double>(channels);
  }
  template <class F>
  void for_pixels(F f) {
    for (std::int64_t row = 0; row < height; ++row)
      for (std::int64_t column = 0; column < width; ++column) f(row, column);
  }

  void crop(const ImageChange& change, std::int64_t rows, std::int64_t columns) {
    Picture from = *this;
    *this = {rows, columns, channels, std::vector<double>(static_cast<std::size_t>(rows * columns * channels))};
    const std::int64_t top = std::lround(change.top), left = std::lround(change.left),
                       bottom = top + std::lround(change.down * static_cast<float>(rows)) - 1,
                       right = left + std::lround(change.right * static_cast<float>(columns)) - 1;
    for_pixels([&](std::int64_t row, std::int64_t column) {
      for (std::int64_t c = 0; c < channels; ++c) {
        if (change.down == 1 && change.right == 1) {
          const std::int64_t i = row + std::lround(change.top), j = column + std::lround(change.left);
          at(row, column, c) = i >= 0 && i < from.height && j >= 0 && j < from.width ? from.at(i, j, c) : 0;
          continue;
        }
        const double y = change.top + change.down * (static_cast<double>(row) + 0.5) - 0.5,
                     z = change.left + change.right * (static_cast<double>(column) + 0.5) - 0.5;
        double sum = 0;
        for (const std::int64_t i : {std::int64_t(std::floor(y)), std::int64_t(std::floor(y)) + 1})
          for (const std::int64_t j : {std::int64_t(std::floor(z)), std::int64_t(std::floor(z)) + 1})
            sum += (1 - std::abs(y - static_cast<double>(i))) * (1 - std::abs(z - static_cast<double>(j))) *
                   from.at(std::clamp(i, top, bottom), std::clamp(j, left, right), c);
        at(row, column, c) = sum;
      }
    });
  }
  void flip() {
    Picture from = *this;
    for_pixels([&](std::int64_t row, std::int64_t column) {
      for (std::int64_t c = 0; c < channels; ++c) at(row, column, c) = from.at(row, width - 1 - column, c);
    });
  }
  void blend(double factor, std::vector<double> with, double largest) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::clamp(factor * x[i] + (1 - factor) * with[i], 0.0, largest);
  }
  void jitter(const ImageChange& change, double largest) {
    blend(change.brightness, std::vector<double>(x.size(), 0.0), largest);
    double mean = 0;
    for_pixels([&](std::int64_t row, std::int64_t column) {
      mean += grey(row, column) / static_cast<double>(height * width);
    });
    blend(change.contrast, std::vector<double>(x.size(), mean), largest);
    std::vector<double> greys;
    for_pixels([&](std::int64_t row, std::int64_t column) {
      for (std::int64_t c = 0; c < channels; ++c) greys.push_back(grey(row, column));
    });
    blend(change.saturation, greys, largest);
    for_pixels([&](std::int64_t row, std::int64_t column) {
      if (change.hue != 0) turn(&at(row, column, 0), change.hue);
    });
  }
  /// To hue, saturation and value and back, as torchvision's adjust_hue.
  static void turn(double* rgb, double turns) {
    const double r = rgb[0], g = rgb[1], b = rgb[2], v = std::max({r, g, b}), range = v - std::min({r, g, b});
    if (range == 0) return;
    const double rc = (v - r) / range, gc = (v - g) / range, bc = (v - b) / range;
    const double h = v == r ? bc - gc : v == g ? 2 + rc - bc : 4 + gc - rc;
    const double turned = std::fmod(h / 6 + 2 + turns, 1) * 6, i = std::floor(turned), f = turned - i, s = range / v;
    const double p = v * (1 - s), q = v * (1 - s * f), t = v * (1 - s * (1 - f));
    const double sectors[6][3] = {{v, t, p}, {q, v, p}, {p, v, t}, {p, q, v}, {t, p, v}, {v, p, q}};
    std::copy_n(sectors[static_cast<int>(i) % 6], 3, rgb);
  }
  /// (x / largest − mean) / std, and the cut.
  void finish(const ImageChange& change, double largest, double mean, double std) {
    for (double& value : x) value = (value / largest - mean) / std;
    for_pixels([&](std::int64_t row, std::int64_t column) {
      if (row < change.cut.top || row >= change.cut.bottom || column < change.cut.left || column >= change.cut.right)
        return;
      for (std::int64_t c = 0; c < channels; ++c) at(row, column, c) = 0;
    });
  }
};

/// `rows`, `columns`: of the result.
inline std::vector<double> changed(Picture picture, const ImageChange& change, std::int64_t rows, std::int64_t columns,
                                   double mean, double std) {
  picture.crop(change, rows, columns);
  if (change.flip) picture.flip();
  picture.jitter(change, 255);
  picture.finish(change, 255, mean, std);
  return picture.x;
}

/// Of two images of which both are changed already.
inline std::vector<double> mixed(const ImageChange& change, std::int64_t width, std::int64_t channels,
                                 const std::vector<double>& own, const std::vector<double>& other) {
  std::vector<double> result = own;
  const bool boxes = change.other.bottom > change.other.top && change.other.right > change.other.left;
  for (std::size_t i = 0; i < own.size() && change.mixed; ++i) {
    const auto pixel = static_cast<std::int64_t>(i) / channels, row = pixel / width, column = pixel % width;
    const bool inside = row >= change.other.top && row < change.other.bottom && column >= change.other.left &&
                        column < change.other.right;
    result[i] = boxes ? (inside ? other[i] : own[i]) : change.share * own[i] + (1 - change.share) * other[i];
  }
  return result;
}

}  // namespace lockstep::reference
