// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include "ops/pool/pooling.hpp"

namespace lockstep::reference {

/// Plain loops in f64; the winners count inside their windows.
struct Pooled {
  std::vector<double> y, dx;
  std::vector<int> winner;
};

inline Pooled pool(PoolingKind kind, const PoolingShape& s, const std::vector<double>& x,
                   const std::vector<double>& dy) {
  Pooled result;
  result.dx.assign(x.size(), 0.0);
  std::size_t out = 0;
  for (std::int64_t n = 0; n < s.n; ++n)
    for (std::int64_t oy = 0; oy < s.out_h(); ++oy)
      for (std::int64_t ox = 0; ox < s.out_w(); ++ox)
        for (std::int64_t c = 0; c < s.c; ++c, ++out) {
          double best = -INFINITY, sum = 0;
          std::size_t best_at = 0;
          int winner = -1;
          for (std::int64_t ky = 0; ky < s.vertical.kernel; ++ky)
            for (std::int64_t kx = 0; kx < s.horizontal.kernel; ++kx) {
              const std::int64_t iy = oy * s.vertical.stride - s.vertical.padding + ky;
              const std::int64_t ix = ox * s.horizontal.stride - s.horizontal.padding + kx;
              if (iy < 0 || iy >= s.h || ix < 0 || ix >= s.w) continue;
              const auto at = static_cast<std::size_t>(((n * s.h + iy) * s.w + ix) * s.c + c);
              sum += x[at];
              if (winner < 0 || x[at] > best)
                best = x[at], best_at = at, winner = static_cast<int>(ky * s.horizontal.kernel + kx);
              if (kind == PoolingKind::average)
                result.dx[at] += dy[out] / static_cast<double>(s.vertical.kernel * s.horizontal.kernel);
            }
          if (kind == PoolingKind::max) result.dx[best_at] += dy[out];
          result.y.push_back(
              kind == PoolingKind::max ? best : sum / static_cast<double>(s.vertical.kernel * s.horizontal.kernel));
          result.winner.push_back(winner);
        }
  return result;
}

}  // namespace lockstep::reference
