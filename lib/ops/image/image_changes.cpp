// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/image/image_changes.hpp"

#include "core/random.hpp"

namespace lockstep {
namespace {

/// Images [height, width, C] and the changes that turn them into [rows, columns, C].
template <class Raw, class C>
struct Images {
  std::int64_t height, width, rows, columns, channels;
  const Raw* x;
  const ImageChange* changes;
  const C* scale;
  const C* shift;
  std::int64_t scales;  ///< 1, or the number of channels
  C largest, noise;
  std::uint64_t seed;
  const double* means;  ///< means of the grey images whose contrast changes

  /// A raw number; 0 outside the image.
  KOKKOS_INLINE_FUNCTION C at(std::int64_t image, std::int64_t row, std::int64_t column, std::int64_t c) const {
    if (row < 0 || row >= height || column < 0 || column >= width) return C(0);
    return static_cast<C>(x[((image * height + row) * width + column) * channels + c]);
  }

  /// A pixel of the crop, interpolated if the crop is scaled; the crop's edge then continues outside of it.
  KOKKOS_INLINE_FUNCTION C cropped(std::int64_t image, const ImageChange& change, std::int64_t row, std::int64_t column,
                                   std::int64_t c) const {
    if (change.flip) column = columns - 1 - column;
    if (change.down == 1 && change.right == 1)
      return at(image, row + static_cast<std::int64_t>(change.top), column + static_cast<std::int64_t>(change.left), c);
    const C y = static_cast<C>(change.top) + static_cast<C>(change.down) * (static_cast<C>(row) + C(0.5)) - C(0.5),
            z = static_cast<C>(change.left) + static_cast<C>(change.right) * (static_cast<C>(column) + C(0.5)) - C(0.5);
    const C y0 = Kokkos::floor(y), z0 = Kokkos::floor(z), below = y - y0, after = z - z0;
    const C top = static_cast<C>(change.top),
            bottom = top + Kokkos::round(static_cast<C>(change.down) * static_cast<C>(rows)) - C(1),
            left = static_cast<C>(change.left),
            right = left + Kokkos::round(static_cast<C>(change.right) * static_cast<C>(columns)) - C(1);
    const auto pixel = [&](C r, C k) {
      return at(image,
                static_cast<std::int64_t>(r < top      ? top
                                          : r > bottom ? bottom
                                                       : r),
                static_cast<std::int64_t>(k < left    ? left
                                          : k > right ? right
                                                      : k),
                c);
    };
    return (C(1) - below) * ((C(1) - after) * pixel(y0, z0) + after * pixel(y0, z0 + C(1))) +
           below * ((C(1) - after) * pixel(y0 + C(1), z0) + after * pixel(y0 + C(1), z0 + C(1)));
  }

  KOKKOS_INLINE_FUNCTION C clamped(C value) const { return value < C(0) ? C(0) : value > largest ? largest : value; }

  KOKKOS_INLINE_FUNCTION C bright(std::int64_t image, const ImageChange& change, std::int64_t row, std::int64_t column,
                                  std::int64_t c) const {
    const C value = cropped(image, change, row, column, c);
    return change.brightness == 1 ? value : clamped(static_cast<C>(change.brightness) * value);
  }

  /// The luma of ITU-R 601, as in torchvision.
  KOKKOS_INLINE_FUNCTION static C luma(C red, C green, C blue) {
    return C(0.2989) * red + C(0.587) * green + C(0.114) * blue;
  }

  /// The luma of images with three channels, the mean of all channels otherwise.
  template <class Channel>
  KOKKOS_INLINE_FUNCTION C grey(const Channel& channel) const {
    if (channels == 3) return luma(channel(0), channel(1), channel(2));
    C sum = 0;
    for (std::int64_t c = 0; c < channels; ++c) sum += channel(c);
    return sum / static_cast<C>(channels);
  }

