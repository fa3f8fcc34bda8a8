// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/normalize.hpp"

namespace lockstep {
namespace {

template <class Raw, class T>
void normalize_by_one(const ExecSpace& space, std::int64_t count, const Raw* x, const Compute<T>* scale,
                      const Compute<T>* shift, T* y) {
  Kokkos::parallel_for(
      "lockstep::normalize::by_one", RangePolicy(space, 0, count),
      KOKKOS_LAMBDA(const std::int64_t i) { y[i] = T(scale[0] * static_cast<Compute<T>>(x[i]) + shift[0]); });
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
  if (channels == 1)
    normalize_by_one(space, x.count(), x.as<Raw>(), scale.as<Compute<T>>(), shift.as<Compute<T>>(), y.as<T>());
  else
    normalize_by_channel(space, x.count() / channels, channels, x.as<Raw>(), scale.as<Compute<T>>(),
                         shift.as<Compute<T>>(), y.as<T>());
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
