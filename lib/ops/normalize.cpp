// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/normalize.hpp"

namespace lockstep {
namespace {

using Range = Kokkos::RangePolicy<ExecSpace, Kokkos::IndexType<std::int64_t>>;

template <class Raw, class T>
void normalize_by_one(const ExecSpace& space, std::int64_t count, const Raw* x, const T* scale, const T* shift, T* y) {
  Kokkos::parallel_for("lockstep::normalize::by_one", Range(space, 0, count), KOKKOS_LAMBDA(const std::int64_t i) {
    y[i] = scale[0] * static_cast<T>(x[i]) + shift[0];
  });
}

template <class Raw, class T>
void normalize_by_channel(const ExecSpace& space, std::int64_t pixels, std::int64_t channels, const Raw* x,
                          const T* scale, const T* shift, T* y) {
  Kokkos::parallel_for("lockstep::normalize::by_channel", Range(space, 0, pixels), KOKKOS_LAMBDA(const std::int64_t p) {
    const Raw* from = x + p * channels;
    T* to = y + p * channels;
    for (std::int64_t c = 0; c < channels; ++c) to[c] = scale[c] * static_cast<T>(from[c]) + shift[c];
  });
}

template <class From, class To>
void convert(const ExecSpace& space, std::int64_t count, const From* x, To* y) {
  Kokkos::parallel_for("lockstep::normalize::convert", Range(space, 0, count),
                       KOKKOS_LAMBDA(const std::int64_t i) { y[i] = static_cast<To>(x[i]); });
}

template <class Raw, class T>
void normalize(const ExecSpace& space, const Tensor& x, const Tensor& scale, const Tensor& shift, const Tensor& y) {
  const std::int64_t channels = scale.count();
  if (channels == 1)
    normalize_by_one(space, x.count(), x.as<Raw>(), scale.as<T>(), shift.as<T>(), y.as<T>());
  else
    normalize_by_channel(space, x.count() / channels, channels, x.as<Raw>(), scale.as<T>(), shift.as<T>(), y.as<T>());
}

}  // namespace

void normalize(const ExecSpace& space, const Tensor& x, const Tensor& scale, const Tensor& shift, const Tensor& y) {
  assert(scale.count() == 1 || scale.count() == x.shape[-1]);
  dispatch_float(y.dtype, [&]<class T>(T) {
    if (x.dtype == DType::u8)
      normalize<std::uint8_t, T>(space, x, scale, shift, y);
    else
      normalize<float, T>(space, x, scale, shift, y);
  });
}

void convert(const ExecSpace& space, const Tensor& x, const Tensor& y) {
  dispatch_float(y.dtype, [&]<class T>(T) { convert<float, T>(space, x.count(), x.as<float>(), y.as<T>()); });
}

}  // namespace lockstep
