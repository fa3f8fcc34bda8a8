// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/elementwise.hpp"

#include "core/random.hpp"
#include "ops/activation_math.hpp"

namespace lockstep {
namespace {

template <Activation activation, bool keeps, class T>
void activation_forward(const ExecSpace& space, std::int64_t count, const T* x, T* y, T* derivative) {
  Kokkos::parallel_for(
      "lockstep::activation::forward", RangePolicy(space, 0, count), KOKKOS_LAMBDA(const std::int64_t i) {
        T* slopes = derivative;  // nvcc forbids first captures in `if constexpr`
        const Compute<T> value = x[i];
        y[i] = T(activated<activation, Compute<T>>(value));
        if constexpr (keeps) slopes[i] = T(activation_derivative<activation, Compute<T>>(value));
      });
}

template <Activation activation, class T>
void activation_backward(const ExecSpace& space, std::int64_t count, const T* kept, const T* dy, T* dx) {
  Kokkos::parallel_for(
      "lockstep::activation::backward", RangePolicy(space, 0, count),
      KOKKOS_LAMBDA(const std::int64_t i) { dx[i] = T(activation_gradient<activation, Compute<T>>(kept[i], dy[i])); });
}

template <class T>
void add(const ExecSpace& space, std::int64_t count, const T* a, const T* b, T* y) {
  Kokkos::parallel_for(
      "lockstep::add::forward", RangePolicy(space, 0, count),
      KOKKOS_LAMBDA(const std::int64_t i) { y[i] = a[i] + b[i]; });
}

template <class T>
void accumulate(const ExecSpace& space, std::int64_t count, const T* x, T* y) {
  Kokkos::parallel_for(
      "lockstep::add::accumulate", RangePolicy(space, 0, count),
      KOKKOS_LAMBDA(const std::int64_t i) { y[i] = y[i] + x[i]; });
}

template <class T>
void accumulate(const ExecSpace& space, std::int64_t count, T scale, const T* x, T* y, const std::int32_t* left_out) {
  Kokkos::parallel_for(
      "lockstep::add::accumulate_scaled", RangePolicy(space, 0, count), KOKKOS_LAMBDA(const std::int64_t i) {
        if (left_out == nullptr || *left_out == 0) y[i] += scale * x[i];
      });
}

template <class T>
void dropout(const ExecSpace& space, const DropoutMask& mask, std::int64_t count, const T* x, T* y) {
  const RandomStream random(mask.seed, RandomPurpose::dropout, mask.stream);
  const double rate = mask.rate;
  const auto scale = static_cast<Compute<T>>(1.0 / (1.0 - mask.rate));
  const std::int64_t first = mask.first_element;
  Kokkos::parallel_for(
      "lockstep::dropout::apply", RangePolicy(space, 0, count), KOKKOS_LAMBDA(const std::int64_t i) {
        y[i] = random.uniform(static_cast<std::uint64_t>(first + i)) < rate ? T(0) : T(x[i] * scale);
      });
}

}  // namespace

void activation_forward(const ExecSpace& space, Activation activation, const Tensor& x, const Tensor& y,
                        const Tensor& derivative) {
  dispatch_float(x.dtype, [&]<class T>(T) {
    dispatch_activation(activation, [&]<Activation a>(std::integral_constant<Activation, a>) {
      if constexpr (keeps_derivative(a))
        if (derivative)
          return activation_forward<a, true, T>(space, x.count(), x.as<T>(), y.as<T>(), derivative.as<T>());
      activation_forward<a, false, T>(space, x.count(), x.as<T>(), y.as<T>(), nullptr);
    });
  });
}

void activation_backward(const ExecSpace& space, Activation activation, const Tensor& kept, const Tensor& dy,
                         const Tensor& dx) {
  dispatch_float(dy.dtype, [&]<class T>(T) {
    dispatch_activation(activation, [&]<Activation a>(std::integral_constant<Activation, a>) {
      activation_backward<a, T>(space, dy.count(), kept.as<T>(), dy.as<T>(), dx.as<T>());
    });
  });
}

void add(const ExecSpace& space, const Tensor& a, const Tensor& b, const Tensor& y) {
  dispatch_float(a.dtype, [&]<class T>(T) { add<T>(space, a.count(), a.as<T>(), b.as<T>(), y.as<T>()); });
}

void accumulate(const ExecSpace& space, const Tensor& x, const Tensor& y) {
  dispatch_float(x.dtype, [&]<class T>(T) { accumulate<T>(space, x.count(), x.as<T>(), y.as<T>()); });
}

void accumulate(const ExecSpace& space, double scale, const Tensor& x, const Tensor& y, const std::int32_t* left_out) {
  dispatch_master(x.dtype, [&]<class T>(T) {
    accumulate<T>(space, x.count(), static_cast<T>(scale), x.as<T>(), y.as<T>(), left_out);
  });
}

void dropout(const ExecSpace& space, const DropoutMask& mask, const Tensor& x, const Tensor& y) {
  dispatch_float(x.dtype, [&]<class T>(T) { dropout<T>(space, mask, x.count(), x.as<T>(), y.as<T>()); });
}

}  // namespace lockstep
