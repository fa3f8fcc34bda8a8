// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/pooling.hpp"

namespace lockstep {
namespace {

// A team a row of pixels, vectors along C. The window loop is outside the vector loop, so that on
// CPUs the inner loops are contiguous and without branches.
using Team = Kokkos::TeamPolicy<ExecSpace>;
using Member = Team::member_type;

template <class T>
void max_forward(const ExecSpace& space, const PoolingShape& s, const T* x, T* y, std::uint8_t* winner) {
  const std::int64_t out_h = s.out_h(), out_w = s.out_w();
  Kokkos::parallel_for(
      "lockstep::max_pool::forward", Team(space, static_cast<int>(s.n * out_h), Kokkos::AUTO),
      KOKKOS_LAMBDA(const Member& team) {
        const std::int64_t image = team.league_rank() / out_h, oy = team.league_rank() % out_h;
        Kokkos::parallel_for(Kokkos::TeamThreadRange(team, out_w), [&](const std::int64_t ox) {
          const std::int64_t top = oy * s.stride - s.padding, left = ox * s.stride - s.padding;
          const std::int64_t y0 = top < 0 ? 0 : top, x0 = left < 0 ? 0 : left;
          const std::int64_t y1 = top + s.kernel < s.h ? top + s.kernel : s.h;
          const std::int64_t x1 = left + s.kernel < s.w ? left + s.kernel : s.w;
          const std::int64_t at = (team.league_rank() * out_w + ox) * s.c;
          T* const best = y + at;
          std::uint8_t* const place = winner ? winner + at : nullptr;
          const auto pixel = [&](std::int64_t iy, std::int64_t ix) {
            return x + ((image * s.h + iy) * s.w + ix) * s.c;
          };
          const auto number = [&](std::int64_t iy, std::int64_t ix) {
            return static_cast<std::uint8_t>((iy - top) * s.kernel + (ix - left));
          };
          const T* const first = pixel(y0, x0);
          const std::uint8_t first_number = number(y0, x0);
          Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, s.c), [&](const std::int64_t c) {
            best[c] = first[c];
            if (place) place[c] = first_number;
          });
          for (std::int64_t iy = y0; iy < y1; ++iy)
            for (std::int64_t ix = x0; ix < x1; ++ix) {
              const T* const candidate = pixel(iy, ix);
              const std::uint8_t candidate_number = number(iy, ix);
              Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, s.c), [&](const std::int64_t c) {
                const bool wins = candidate[c] > best[c] || candidate[c] != candidate[c];
                best[c] = wins ? candidate[c] : best[c];
                if (place) place[c] = wins ? candidate_number : place[c];
              });
            }
        });
      });
}

// Sums are kept in registers, in fp32 for 16 bits: of this many channels at a time on CPUs, of one a thread on GPUs.
constexpr int tile = kernels_run_on_host ? 16 : 1;

/// Calls add(sum, c, width) to sum up channels c … c+width−1, with a constant width where all of a tile are there,
/// and stores the sums in `to`.
template <class T, class Add>
KOKKOS_INLINE_FUNCTION void sum_channels(const Member& team, std::int64_t channels, T* to, const Add& add) {
  using C = Compute<T>;
  Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, (channels + tile - 1) / tile), [&](const std::int64_t index) {
    const std::int64_t c = index * tile;
    const int width = static_cast<int>(channels - c < tile ? channels - c : tile);
    C sum[tile] = {};
    if (width == tile) add(sum, c, tile);
    else add(sum, c, width);
    for (int j = 0; j < width; ++j) to[c + j] = T(sum[j]);
  });
}

