// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/pool/pooling.hpp"

#include "ops/row_parts.hpp"

namespace lockstep {
namespace {

/// Windows [begin, end) along an axis.
struct Windows {
  int begin, end;
};

/// PoolingWindows in 32 bits, which suffice for an axis and halve the work of GPUs. `known_stride` makes the stride a
/// compile-time constant; 0: it is not.
template <int known_stride = 0>
struct AxisWindows {
  int kernel, given_stride, padding;

  explicit AxisWindows(const PoolingWindows& w)
      : kernel(static_cast<int>(w.kernel)),
        given_stride(static_cast<int>(w.stride)),
        padding(static_cast<int>(w.padding)) {}

  KOKKOS_INLINE_FUNCTION int stride() const { return known_stride > 0 ? known_stride : given_stride; }
  /// The first position of a window; negative in the padding.
  KOKKOS_INLINE_FUNCTION int first_of(int window) const { return window * stride() - padding; }
  /// The windows that cover any of the positions first … last; there are `count` windows in all.
  KOKKOS_INLINE_FUNCTION Windows over(int first, int last, int count) const {
    const auto step = static_cast<unsigned>(stride());
    const int reach = first + padding - kernel + 1;
    const int after = static_cast<int>(static_cast<unsigned>(last + padding) / step) + 1;
    return {reach <= 0 ? 0 : static_cast<int>((static_cast<unsigned>(reach) + step - 1) / step),
            after < count ? after : count};
  }
};

// On CPUs a team has a row of pixels, with vectors along C. The window loop is outside the vector loop, so that inner
// loops are contiguous and without branches.
using Team = Kokkos::TeamPolicy<ExecSpace>;
using Member = Team::member_type;

inline Team pixel_rows(const ExecSpace& space, std::int64_t rows) {
  return Team(space, static_cast<int>(rows), Kokkos::AUTO);
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

// Number of channels whose sums are kept in registers at a time; in fp32 for 16-bit types.
constexpr int channel_tile = 16;

/// Calls add(sum, c, width) to add up channels c … c + width − 1, with a compile-time width for whole tiles, and stores
/// the sums in `to`.
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

/// Each pixel of dx gathers from the windows that cover it: for max, the gradients of the windows that it won; for
/// average, an equal part of each.
template <bool is_max, class T>
void backward(const ExecSpace& space, const PoolingShape& s, const std::uint8_t* winner, const T* dy, T* dx) {
  using C = Compute<T>;
  const std::int64_t out_h = s.out_h(), out_w = s.out_w();
  const C scale = C(1) / static_cast<C>(s.vertical.kernel * s.horizontal.kernel);
  const AxisWindows<> vertical(s.vertical), horizontal(s.horizontal);
  Kokkos::parallel_for(
      is_max ? "lockstep::max_pool::backward" : "lockstep::avg_pool::backward", pixel_rows(space, s.n * s.h),
      KOKKOS_LAMBDA(const Member& team) {
        const std::int64_t image = team.league_rank() / s.h, iy = team.league_rank() % s.h;
        const int y = static_cast<int>(iy);
        const Windows rows = vertical.over(y, y, static_cast<int>(out_h));
        Kokkos::parallel_for(Kokkos::TeamThreadRange(team, s.w), [&](const std::int64_t ix) {
          const int x = static_cast<int>(ix);
          const Windows columns = horizontal.over(x, x, static_cast<int>(out_w));
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
          if (rows.end - rows.begin == 1 && columns.end - columns.begin == 1) {  // the usual case: windows side by side
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

// On GPUs a thread has a pack of channels of one pixel; in backward, of a few neighbouring pixels.

/// The pixel and pack of index `index` in [n, h, w] with `packs` packs for each pixel.
struct PackOfPixel {
  std::int64_t image, pack;
  int y, x;

  KOKKOS_INLINE_FUNCTION PackOfPixel(std::int64_t index, std::int64_t h, std::int64_t w, std::int64_t packs) {
    const std::int64_t pixel = row_of(index, packs), line = row_of(pixel, w);
    pack = index - pixel * packs;
    x = static_cast<int>(pixel - line * w);
    image = row_of(line, h);
    y = static_cast<int>(line - image * h);
  }
};

template <bool is_max, int lanes, class T>
void forward_packs(const ExecSpace& space, const PoolingShape& s, const T* x, T* y, std::uint8_t* winner) {
  using C = Compute<T>;
  const std::int64_t out_h = s.out_h(), out_w = s.out_w(), packs = s.c / lanes, of_line = s.w * s.c;
  const C scale = C(1) / static_cast<C>(s.vertical.kernel * s.horizontal.kernel);
  const AxisWindows<> vertical(s.vertical), horizontal(s.horizontal);
  const int height = static_cast<int>(s.h), width = static_cast<int>(s.w);
  Kokkos::parallel_for(
      is_max ? "lockstep::max_pool::forward" : "lockstep::avg_pool::forward",
      RangePolicy(space, 0, s.n * out_h * out_w * packs), KOKKOS_LAMBDA(const std::int64_t index) {
        const PackOfPixel at(index, out_h, out_w, packs);
        const int top = vertical.first_of(at.y), left = horizontal.first_of(at.x);
        const int bottom = top + vertical.kernel < height ? top + vertical.kernel : height;
        const int right = left + horizontal.kernel < width ? left + horizontal.kernel : width;
        const T* const image = x + at.image * height * of_line + at.pack * lanes;
        C best[lanes] = {};  // the sum for average
        Pack<std::uint8_t, lanes> place = {};
        bool any = false;
        for (int iy = top < 0 ? 0 : top; iy < bottom; ++iy)
          for (int ix = left < 0 ? 0 : left; ix < right; ++ix) {
            const auto pack = load_pack<lanes>(image + iy * of_line + ix * s.c);
            const auto number = static_cast<std::uint8_t>((iy - top) * horizontal.kernel + (ix - left));
            LOCKSTEP_UNROLL
            for (int l = 0; l < lanes; ++l) {
              const C value = C(pack.lane[l]);
              if (!is_max) {
                best[l] += value * scale;
              } else if (!any || value > best[l] || value != value) {
                best[l] = value;
                place.lane[l] = number;
              }
            }
            any = true;
          }
        Pack<T, lanes> result;
        LOCKSTEP_UNROLL
        for (int l = 0; l < lanes; ++l) result.lane[l] = T(best[l]);
        store_pack<lanes>(result, y + index * lanes);
        if (is_max && winner) store_pack<lanes>(place, winner + index * lanes);
      });
}

/// Divides the positions along an axis into blocks. The first block begins in the padding if that is no multiple of the
/// block, so that the same windows cover every block.
template <int block>
struct AxisBlocks {
  int extent, before;
  std::int64_t count;

  AxisBlocks(std::int64_t positions, const PoolingWindows& w)
      : extent(static_cast<int>(positions)),
        before(static_cast<int>(w.padding % block)),
        count((positions + before + block - 1) / block) {}

  KOKKOS_INLINE_FUNCTION int first_of(int i) const { return i * block - before; }
  KOKKOS_INLINE_FUNCTION bool has(int position) const { return position >= 0 && position < extent; }
};

/// If block is not 1, it is the stride along both axes, and a thread has block × block pixels. Each window that covers
/// any of them covers most of them, and its gradients are read once for all. The divisor on GPUs is then the stride, a
/// compile-time constant.
template <bool is_max, int lanes, int block, class T>
void backward_packs(const ExecSpace& space, const PoolingShape& s, const std::uint8_t* winner, const T* dy, T* dx) {
  using C = Compute<T>;
  const std::int64_t channels = s.c, packs = s.c / lanes, of_line = s.out_w() * s.c;
  const int out_h = static_cast<int>(s.out_h()), out_w = static_cast<int>(s.out_w());
  const C scale = C(1) / static_cast<C>(s.vertical.kernel * s.horizontal.kernel);
  const AxisWindows<block == 1 ? 0 : block> vertical(s.vertical), horizontal(s.horizontal);
  const AxisBlocks<block> rows(s.h, s.vertical), columns(s.w, s.horizontal);
  Kokkos::parallel_for(
      is_max ? "lockstep::max_pool::backward" : "lockstep::avg_pool::backward",
      RangePolicy(space, 0, s.n * rows.count * columns.count * packs), KOKKOS_LAMBDA(const std::int64_t index) {
        const PackOfPixel at(index, rows.count, columns.count, packs);
        const int top = rows.first_of(at.y), left = columns.first_of(at.x);
        const Windows down = vertical.over(top, top + block - 1, out_h);
        const Windows across = horizontal.over(left, left + block - 1, out_w);
        const std::int64_t image = at.image * out_h * of_line + at.pack * lanes;
        C sum[block][block][lanes] = {};
        for (int oy = down.begin; oy < down.end; ++oy)
          for (int ox = across.begin; ox < across.end; ++ox) {
            const std::int64_t from = image + oy * of_line + ox * channels;
            const auto gradient = load_pack<lanes>(dy + from);
            Pack<std::uint8_t, lanes> place = {};
            if (is_max) place = load_pack<lanes>(winner + from);
            const int y0 = top - vertical.first_of(oy), x0 = left - horizontal.first_of(ox);  // position in the window
            LOCKSTEP_UNROLL
            for (int y = 0; y < block; ++y) LOCKSTEP_UNROLL
            for (int x = 0; x < block; ++x) {
              if (y0 + y < 0 || y0 + y >= vertical.kernel || x0 + x < 0 || x0 + x >= horizontal.kernel) continue;
              const int own = (y0 + y) * horizontal.kernel + x0 + x;
              LOCKSTEP_UNROLL
              for (int l = 0; l < lanes; ++l) {
                const C value = C(gradient.lane[l]);
                if (!is_max) sum[y][x][l] += value * scale;
                else if (place.lane[l] == own) sum[y][x][l] += value;
              }
            }
          }
        T* const to = dx + at.image * rows.extent * columns.extent * channels + at.pack * lanes;
        LOCKSTEP_UNROLL
        for (int y = 0; y < block; ++y) LOCKSTEP_UNROLL
        for (int x = 0; x < block; ++x) {
          if (!rows.has(top + y) || !columns.has(left + x)) continue;
          Pack<T, lanes> result;
          LOCKSTEP_UNROLL
          for (int l = 0; l < lanes; ++l) result.lane[l] = T(sum[y][x][l]);
          store_pack<lanes>(result, to + ((top + y) * std::int64_t{columns.extent} + left + x) * channels);
        }
      });
}

}  // namespace

void pooling_forward(const ExecSpace& space, PoolingKind kind, const PoolingShape& shape, const Tensor& x,
                     const Tensor& y, const Tensor& winner) {
  const bool is_max = kind == PoolingKind::max;
  auto* const places = winner ? winner.as<std::uint8_t>() : nullptr;
  dispatch_float(x.dtype, [&]<class T>(T) {
    if constexpr (thread_per_element)
      with_packs<T>(
          shape.c,
          [&]<int lanes>(std::integral_constant<int, lanes>) {
            auto* run = is_max ? forward_packs<true, lanes, T> : forward_packs<false, lanes, T>;
            run(space, shape, x.as<const T>(), y.as<T>(), places);
          },
          x.as<const T>(), y.as<const T>(), places);
    else if (is_max) max_forward<T>(space, shape, x.as<T>(), y.as<T>(), places);
    else average_forward<T>(space, shape, x.as<T>(), y.as<T>());
  });
}

void pooling_backward(const ExecSpace& space, PoolingKind kind, const PoolingShape& shape, const Tensor& winner,
                      const Tensor& dy, const Tensor& dx) {
  const bool is_max = kind == PoolingKind::max;
  const auto* const places = is_max ? winner.as<const std::uint8_t>() : nullptr;
  dispatch_float(dy.dtype, [&]<class T>(T) {
    if constexpr (thread_per_element)
      with_packs<T>(
          shape.c,
          [&]<int lanes>(std::integral_constant<int, lanes>) {
            constexpr int pair = lanes > 1 ? 2 : 1;
            const bool in_pairs = shape.vertical.stride == pair && shape.horizontal.stride == pair;
            auto* of_max = in_pairs ? backward_packs<true, lanes, pair, T> : backward_packs<true, lanes, 1, T>;
            auto* of_average = in_pairs ? backward_packs<false, lanes, pair, T> : backward_packs<false, lanes, 1, T>;
            (is_max ? of_max : of_average)(space, shape, places, dy.as<const T>(), dx.as<T>());
          },
          dy.as<const T>(), dx.as<const T>(), places);
    else if (is_max) backward<true, T>(space, shape, places, dy.as<T>(), dx.as<T>());
    else backward<false, T>(space, shape, nullptr, dy.as<T>(), dx.as<T>());
  });
}

}  // namespace lockstep
