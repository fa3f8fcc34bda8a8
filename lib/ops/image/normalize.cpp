// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/image/image_changes.hpp"

#include "core/packs.hpp"

namespace lockstep {
namespace {

template <class Raw, class T>
void normalize_by_one(const ExecSpace& space, std::int64_t count, const Raw* x, const Compute<T>* scale,
                      const Compute<T>* shift, T* y) {
  for_elements(
      space, "lockstep::normalize::by_one", count,
      KOKKOS_LAMBDA(std::int64_t, const Raw& in, T& out) {
        out = T(scale[0] * static_cast<Compute<T>>(in) + shift[0]);
      },
      Reads(x), Writes(y));
}

template <class Raw, class T>
void normalize_elements(const ExecSpace& space, std::int64_t count, std::int64_t channels, const Raw* x,
                        const Compute<T>* scale, const Compute<T>* shift, T* y) {
  for_elements(
      space, "lockstep::normalize::by_channel", count,
      KOKKOS_LAMBDA(std::int64_t, const Raw& in, const Compute<T>& slope, const Compute<T>& level, T& out) {
        out = T(slope * static_cast<Compute<T>>(in) + level);
      },
      Reads(x), ReadsColumns(scale, channels), ReadsColumns(shift, channels), Writes(y));
}

template <class Raw, class T>
void normalize_by_channel(const ExecSpace& space, std::int64_t pixels, std::int64_t channels, const Raw* x,
                          const Compute<T>* scale, const Compute<T>* shift, T* y) {
  Kokkos::parallel_for(
      "lockstep::normalize::by_channel", RangePolicy(space, 0, pixels), KOKKOS_LAMBDA(const std::int64_t p) {
        const Raw* from = x + p * channels;
        T* to = y + p * channels;
        for (std::int64_t c = 0; c < channels; ++c) to[c] = T(scale[c] * static_cast<Compute<T>>(from[c]) + shift[c]);
      });
}

template <class Raw, class T>
void normalize(const ExecSpace& space, const Tensor& x, const Tensor& scale, const Tensor& shift, const Tensor& y) {
  const std::int64_t channels = scale.count();
  const Raw* const from = x.as<const Raw>();
  const auto *const slope = scale.as<const Compute<T>>(), *const level = shift.as<const Compute<T>>();
  if (channels == 1) normalize_by_one(space, x.count(), from, slope, level, y.as<T>());
  else if constexpr (thread_per_element) normalize_elements(space, x.count(), channels, from, slope, level, y.as<T>());
  else normalize_by_channel(space, x.count() / channels, channels, from, slope, level, y.as<T>());
}

}  // namespace

void normalize(const ExecSpace& space, const Tensor& x, const Tensor& scale, const Tensor& shift, const Tensor& y) {
  assert(scale.count() == 1 || scale.count() == x.shape[-1]);
  dispatch_float(y.dtype, [&]<class T>(T) {
    if (x.dtype == DType::u8) normalize<std::uint8_t, T>(space, x, scale, shift, y);
    else if (x.dtype == DType::f64) normalize<double, T>(space, x, scale, shift, y);
    else normalize<float, T>(space, x, scale, shift, y);
  });
}

}  // namespace lockstep
