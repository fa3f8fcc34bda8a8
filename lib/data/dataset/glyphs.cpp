// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/dataset/glyphs.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <vector>

namespace lockstep {
namespace {

struct Point {
  double x, y;
};

/// Strokes are chains of quadratic curves: a point, then pairs of a control point and an end point, in a unit box with
/// y downwards.
using Stroke = std::vector<Point>;
using Glyph = std::vector<Stroke>;

/// The ways of writing each digit.
const std::array<std::vector<Glyph>, glyph_classes>& alphabet() {
  static const std::array<std::vector<Glyph>, glyph_classes> digits{{
      {{{{.5, 0}, {.92, 0}, {.9, .5}, {.9, 1}, {.5, 1}, {.1, 1}, {.1, .5}, {.08, 0}, {.52, 0}}}},
      {{{{.5, 0}, {.5, .5}, {.5, 1}}},
       {{{.3, .25}, {.45, .15}, {.55, 0}, {.55, .5}, {.55, 1}}},
       {{{.3, .25}, {.45, .15}, {.52, 0}, {.52, .5}, {.52, 1}}, {{.25, 1}, {.5, 1}, {.8, 1}}}},
      {{{{.12, .25}, {.2, 0}, {.5, 0}, {.92, 0}, {.85, .32}, {.75, .6}, {.1, 1}, {.5, 1}, {.92, 1}}},
       {{{.15, .2},
         {.3, 0},
         {.55, 0},
         {.9, .05},
         {.75, .4},
         {.6, .7},
         {.25, .98},
         {.1, 1},
         {.15, .85},
         {.3, .75},
         {.92, 1}}}},
      {{{{.12, .1}, {.85, -.12}, {.82, .23}, {.8, .47}, {.38, .47}, {.92, .5}, {.88, .75}, {.8, 1.08}, {.1, .9}}},
       {{{.12, 0}, {.5, 0}, {.85, 0}, {.6, .2}, {.42, .42}, {.92, .42}, {.88, .72}, {.8, 1.08}, {.1, .9}}}},
      {{{{.6, 0}, {.35, .35}, {.1, .66}, {.5, .66}, {.95, .66}}, {{.7, .3}, {.7, .65}, {.68, 1}}},
       {{{.2, 0}, {.1, .3}, {.12, .5}, {.4, .52}, {.82, .5}}, {{.82, 0}, {.8, .5}, {.75, 1}}}},
      {{{{.88, 0}, {.5, 0}, {.25, 0}, {.2, .2}, {.18, .45}, {.92, .3}, {.88, .7}, {.82, 1.08}, {.1, .92}}}},
      {{{{.75, 0},
         {.1, .25},
         {.12, .7},
         {.14, 1},
         {.5, 1},
         {.88, 1},
         {.88, .72},
         {.88, .45},
         {.5, .45},
         {.2, .48},
         {.13, .72}}}},
      {{{{.1, 0}, {.5, 0}, {.9, 0}, {.55, .45}, {.4, 1}}},
       {{{.1, .05}, {.5, 0}, {.9, 0}, {.6, .45}, {.4, 1}}, {{.28, .5}, {.5, .5}, {.78, .48}}}},
      {{{{.5, .47},
         {.12, .35},
         {.2, .18},
         {.3, 0},
         {.5, 0},
         {.8, 0},
         {.82, .22},
         {.8, .38},
         {.5, .47},
         {.1, .58},
         {.12, .77},
         {.15, 1},
         {.5, 1},
         {.88, 1},
         {.88, .77},
         {.88, .58},
         {.5, .47}}}},
      {{{{.85, .28},
         {.8, 0},
         {.5, 0},
         {.12, 0},
         {.13, .3},
         {.15, .56},
         {.5, .56},
         {.82, .52},
         {.87, .2},
         {.9, .6},
         {.72, 1}}},
       {{{.85, .25},
         {.75, 0},
         {.5, 0},
         {.12, 0},
         {.14, .3},
         {.16, .56},
         {.5, .56},
         {.82, .52},
         {.87, .2},
         {.92, .9},
         {.62, 1},
         {.4, 1.02},
         {.2, .9}}}},
  }};
  return digits;
}

/// Random numbers for one image, one after the other.
class Hand {
 public:
  explicit Hand(const RandomStream& random, std::uint64_t first = 0) : random_(random), next_(first) {}
  /// In [−amplitude, amplitude).
  double about_zero(double amplitude) { return amplitude * (2 * random_.uniform(next_++) - 1); }
  double between(double low, double high) { return low + (high - low) * random_.uniform(next_++); }
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_.below(n, next_++)); }
  RandomBits bits() { return random_.bits(next_++); }

