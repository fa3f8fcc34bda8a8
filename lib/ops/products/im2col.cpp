// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/products/im2col.hpp"

#include "ops/row_parts.hpp"

namespace lockstep {
namespace {

/// The parts of a ConvolutionShape that kernels need, for one group of one chunk.
struct Geometry {
  std::int64_t h, w, c, out_h, out_w, kernel_h, kernel_w, stride, pad_top, pad_left;
  std::int64_t group_c;  ///< number of channels in the group
  std::int64_t x_first;  ///< element of x at which the chunk's group starts
  std::int64_t k;        ///< width of the columns
};

Geometry geometry_of(const Im2col& chunk, std::int64_t group) {
  const ConvolutionShape& s = chunk.shape;
  const std::int64_t group_c = s.c / s.groups;
  return {s.h,
          s.w,
          s.c,
          s.out_h(),
          s.out_w(),
          s.kernel_h,
          s.kernel_w,
          s.stride,
          s.pad_top,
          s.pad_left,
          group_c,
          chunk.first_image * s.h * s.w * s.c + group * group_c,
          s.kernel_h * s.kernel_w * group_c};
}

/// The GPU version: each index is one element of the columns, so that neighbouring threads write neighbouring elements.
template <class T>
void im2col_elements(const ExecSpace& space, const Geometry& g, std::int64_t rows, const T* x, T* columns) {
  Kokkos::parallel_for(
      "lockstep::im2col::forward", RangePolicy(space, 0, rows * g.k), KOKKOS_LAMBDA(const std::int64_t index) {
        const std::int64_t row = row_of(index, g.k), at = index - row * g.k;
        const std::int64_t line = row_of(row, g.out_w), image = row_of(line, g.out_h);
        const std::int64_t tap = row_of(at, g.group_c), channel = at - tap * g.group_c;
        const std::int64_t i = row_of(tap, g.kernel_w), j = tap - i * g.kernel_w;
        const std::int64_t ih = (line - image * g.out_h) * g.stride - g.pad_top + i;
        const std::int64_t iw = (row - line * g.out_w) * g.stride - g.pad_left + j;
        const bool inside = ih >= 0 && ih < g.h && iw >= 0 && iw < g.w;
        columns[index] = inside ? x[g.x_first + ((image * g.h + ih) * g.w + iw) * g.c + channel] : T(0);
      });
}

/// The GPU version: each index is one element of x.
template <class T>
void col2im_elements(const ExecSpace& space, const Geometry& g, std::int64_t pixels, const T* columns, T* dx) {
  Kokkos::parallel_for(
      "lockstep::im2col::backward", RangePolicy(space, 0, pixels * g.group_c), KOKKOS_LAMBDA(const std::int64_t index) {
        const std::int64_t pixel = row_of(index, g.group_c), channel = index - pixel * g.group_c;
        const std::int64_t line = row_of(pixel, g.w), image = row_of(line, g.h);
        const std::int64_t row = line - image * g.h + g.pad_top, column = pixel - line * g.w + g.pad_left;
        T sum = T(0);
        for (std::int64_t i = 0; i < g.kernel_h && i <= row; ++i) {
          const std::int64_t oh = row_of(row - i, g.stride);
          if (oh * g.stride != row - i || oh >= g.out_h) continue;
          for (std::int64_t j = 0; j < g.kernel_w && j <= column; ++j) {
            const std::int64_t ow = row_of(column - j, g.stride);
            if (ow * g.stride != column - j || ow >= g.out_w) continue;
            sum += columns[((image * g.out_h + oh) * g.out_w + ow) * g.k + (i * g.kernel_w + j) * g.group_c + channel];
          }
        }
        dx[g.x_first + pixel * g.c + channel] = sum;
      });
}

/// The CPU version: each index is one row of the columns, that is, one pixel of y.
template <class T>
void im2col_rows(const ExecSpace& space, const Geometry& g, std::int64_t rows, const T* x, T* columns) {
  Kokkos::parallel_for(
      "lockstep::im2col::forward", RangePolicy(space, 0, rows), KOKKOS_LAMBDA(const std::int64_t row) {
        const std::int64_t line = row / g.out_w;
        const std::int64_t image = line / g.out_h;
        const std::int64_t top = (line - image * g.out_h) * g.stride - g.pad_top;
        const std::int64_t left = (row - line * g.out_w) * g.stride - g.pad_left;
        const std::int64_t from = left < 0 ? -left : 0;
        const std::int64_t to = left + g.kernel_w > g.w ? g.w - left : g.kernel_w;
        T* out = columns + row * g.k;
        for (std::int64_t i = 0; i < g.kernel_h; ++i) {
          const bool inside = top + i >= 0 && top + i < g.h;
          const T* in = x + g.x_first + ((image * g.h + top + i) * g.w + left) * g.c;
          if (inside && g.group_c == g.c && from < to) {  // a contiguous run of x
            std::int64_t j = 0;
            for (; j < from * g.c; ++j) out[j] = T(0);
            for (; j < to * g.c; ++j) out[j] = in[j];
            for (; j < g.kernel_w * g.c; ++j) out[j] = T(0);
          } else {
            for (std::int64_t j = 0; j < g.kernel_w; ++j)
              for (std::int64_t channel = 0; channel < g.group_c; ++channel)
                out[j * g.group_c + channel] = inside && j >= from && j < to ? in[j * g.c + channel] : T(0);
          }
          out += g.kernel_w * g.group_c;
        }
      });
}

/// The CPU version: each index is one pixel of x.
template <class T>
void col2im_pixels(const ExecSpace& space, const Geometry& g, std::int64_t pixels, const T* columns, T* dx) {
  Kokkos::parallel_for(
      "lockstep::im2col::backward", RangePolicy(space, 0, pixels), KOKKOS_LAMBDA(const std::int64_t pixel) {
        const std::int64_t line = pixel / g.w;
        const std::int64_t image = line / g.h;
        const std::int64_t row = line - image * g.h + g.pad_top;
        const std::int64_t column = pixel - line * g.w + g.pad_left;
        T* out = dx + g.x_first + pixel * g.c;
        for (std::int64_t channel = 0; channel < g.group_c; ++channel) out[channel] = T(0);
        for (std::int64_t i = 0; i < g.kernel_h; ++i) {
          const std::int64_t oh = (row - i) / g.stride;
          if (row < i || oh * g.stride != row - i || oh >= g.out_h) continue;
          for (std::int64_t j = 0; j < g.kernel_w; ++j) {
            const std::int64_t ow = (column - j) / g.stride;
            if (column < j || ow * g.stride != column - j || ow >= g.out_w) continue;
            const T* in = columns + ((image * g.out_h + oh) * g.out_w + ow) * g.k + (i * g.kernel_w + j) * g.group_c;
            for (std::int64_t channel = 0; channel < g.group_c; ++channel) out[channel] += in[channel];
          }
        }
      });
}

/// Transposes a [rows, columns] matrix for each filter.
template <class T>
void transpose(const ExecSpace& space, std::int64_t filters, std::int64_t rows, std::int64_t columns, const T* from,
               T* to, bool add) {
  Kokkos::parallel_for(
      "lockstep::im2col::transpose", RangePolicy(space, 0, filters * columns), KOKKOS_LAMBDA(const std::int64_t index) {
        const std::int64_t filter = index / columns;
        const T* in = from + filter * rows * columns + (index - filter * columns);
        T* out = to + index * rows;
        for (std::int64_t row = 0; row < rows; ++row) out[row] = add ? out[row] + in[row * columns] : in[row * columns];
      });
}

}  // namespace

void im2col(const ExecSpace& space, const Im2col& chunk, std::int64_t group, const Tensor& x, const Tensor& columns) {
  const Geometry g = geometry_of(chunk, group);
  dispatch_master(x.dtype, [&](auto real) {
    using T = decltype(real);
    const std::int64_t rows = chunk.images * g.out_h * g.out_w;
    if constexpr (thread_per_element) im2col_elements<T>(space, g, rows, x.as<const T>(), columns.as<T>());
    else im2col_rows<T>(space, g, rows, x.as<const T>(), columns.as<T>());
  });
}

void col2im(const ExecSpace& space, const Im2col& chunk, std::int64_t group, const Tensor& columns, const Tensor& dx) {
  const Geometry g = geometry_of(chunk, group);
  dispatch_master(dx.dtype, [&](auto real) {
    using T = decltype(real);
    const std::int64_t pixels = chunk.images * g.h * g.w;
    if constexpr (thread_per_element) col2im_elements<T>(space, g, pixels, columns.as<const T>(), dx.as<T>());
    else col2im_pixels<T>(space, g, pixels, columns.as<const T>(), dx.as<T>());
  });
}

void to_channels_last(const ExecSpace& space, const ConvolutionShape& shape, const Tensor& weight,
                      const Tensor& ordered) {
  const std::int64_t taps = shape.kernel_h * shape.kernel_w;
  dispatch_master(weight.dtype, [&](auto real) {
    using T = decltype(real);
    transpose<T>(space, shape.filters, shape.c / shape.groups, taps, weight.as<const T>(), ordered.as<T>(), false);
  });
}

void from_channels_last(const ExecSpace& space, const ConvolutionShape& shape, const Tensor& ordered,
                        const Tensor& weight, Store store) {
  const std::int64_t taps = shape.kernel_h * shape.kernel_w;
  dispatch_master(weight.dtype, [&](auto real) {
    using T = decltype(real);
    transpose<T>(space, shape.filters, taps, shape.c / shape.groups, ordered.as<const T>(), weight.as<T>(),
                 store == Store::add);
  });
}

}  // namespace lockstep
