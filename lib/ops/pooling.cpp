// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/pooling.hpp"

namespace lockstep {
namespace {

// A team a row of pixels, vectors along C. The window loop is outside the vector loop, so that on
// CPUs the inner loops are contiguous and without branches.
using Team = Kokkos::TeamPolicy<ExecSpace>;
using Member = Team::member_type;

inline Team pixel_rows(const ExecSpace& space, std::int64_t rows) {
  const auto teams = static_cast<int>(rows);
  return thread_per_element ? Team(space, teams, Kokkos::AUTO, 32) : Team(space, teams, Kokkos::AUTO);
}

template <class T>
void max_forward(const ExecSpace& space, const PoolingShape& s, const T* x, T* y, std::uint8_t* winner) {
  const std::int64_t out_h = s.out_h(), out_w = s.out_w();
  Kokkos::parallel_for(
      "lockstep::max_pool::forward", pixel_rows(space, s.n * out_h), KOKKOS_LAMBDA(const Member& team) {
        const std::int64_t image = team.league_rank() / out_h, oy = team.league_rank() % out_h;
        Kokkos::parallel_for(Kokkos::TeamThreadRange(team, out_w), [&](const std::int64_t ox) {
          const std::int64_t top = oy * s.vertical.stride - s.vertical.padding;
          const std::int64_t left = ox * s.horizontal.stride - s.horizontal.padding;
          const std::int64_t y0 = top < 0 ? 0 : top, x0 = left < 0 ? 0 : left;
          const std::int64_t y1 = top + s.vertical.kernel < s.h ? top + s.vertical.kernel : s.h;
          const std::int64_t x1 = left + s.horizontal.kernel < s.w ? left + s.horizontal.kernel : s.w;
          const std::int64_t at = (team.league_rank() * out_w + ox) * s.c;
          T* const best = y + at;
          std::uint8_t* const place = winner ? winner + at : nullptr;
          const auto pixel = [&](std::int64_t iy, std::int64_t ix) {
            return x + ((image * s.h + iy) * s.w + ix) * s.c;
          };
          const auto number = [&](std::int64_t iy, std::int64_t ix) {
            return static_cast<std::uint8_t>((iy - top) * s.horizontal.kernel + (ix - left));
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
constexpr int channel_tile = thread_per_element ? 1 : 16;

/// Calls add(sum, c, width) to sum up channels c … c+width−1, with a constant width where all of a tile are there,
/// and stores the sums in `to`.
template <class T, class Add>
KOKKOS_INLINE_FUNCTION void sum_channels(const Member& team, std::int64_t channels, T* to, const Add& add) {
  using C = Compute<T>;
  Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, (channels + channel_tile - 1) / channel_tile),
                       [&](const std::int64_t index) {
                         const std::int64_t c = index * channel_tile;
                         const int width = static_cast<int>(channels - c < channel_tile ? channels - c : channel_tile);
                         C sum[channel_tile] = {};
                         if (width == channel_tile) add(sum, c, channel_tile);
                         else add(sum, c, width);
                         for (int j = 0; j < width; ++j) to[c + j] = T(sum[j]);
                       });
}

template <class T>
void average_forward(const ExecSpace& space, const PoolingShape& s, const T* x, T* y) {
  using C = Compute<T>;
  const std::int64_t out_h = s.out_h(), out_w = s.out_w();
  const C scale = C(1) / static_cast<C>(s.vertical.kernel * s.horizontal.kernel);
  Kokkos::parallel_for(
      "lockstep::avg_pool::forward", pixel_rows(space, s.n * out_h), KOKKOS_LAMBDA(const Member& team) {
        const std::int64_t image = team.league_rank() / out_h, oy = team.league_rank() % out_h;
        Kokkos::parallel_for(Kokkos::TeamThreadRange(team, out_w), [&](const std::int64_t ox) {
          const std::int64_t top = oy * s.vertical.stride - s.vertical.padding;
          const std::int64_t left = ox * s.horizontal.stride - s.horizontal.padding;
          sum_channels(team, s.c, y + (team.league_rank() * out_w + ox) * s.c, [&](C* sum, std::int64_t c, int width) {
            for (std::int64_t iy = top < 0 ? 0 : top; iy < top + s.vertical.kernel && iy < s.h; ++iy)
              for (std::int64_t ix = left < 0 ? 0 : left; ix < left + s.horizontal.kernel && ix < s.w; ++ix) {
                const T* const pixel = x + ((image * s.h + iy) * s.w + ix) * s.c + c;
                for (int j = 0; j < width; ++j) sum[j] += C(pixel[j]) * scale;
              }
          });
        });
      });
}

/// The windows over position i of an axis with `count` windows: [begin, end).
struct Windows {
  std::int64_t begin, end;
};
KOKKOS_INLINE_FUNCTION Windows windows_over(std::int64_t i, std::int64_t count, const PoolingWindows& w) {
  const std::int64_t reach = i + w.padding - w.kernel + 1, last = (i + w.padding) / w.stride + 1;
  return {reach <= 0 ? 0 : (reach + w.stride - 1) / w.stride, last < count ? last : count};
}

/// Gives each pixel of dx what the windows over it send: of max, the gradient where the pixel won; of
/// average, an equal part.
template <bool is_max, class T>
void backward(const ExecSpace& space, const PoolingShape& s, const std::uint8_t* winner, const T* dy, T* dx) {
  using C = Compute<T>;
  const std::int64_t out_h = s.out_h(), out_w = s.out_w();
  const C scale = C(1) / static_cast<C>(s.vertical.kernel * s.horizontal.kernel);
  Kokkos::parallel_for(
      is_max ? "lockstep::max_pool::backward" : "lockstep::avg_pool::backward", pixel_rows(space, s.n * s.h),
      KOKKOS_LAMBDA(const Member& team) {
        const std::int64_t image = team.league_rank() / s.h, iy = team.league_rank() % s.h;
        const Windows rows = windows_over(iy, out_h, s.vertical);
        Kokkos::parallel_for(Kokkos::TeamThreadRange(team, s.w), [&](const std::int64_t ix) {
          const Windows columns = windows_over(ix, out_w, s.horizontal);
          const auto window = [&](std::int64_t oy, std::int64_t ox) {
            return ((image * out_h + oy) * out_w + ox) * s.c;
          };
          const auto number = [&](std::int64_t oy, std::int64_t ox) {
            return static_cast<std::uint8_t>((iy - (oy * s.vertical.stride - s.vertical.padding)) *
                                                 s.horizontal.kernel +
                                             (ix - (ox * s.horizontal.stride - s.horizontal.padding)));
          };
          const auto share = [=](std::uint8_t place, std::uint8_t own, C gradient) {
            return is_max ? (place == own ? gradient : C(0)) : gradient * scale;
          };
          T* const to = dx + (team.league_rank() * s.w + ix) * s.c;
          if (rows.end - rows.begin == 1 && columns.end - columns.begin == 1) {  // mostly: windows side by side
            const std::int64_t at = window(rows.begin, columns.begin);
            const std::uint8_t own = number(rows.begin, columns.begin);
            Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, s.c), [&](const std::int64_t c) {
              to[c] = T(share(is_max ? winner[at + c] : own, own, C(dy[at + c])));
            });
            return;
          }
          sum_channels(team, s.c, to, [&](C* sum, std::int64_t c, int width) {
            for (std::int64_t oy = rows.begin; oy < rows.end; ++oy)
              for (std::int64_t ox = columns.begin; ox < columns.end; ++ox) {
                const std::int64_t at = window(oy, ox) + c;
                const std::uint8_t own = number(oy, ox);
                for (int j = 0; j < width; ++j) sum[j] += share(is_max ? winner[at + j] : own, own, C(dy[at + j]));
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
    else average_forward<T>(space, shape, x.as<T>(), y.as<T>());
  });
}

void pooling_backward(const ExecSpace& space, PoolingKind kind, const PoolingShape& shape, const Tensor& winner,
                      const Tensor& dy, const Tensor& dx) {
  dispatch_float(dy.dtype, [&]<class T>(T) {
    if (kind == PoolingKind::max) backward<true, T>(space, shape, winner.as<std::uint8_t>(), dy.as<T>(), dx.as<T>());
    else backward<false, T>(space, shape, nullptr, dy.as<T>(), dx.as<T>());
  });
}

}  // namespace lockstep