 private:
  const RandomStream& random_;
  std::uint64_t next_;
};

/// Maps the unit box to pixels.
class Placement {
 public:
  explicit Placement(Hand& hand) {
    // A rotation without sine and cosine: t = tan(angle / 2), at most ±20 degrees.
    const double t = hand.about_zero(0.176);
    const double cosine = (1 - t * t) / (1 + t * t), sine = 2 * t / (1 + t * t);
    const double shear = hand.about_zero(0.3);
    const double width = hand.between(10, 17), height = hand.between(16, 21);
    xx_ = cosine * width;
    xy_ = (cosine * shear - sine) * height;
    yx_ = sine * width;
    yy_ = (sine * shear + cosine) * height;
    shift_ = {glyph_size * 0.5 + hand.about_zero(2.2), glyph_size * 0.5 + hand.about_zero(2.2)};
    for (auto& row : bend_)
      for (auto& point : row) point = {hand.about_zero(0.12), hand.about_zero(0.12)};
  }

  Point operator()(Point p) const {
    const Point bend = bend_at(p);
    const double x = p.x + bend.x - 0.5, y = p.y + bend.y - 0.5;
    return {shift_.x + xx_ * x + xy_ * y, shift_.y + yx_ * x + yy_ * y};
  }

 private:
  /// Elastic jitter: displacements on a coarse grid, interpolated between its points.
  Point bend_at(Point p) const {
    const double u = std::clamp(p.x, 0.0, 0.999) * (grid - 1), v = std::clamp(p.y, 0.0, 0.999) * (grid - 1);
    const auto i = static_cast<std::size_t>(u), j = static_cast<std::size_t>(v);
    const double a = u - static_cast<double>(i), b = v - static_cast<double>(j);
    const auto mix = [&](double Point::* c) {
      return (1 - b) * ((1 - a) * (bend_[j][i].*c) + a * (bend_[j][i + 1].*c)) +
             b * ((1 - a) * (bend_[j + 1][i].*c) + a * (bend_[j + 1][i + 1].*c));
    };
    return {mix(&Point::x), mix(&Point::y)};
  }

  static constexpr int grid = 3;
  double xx_, xy_, yx_, yy_;
  Point shift_;
  std::array<std::array<Point, grid>, grid> bend_;
};

/// Holds, for every pixel, the squared distance from the line that the pen has followed.
class Canvas {
 public:
  explicit Canvas(double radius) : reach_(radius + 0.5), radius_(radius) { squared_.fill(reach_ * reach_); }

  void line(Point a, Point b) {
    const double dx = b.x - a.x, dy = b.y - a.y;
    const double length = dx * dx + dy * dy;
    const double scale = length > 0 ? 1 / length : 0;
    const int left = pixel(std::min(a.x, b.x) - reach_), right = pixel(std::max(a.x, b.x) + reach_);
    const int top = pixel(std::min(a.y, b.y) - reach_), bottom = pixel(std::max(a.y, b.y) + reach_);
    for (int row = top; row <= bottom; ++row)
      for (int column = left; column <= right; ++column) {
        const double px = column + 0.5 - a.x, py = row + 0.5 - a.y;
        const double along = std::clamp((px * dx + py * dy) * scale, 0.0, 1.0);
        const double ex = px - along * dx, ey = py - along * dy;
        double& squared = squared_[static_cast<std::size_t>(row * glyph_size + column)];
        squared = std::min(squared, ex * ex + ey * ey);
      }
  }

  /// 0 (paper) to 1 (ink), with edges one pixel wide.
  double ink(std::size_t pixel) const { return std::clamp(radius_ + 0.5 - std::sqrt(squared_[pixel]), 0.0, 1.0); }

