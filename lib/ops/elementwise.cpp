// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/elementwise.hpp"

#include "core/random.hpp"
#include "ops/activation_math.hpp"
#include "ops/fast_math.hpp"

namespace lockstep {
namespace {

using Range = Kokkos::RangePolicy<ExecSpace, Kokkos::IndexType<std::int64_t>>;

template <Activation activation, class T>
void activation_forward(const ExecSpace& space, std::int64_t count, const T* x, T* y) {
  Kokkos::parallel_for("lockstep::activation::forward", Range(space, 0, count), KOKKOS_LAMBDA(const std::int64_t i) {
    y[i] = T(activated<activation, Compute<T>>(x[i]));
  });
}

template <Activation activation, class T>
void activation_backward(const ExecSpace& space, std::int64_t count, const T* y, const T* dy, T* dx) {
  Kokkos::parallel_for("lockstep::activation::backward", Range(space, 0, count), KOKKOS_LAMBDA(const std::int64_t i) {
    dx[i] = T(activation_gradient<activation, Compute<T>>(y[i], dy[i]));
  });
}

template <class T>
void gelu_forward(const ExecSpace& space, std::int64_t count, const T* x, T* y) {
  using C = Compute<T>;
  Kokkos::parallel_for("lockstep::gelu::forward", Range(space, 0, count), KOKKOS_LAMBDA(const std::int64_t i) {
    const C value = x[i];
    y[i] = T(value * normal_probability(value));
  });
}

/// The derivative is Φ(x) + x·φ(x), φ the normal distribution's density.
template <class T>
void gelu_backward(const ExecSpace& space, std::int64_t count, const T* x, const T* dy, T* dx) {
  using C = Compute<T>;
  Kokkos::parallel_for("lockstep::gelu::backward", Range(space, 0, count), KOKKOS_LAMBDA(const std::int64_t i) {
    const C value = x[i], gradient = dy[i];
    const C density = static_cast<C>(0.39894228040143267794) * fast_exp(C(-0.5) * value * value);  // 1/√(2π)
    dx[i] = T(gradient * (normal_probability(value) + value * density));
  });
}

template <class T>
void add(const ExecSpace& space, std::int64_t count, const T* a, const T* b, T* y) {
  Kokkos::parallel_for("lockstep::add::forward", Range(space, 0, count),
                       KOKKOS_LAMBDA(const std::int64_t i) { y[i] = a[i] + b[i]; });
}

template <class T>
void accumulate(const ExecSpace& space, std::int64_t count, const T* x, T* y) {
  Kokkos::parallel_for("lockstep::add::accumulate", Range(space, 0, count),
                       KOKKOS_LAMBDA(const std::int64_t i) { y[i] = y[i] + x[i]; });
}

template <class T>
void accumulate(const ExecSpace& space, std::int64_t count, T scale, const T* x, T* y) {
  Kokkos::parallel_for("lockstep::add::accumulate_scaled", Range(space, 0, count),
                       KOKKOS_LAMBDA(const std::int64_t i) { y[i] += scale * x[i]; });
}

template <class T>
void dropout(const ExecSpace& space, const DropoutMask& mask, std::int64_t count, const T* x, T* y) {
  const RandomStream random(mask.seed, RandomPurpose::dropout, mask.stream);
  const double rate = mask.rate;
  const auto scale = static_cast<Compute<T>>(1.0 / (1.0 - mask.rate));
  const std::int64_t first = mask.first_element;
  Kokkos::parallel_for("lockstep::dropout::apply", Range(space, 0, count), KOKKOS_LAMBDA(const std::int64_t i) {
    y[i] = random.uniform(static_cast<std::uint64_t>(first + i)) < rate ? T(0) : T(x[i] * scale);
  });
}

}  // namespace

void activation_forward(const ExecSpace& space, Activation activation, const Tensor& x, const Tensor& y) {
  dispatch_float(x.dtype, [&]<class T>(T) {
    dispatch_activation(activation, [&]<Activation a>(std::integral_constant<Activation, a>) {
      activation_forward<a, T>(space, x.count(), x.as<T>(), y.as<T>());
    });
  });
}

void activation_backward(const ExecSpace& space, Activation activation, const Tensor& y, const Tensor& dy, const Tensor& dx) {
  dispatch_float(y.dtype, [&]<class T>(T) {
    dispatch_activation(activation, [&]<Activation a>(std::integral_constant<Activation, a>) {
      activation_backward<a, T>(space, y.count(), y.as<T>(), dy.as<T>(), dx.as<T>());
    });
  });
}

void gelu_forward(const ExecSpace& space, const Tensor& x, const Tensor& y) {
  dispatch_float(x.dtype, [&]<class T>(T) { gelu_forward<T>(space, x.count(), x.as<T>(), y.as<T>()); });
}

void gelu_backward(const ExecSpace& space, const Tensor& x, const Tensor& dy, const Tensor& dx) {
  dispatch_float(x.dtype, [&]<class T>(T) { gelu_backward<T>(space, x.count(), x.as<T>(), dy.as<T>(), dx.as<T>()); });
}

void add(const ExecSpace& space, const Tensor& a, const Tensor& b, const Tensor& y) {
  dispatch_float(a.dtype, [&]<class T>(T) { add<T>(space, a.count(), a.as<T>(), b.as<T>(), y.as<T>()); });
}

void accumulate(const ExecSpace& space, const Tensor& x, const Tensor& y) {
  dispatch_float(x.dtype, [&]<class T>(T) { accumulate<T>(space, x.count(), x.as<T>(), y.as<T>()); });
}

void accumulate(const ExecSpace& space, double scale, const Tensor& x, const Tensor& y) {
  dispatch_master(x.dtype, [&]<class T>(T) { accumulate<T>(space, x.count(), static_cast<T>(scale), x.as<T>(), y.as<T>()); });
}

void dropout(const ExecSpace& space, const DropoutMask& mask, const Tensor& x, const Tensor& y) {
  dispatch_float(x.dtype, [&]<class T>(T) { dropout<T>(space, mask, x.count(), x.as<T>(), y.as<T>()); });
}

}  // namespace lockstep