template <class T>
void average_forward(const ExecSpace& space, const PoolingShape& s, const T* x, T* y) {
  using C = Compute<T>;
  const std::int64_t out_h = s.out_h(), out_w = s.out_w();
  const C scale = C(1) / static_cast<C>(s.kernel * s.kernel);
  Kokkos::parallel_for(
      "lockstep::avg_pool::forward", Team(space, static_cast<int>(s.n * out_h), Kokkos::AUTO),
      KOKKOS_LAMBDA(const Member& team) {
        const std::int64_t image = team.league_rank() / out_h, oy = team.league_rank() % out_h;
        Kokkos::parallel_for(Kokkos::TeamThreadRange(team, out_w), [&](const std::int64_t ox) {
          const std::int64_t top = oy * s.stride - s.padding, left = ox * s.stride - s.padding;
          sum_channels(team, s.c, y + (team.league_rank() * out_w + ox) * s.c, [&](C* sum, std::int64_t c, int width) {
            for (std::int64_t iy = top < 0 ? 0 : top; iy < top + s.kernel && iy < s.h; ++iy)
              for (std::int64_t ix = left < 0 ? 0 : left; ix < left + s.kernel && ix < s.w; ++ix) {
                const T* const pixel = x + ((image * s.h + iy) * s.w + ix) * s.c + c;
                for (int j = 0; j < width; ++j) sum[j] += C(pixel[j]) * scale;
              }
          });
        });
      });
}

/// Adds to each pixel of dx what the windows over it send it: of max, the gradient where the pixel
/// won; of average, an equal part.
template <class T>
void backward(const ExecSpace& space, PoolingKind kind, const PoolingShape& s, const std::uint8_t* winner,
              const T* dy, T* dx) {
  using C = Compute<T>;
  const std::int64_t out_h = s.out_h(), out_w = s.out_w();
  const bool is_max = kind == PoolingKind::max;
  const C scale = C(1) / static_cast<C>(s.kernel * s.kernel);
  Kokkos::parallel_for(
      is_max ? "lockstep::max_pool::backward" : "lockstep::avg_pool::backward",
      Team(space, static_cast<int>(s.n * s.h), Kokkos::AUTO), KOKKOS_LAMBDA(const Member& team) {
        const std::int64_t image = team.league_rank() / s.h, iy = team.league_rank() % s.h;
        const auto first_window = [&](std::int64_t i) {
          const std::int64_t reach = i + s.padding - s.kernel + 1;
          return reach <= 0 ? std::int64_t{0} : (reach + s.stride - 1) / s.stride;
        };
        Kokkos::parallel_for(Kokkos::TeamThreadRange(team, s.w), [&](const std::int64_t ix) {
          sum_channels(team, s.c, dx + (team.league_rank() * s.w + ix) * s.c, [&](C* sum, std::int64_t c, int width) {
            for (std::int64_t oy = first_window(iy); oy < out_h && oy * s.stride - s.padding <= iy; ++oy)
              for (std::int64_t ox = first_window(ix); ox < out_w && ox * s.stride - s.padding <= ix; ++ox) {
                const std::int64_t at = ((image * out_h + oy) * out_w + ox) * s.c + c;
                const T* const gradient = dy + at;
                if (is_max) {
                  const std::uint8_t* const place = winner + at;
                  const auto number = static_cast<std::uint8_t>((iy - (oy * s.stride - s.padding)) * s.kernel +
                                                                (ix - (ox * s.stride - s.padding)));
                  for (int j = 0; j < width; ++j) sum[j] += place[j] == number ? C(gradient[j]) : C(0);
                } else {
                  for (int j = 0; j < width; ++j) sum[j] += C(gradient[j]) * scale;
                }
              }
          });
        });
      });
}

}  // namespace

void pooling_forward(const ExecSpace& space, PoolingKind kind, const PoolingShape& shape, const Tensor& x,
                     const Tensor& y, const Tensor& winner) {
  dispatch_float(x.dtype, [&]<class T>(T) {
    if (kind == PoolingKind::max)
      max_forward<T>(space, shape, x.as<T>(), y.as<T>(), winner ? winner.as<std::uint8_t>() : nullptr);
    else
      average_forward<T>(space, shape, x.as<T>(), y.as<T>());
  });
}

void pooling_backward(const ExecSpace& space, PoolingKind kind, const PoolingShape& shape, const Tensor& winner,
                      const Tensor& dy, const Tensor& dx) {
  dispatch_float(dy.dtype, [&]<class T>(T) {
    backward<T>(space, kind, shape, winner ? winner.as<std::uint8_t>() : nullptr, dy.as<T>(), dx.as<T>());
  });
}

}  // namespace lockstep