 private:
  static int pixel(double place) { return static_cast<int>(std::clamp(place, 0.0, glyph_size - 1.0)); }

  double reach_, radius_;
  std::array<double, static_cast<std::size_t>(glyph_size) * glyph_size> squared_;
};

void draw_stroke(std::span<const Point> points, Canvas& canvas) {
  constexpr int pieces = 5;
  Point from = points[0];
  for (std::size_t i = 0; i + 2 < points.size(); i += 2)
    for (int piece = 1; piece <= pieces; ++piece) {
      const double t = static_cast<double>(piece) / pieces, s = 1 - t;
      const Point to{s * s * points[i].x + 2 * s * t * points[i + 1].x + t * t * points[i + 2].x,
                     s * s * points[i].y + 2 * s * t * points[i + 1].y + t * t * points[i + 2].y};
      canvas.line(from, to);
      from = to;
    }
}

/// Returns the value of a pixel with noise, by the k-th of 16 random bytes.
std::uint8_t with_noise(double value, double noise, const RandomBits& bits, std::size_t k) {
  const auto byte = static_cast<int>((bits.word[k / 4] >> (8 * (k % 4))) & 255u);
  return static_cast<std::uint8_t>(std::clamp(value + noise * (byte - 127.5), 0.0, 255.0));
}

}  // namespace

void draw_glyph(const RandomStream& random, int digit, double noise, std::uint8_t* pixels) {
  Hand hand(random);
  const auto& ways = alphabet()[static_cast<std::size_t>(digit)];
  const Glyph& glyph = ways[hand.below(ways.size())];
  const Placement place(hand);
  Canvas canvas(hand.between(0.7, 1.7));
  const double ink = hand.between(190, 255);

  std::array<Point, 24> points;
  for (const auto& stroke : glyph) {
    for (std::size_t i = 0; i < stroke.size(); ++i) {
      const double dx = hand.about_zero(0.045), dy = hand.about_zero(0.045);
      points[i] = place({stroke[i].x + dx, stroke[i].y + dy});
    }
    draw_stroke(std::span(points).first(stroke.size()), canvas);
  }

  constexpr std::size_t count = static_cast<std::size_t>(glyph_size) * glyph_size;
  for (std::size_t i = 0; i < count; i += 16) {
    const RandomBits bits = hand.bits();
    for (std::size_t k = 0; k < 16; ++k) pixels[i + k] = with_noise(ink * canvas.ink(i + k), noise, bits, k);
  }
}

void draw_page(std::span<const RandomStream, page_cells> cells, const RandomStream& dirt, double noise,
               std::uint8_t* pixels, std::int32_t* classes) {
  constexpr std::size_t size = page_size, cell_size = size / 2, count = size * size;
  constexpr int least_ink = 64;
  std::fill_n(classes, count, 0);
  std::fill_n(pixels, count, std::uint8_t{0});
  for (std::size_t cell = 0; cell < page_cells; ++cell) {
    // Begins far behind the numbers that the glyph takes.
    Hand hand(cells[cell], std::uint64_t{1} << 32);
    if (hand.below(4) == 0) continue;
    const auto digit = static_cast<int>(hand.below(glyph_classes));
    const std::size_t top = cell / 2 * cell_size + hand.below(cell_size - glyph_size + 1),
                      left = cell % 2 * cell_size + hand.below(cell_size - glyph_size + 1);
    std::array<std::uint8_t, static_cast<std::size_t>(glyph_size) * glyph_size> glyph;
    draw_glyph(cells[cell], digit, 0, glyph.data());
    for (std::size_t i = 0; i < glyph.size(); ++i) {
      const std::size_t place = (top + i / glyph_size) * size + left + i % glyph_size;
      pixels[place] = glyph[i];
      classes[place] = glyph[i] >= least_ink ? 1 + digit : 0;
    }
  }
  Hand hand(dirt);
  for (std::size_t i = 0; i < count; i += 16) {
    const RandomBits bits = hand.bits();
    for (std::size_t k = 0; k < 16; ++k) pixels[i + k] = with_noise(pixels[i + k], noise, bits, k);
  }
}

}  // namespace lockstep
