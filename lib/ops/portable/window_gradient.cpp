// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/portable/products.hpp"

#include <algorithm>

#include "ops/portable/micro_product.hpp"

namespace lockstep {
namespace {

std::int64_t ceiling(std::int64_t count, std::int64_t unit) { return (count + unit - 1) / unit; }

/// A thread processes bands: some lines of y, and the padded rows of x that they cover. Each band's part of the
/// gradient [kernel_h·kernel_w·c/groups, columns] is added to the thread's sum; the threads' sums are added up at the
/// end.
template <class T>
struct Windows {
  static constexpr std::int64_t m = Micro<T>::m, n = Micro<T>::n;
  // Pixels of a band, few enough for the tiles of x and dy to stay in the level-1 cache.
  static constexpr std::int64_t terms = 128;

  explicit Windows(const ConvolutionShape& s)
      : shape(s),
        group_c(s.c / s.groups),
        group_filters(s.filters / s.groups),
        lines(std::clamp<std::int64_t>(terms / s.out_w(), 1, s.out_h())),
        row((s.w + s.pad_left + s.pad_right) * group_c),
        k(s.kernel_h * s.kernel_w * group_c),
        group_columns(ceiling(group_filters, n) * n),
        columns(s.groups * group_columns),
        image_bands(ceiling(s.out_h(), lines)),
        parts(std::min<std::int64_t>(planned_threads(), s.n * image_bands)) {}

  std::int64_t band_elements() const { return ((lines - 1) * shape.stride + shape.kernel_h) * row + m; }
  std::int64_t panel_elements() const { return lines * shape.out_w() * n; }
  std::int64_t part_elements() const { return k * columns; }

  void add_bands(std::int64_t first, std::int64_t last, const T* x, const T* dy, T* part, T* scratch) const {
    T* panel = scratch;
    T* band = scratch + panel_elements();
    std::fill(band, band + band_elements(), T(0));  // the last tile of a line reads beyond its end
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t image = i / image_bands, line = i % image_bands * lines;
      const std::int64_t count = std::min(lines, shape.out_h() - line);
      for (std::int64_t group = 0; group < shape.groups; ++group) {
        copy_rows(image, line * shape.stride - shape.pad_top, (count - 1) * shape.stride + shape.kernel_h, group, x,
                  band);
        const T* from = dy + (image * shape.out_h() + line) * shape.out_w() * shape.filters + group * group_filters;
        for (std::int64_t f = 0; f < group_filters; f += n) {
          for (std::int64_t pixel = 0; pixel < count * shape.out_w(); ++pixel)
            pack_line<n>(from + pixel * shape.filters + f, 1, group_filters - f, panel + pixel * n);
          multiply(count, band, panel, part + group * group_columns + f, i > first);
        }
      }
    }
  }

  /// Copies rows of a group's channels of x, from `top` on; rows outside the image are 0.
  void copy_rows(std::int64_t image, std::int64_t top, std::int64_t rows, std::int64_t group, const T* x,
                 T* band) const {
    for (std::int64_t h = top; h < top + rows; ++h, band += row) {
      if (h < 0 || h >= shape.h) {
        std::fill(band, band + row, T(0));
        continue;
      }
      const T* from = x + (image * shape.h + h) * shape.w * shape.c + group * group_c;
      T* to = band + shape.pad_left * group_c;  // the padding before and after stays zero
      if (shape.groups == 1) std::copy(from, from + shape.w * shape.c, to);
      else
        for (std::int64_t w = 0; w < shape.w; ++w, from += shape.c, to += group_c) std::copy(from, from + group_c, to);
    }
  }

  void multiply(std::int64_t count, const T* band, const T* panel, T* part, bool add) const {
    const std::int64_t line = shape.kernel_w * group_c;
    for (std::int64_t h = 0; h < shape.kernel_h; ++h)
      for (std::int64_t i = 0; i < line; i += m)
        window_micro_product<T>(count, shape.out_w(), band + h * row + i, shape.stride * row, shape.stride * group_c,
                                panel, part + (h * line + i) * columns, columns, line - i, add);
  }

  std::int64_t channels_of_panels() const { return columns / n * group_c; }

