// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <span>

#include "core/random.hpp"

namespace lockstep {

inline constexpr int glyph_size = 28;  ///< pixels on each side
inline constexpr int glyph_classes = 10;

/// Draws a digit as a hand might: its strokes under a random affine map (rotation, shear, scale,
/// shift), bent by a smooth random field, with a pen of random width, ink and noise.
/// `noise`: amplitude of the pixel noise, 0 to 1.
///
/// The image is the same on every machine: only + − × ÷ and sqrt are used, which IEEE 754 defines
/// to the last bit, and this file is compiled without contraction into fused multiply-adds.
void draw_glyph(const RandomStream& random, int digit, double noise, std::uint8_t* pixels /* [28, 28] */);

inline constexpr int page_size = 64;  ///< pixels on each side
inline constexpr int page_classes = 1 + glyph_classes;
inline constexpr int page_cells = 4;  ///< in two rows; each cell holds a digit or nothing

/// Draws a page with up to four digits, and the class of each pixel: 0 for paper, 1 + digit for ink. `cells`: random
/// numbers for each cell. Like glyphs, the page is the same on every machine.
void draw_page(std::span<const RandomStream, page_cells> cells, const RandomStream& dirt, double noise,
               std::uint8_t* pixels /* [64, 64] */, std::int32_t* classes /* [64, 64] */);

}  // namespace lockstep