  KOKKOS_INLINE_FUNCTION C contrasted(std::int64_t image, const ImageChange& change, std::int64_t row,
                                      std::int64_t column, std::int64_t c) const {
    const C value = bright(image, change, row, column, c);
    if (change.contrast == 1) return value;
    const C factor = static_cast<C>(change.contrast);
    return clamped(factor * value + (C(1) - factor) * static_cast<C>(means[image]));
  }

  KOKKOS_INLINE_FUNCTION C coloured(std::int64_t image, const ImageChange& change, std::int64_t row,
                                    std::int64_t column, std::int64_t c) const {
    if (change.saturation == 1 && change.hue == 0) return contrasted(image, change, row, column, c);
    C colours[3];
    for (std::int64_t k = 0; k < 3; ++k) colours[k] = contrasted(image, change, row, column, k);
    if (change.saturation != 1) {
      const C factor = static_cast<C>(change.saturation);
      const C of_grey = luma(colours[0], colours[1], colours[2]);
      for (C& colour : colours) colour = clamped(factor * colour + (C(1) - factor) * of_grey);
    }
    // All indices are compile-time constants, so that colours stay in registers.
    if (change.hue == 0) return c == 0 ? colours[0] : c == 1 ? colours[1] : colours[2];
    return turned(colours, static_cast<C>(change.hue), c);
  }

  /// Channel c after a shift of the hue by `turns`, with equal saturation and value: Smith, "Color gamut transform
  /// pairs", 1978.
  KOKKOS_INLINE_FUNCTION static C turned(const C (&colours)[3], C turns, std::int64_t c) {
    const C red = colours[0], green = colours[1], blue = colours[2];
    const C value = Kokkos::max(red, Kokkos::max(green, blue)),
            chroma = value - Kokkos::min(red, Kokkos::min(green, blue));
    if (chroma <= C(0)) return value;
    // The hue in sixths of a turn from red; `place` is relative to the colour from which this channel falls and rises
    // again.
    const C hue = value == red     ? (green - blue) / chroma
                  : value == green ? C(2) + (blue - red) / chroma
                                   : C(4) + (red - green) / chroma;
    C place = hue + C(6) * turns + static_cast<C>(5 - 2 * c);
    place -= C(6) * Kokkos::floor(place / C(6));
    const C part = Kokkos::min(place, C(4) - place);
    return value - chroma * (part < C(0) ? C(0) : part > C(1) ? C(1) : part);
  }

  KOKKOS_INLINE_FUNCTION C changed(std::int64_t image, std::int64_t row, std::int64_t column, std::int64_t c) const {
    const ImageChange& change = changes[image];
    if (change.cut.has(row, column)) return C(0);
    C value = coloured(image, change, row, column, c);
    if (noise > C(0)) {
      const RandomStream random(seed, RandomPurpose::augment, change.noise_stream);
      value += noise *
               static_cast<C>(random.normal(static_cast<std::uint64_t>((row * columns + column) * channels + c)));
    }
    const std::int64_t s = scales == 1 ? 0 : c;
    return scale[s] * value + shift[s];
  }