  /// Adds up the parts of one channel for the filters of a panel, which are side by side.
  void sum_parts(std::int64_t index, const T* sums, T* dweight, bool add) const {
    const std::int64_t taps = shape.kernel_h * shape.kernel_w;
    const std::int64_t column = index / group_c * n, channel = index % group_c;
    const std::int64_t group = column / group_columns, filter = column - group * group_columns;
    const std::int64_t filters = std::min(n, group_filters - filter);
    T* to = dweight + ((group * group_filters + filter) * group_c + channel) * taps;
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      const T* from = sums + (tap * group_c + channel) * columns + column;
      T sum[n] = {};
      for (std::int64_t part = 0; part < parts; ++part, from += part_elements())
        for (std::int64_t j = 0; j < n; ++j) sum[j] += from[j];
      for (std::int64_t j = 0; j < filters; ++j) {
        T& total = to[j * group_c * taps + tap];
        total = add ? total + sum[j] : sum[j];
      }
    }
  }

  ConvolutionShape shape;
  std::int64_t group_c, group_filters;
  std::int64_t lines;                   // lines of y in a band
  std::int64_t row;                     // elements of a padded row of x
  std::int64_t k;                       // rows of the gradient
  std::int64_t group_columns, columns;  // columns of the gradient: filters, with each group padded to whole panels
  std::int64_t image_bands, parts;
};

template <class T>
void run_on_cpu(const ExecSpace& space, const Windows<T>& windows, const T* x, const T* dy, T* dweight, bool add,
                T* sums) {
  using Policy = Kokkos::TeamPolicy<ExecSpace>;
  const std::int64_t bands = windows.shape.n * windows.image_bands, parts = windows.parts;
  const auto bytes = static_cast<std::size_t>(windows.panel_elements() + windows.band_elements()) * sizeof(T);
  const auto policy =
      Policy(space, static_cast<int>(parts), 1).set_scratch_size(1, Kokkos::PerTeam(static_cast<int>(bytes + 64)));
  Kokkos::parallel_for("lockstep::window_gradient::parts", policy, [=](const typename Policy::member_type& team) {
    T* scratch = static_cast<T*>(team.team_scratch(1).get_shmem_aligned(bytes, 64));
    const std::int64_t part = team.league_rank();
    windows.add_bands(bands * part / parts, bands * (part + 1) / parts, x, dy, sums + part * windows.part_elements(),
                      scratch);
  });
  Kokkos::parallel_for("lockstep::window_gradient::sum", RangePolicy(space, 0, windows.channels_of_panels()),
                       [=](const std::int64_t index) { windows.sum_parts(index, sums, dweight, add); });
}

}  // namespace

bool has_window_gradient(const ConvolutionShape& shape) {
  if (thread_per_element || is_16_bit_type(shape.dtype)) return false;
  bool fits = false;
  dispatch_master(shape.dtype, [&](auto real) {
    using T = decltype(real);
    constexpr std::int64_t cache = 256 * 1024;
    const Windows<T> windows(shape);
    fits = shape.kernel_w > 1 && windows.group_c <= (shape.stride == 1 ? 128 : 32) && shape.out_w() >= 8 &&
           shape.kernel_w * windows.group_c >= windows.m &&
           windows.band_elements() * static_cast<std::int64_t>(sizeof(T)) <= cache;
  });
  return fits;
}

std::size_t window_gradient_workspace_bytes(const ConvolutionShape& shape) {
  std::size_t bytes = 0;
  dispatch_master(shape.dtype, [&](auto real) {
    using T = decltype(real);
    const Windows<T> windows(shape);
    bytes = static_cast<std::size_t>(windows.parts * windows.part_elements()) * sizeof(T);
  });
  return bytes;
}

void window_gradient(const ExecSpace& space, const ConvolutionShape& shape, const Tensor& x, const Tensor& dy,
                     const Tensor& dweight, Store store, const Tensor& workspace) {
  dispatch_master(shape.dtype, [&](auto real) {
    using T = decltype(real);
    if constexpr (!thread_per_element)
      run_on_cpu<T>(space, Windows<T>(shape), x.as<const T>(), dy.as<const T>(), dweight.as<T>(), store == Store::add,
                    static_cast<T*>(workspace.data));
  });
}

}  // namespace lockstep