  KOKKOS_INLINE_FUNCTION C mixed(std::int64_t image, std::int64_t row, std::int64_t column, std::int64_t c) const {
    const ImageChange& change = changes[image];
    if (!change.mixed) return changed(image, row, column, c);
    const bool boxes = change.other.bottom > change.other.top && change.other.right > change.other.left;
    if (boxes) return changed(change.other.has(row, column) ? image + 1 : image, row, column, c);
    const C share = static_cast<C>(change.share);
    return share * changed(image, row, column, c) + (C(1) - share) * changed(image + 1, row, column, c);
  }
};

/// Computes means of the grey images. One thread adds up each image row by row, so the order depends only on sizes.
template <class Raw, class C>
void grey_means(const ExecSpace& space, std::int64_t n, const Images<Raw, C>& images, double* means) {
  Kokkos::parallel_for(
      "lockstep::image_changes::means", RangePolicy(space, 0, n), KOKKOS_LAMBDA(const std::int64_t image) {
        const ImageChange& change = images.changes[image];
        if (change.contrast == 1) return;
        double sum = 0;
        for (std::int64_t row = 0; row < images.rows; ++row)
          for (std::int64_t column = 0; column < images.columns; ++column)
            sum += static_cast<double>(
                images.grey([&](std::int64_t c) { return images.bright(image, change, row, column, c); }));
        means[image] = sum / static_cast<double>(images.rows * images.columns);
      });
}

template <class Raw, class T>
void change_images(const ExecSpace& space, std::int64_t given, std::int64_t wanted,
                   const Images<Raw, Compute<T>>& images, double* means, T* y) {
  grey_means(space, given, images, means);
  const std::int64_t row_length = images.columns * images.channels;
  Kokkos::parallel_for(
      "lockstep::image_changes::row", RangePolicy(space, 0, wanted * images.rows),
      KOKKOS_LAMBDA(const std::int64_t index) {
        const std::int64_t image = index / images.rows, row = index % images.rows;
        T* const to = y + index * row_length;
        for (std::int64_t column = 0; column < images.columns; ++column)
          for (std::int64_t c = 0; c < images.channels; ++c)
            to[column * images.channels + c] = T(images.mixed(image, row, column, c));
      });
}

/// `each`: number of values in an example.
template <class T>
void mix_values(const ExecSpace& space, const ImageChange* changes, std::int64_t count, std::int64_t each,
                const T* values, T* y) {
  Kokkos::parallel_for(
      "lockstep::mix_values", RangePolicy(space, 0, count), KOKKOS_LAMBDA(const std::int64_t i) {
        const ImageChange& change = changes[i / each];
        const T share = static_cast<T>(change.share);
        y[i] = change.mixed ? share * values[i] + (T(1) - share) * values[i + each] : values[i];
      });
}

}  // namespace

void change_images(const ExecSpace& space, const Tensor& x, const Tensor& changes, const Tensor& scale,
                   const Tensor& shift, double largest, double noise, std::uint64_t seed, const Tensor& means,
                   const Tensor& y) {
  assert(x.shape.rank() == 4 && means.count() >= x.shape[0]);
  dispatch_float(y.dtype, [&]<class T>(T) {
    using C = Compute<T>;
    const auto run = [&]<class Raw>(Raw) {
      const Images<Raw, C> images{.height = x.shape[1],
                                  .width = x.shape[2],
                                  .rows = y.shape[1],
                                  .columns = y.shape[2],
                                  .channels = x.shape[3],
                                  .x = x.as<const Raw>(),
                                  .changes = static_cast<const ImageChange*>(changes.data),
                                  .scale = scale.as<const C>(),
                                  .shift = shift.as<const C>(),
                                  .scales = scale.count(),
                                  .largest = static_cast<C>(largest),
                                  .noise = static_cast<C>(noise * largest),
                                  .seed = seed,
                                  .means = means.as<const double>()};
      change_images<Raw, T>(space, x.shape[0], y.shape[0], images, means.as<double>(), y.as<T>());
    };
    if (x.dtype == DType::u8) run(std::uint8_t());
    else if (x.dtype == DType::f64) run(double());
    else run(float());
  });
}

void mix_values(const ExecSpace& space, const Tensor& changes, const Tensor& values, const Tensor& y) {
  dispatch_master(y.dtype, [&]<class T>(T) {
    mix_values(space, static_cast<const ImageChange*>(changes.data), y.count(), y.count() / y.shape[0],
               values.as<const T>(), y.as<T>());
  });
}

void own_shares(const ExecSpace& space, const Tensor& changes, const Tensor& shares) {
  const auto* const all = static_cast<const ImageChange*>(changes.data);
  auto* const own = shares.as<double>();
  Kokkos::parallel_for(
      "lockstep::image_changes::shares", RangePolicy(space, 0, shares.count()),
      KOKKOS_LAMBDA(const std::int64_t i) { own[i] = all[i].mixed ? all[i].share : 1.0; });
}

}  // namespace lockstep
