// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/elementwise/elementwise.hpp"

#include <algorithm>
#include <cmath>

#include "core/packs.hpp"
#include "core/random.hpp"
#include "ops/activation_math.hpp"

namespace lockstep {
namespace {

template <Activation activation, class T>
void activation_forward(const ExecSpace& space, std::int64_t count, const T* x, T* y) {
  for_elements(
      space, "lockstep::activation::forward", count,
      KOKKOS_LAMBDA(std::int64_t, const T& in, T& out) { out = T(activated<activation, Compute<T>>(in)); }, Reads(x),
      Writes(y));
}

/// Also stores the derivative.
template <Activation activation, class T>
void activation_forward(const ExecSpace& space, std::int64_t count, const T* x, T* y, T* derivative) {
  for_elements(
      space, "lockstep::activation::forward", count,
      KOKKOS_LAMBDA(std::int64_t, const T& in, T& out, T& slope) {
        const Compute<T> value = in;
        out = T(activated<activation, Compute<T>>(value));
        slope = T(activation_derivative<activation, Compute<T>>(value));
      },
      Reads(x), Writes(y), Writes(derivative));
}

template <Activation activation, class T>
void activation_backward(const ExecSpace& space, std::int64_t count, const T* kept, const T* dy, T* dx) {
  for_elements(
      space, "lockstep::activation::backward", count,
      KOKKOS_LAMBDA(std::int64_t, const T& known, const T& gradient, T& out) {
        out = T(activation_gradient<activation, Compute<T>>(known, gradient));
      },
      Reads(kept), Reads(dy), Writes(dx));
}

template <class T>
void add(const ExecSpace& space, std::int64_t count, const T* a, const T* b, T* y) {
  for_elements(
      space, "lockstep::add::forward", count,
      KOKKOS_LAMBDA(std::int64_t, const T& one, const T& other, T& out) { out = one + other; }, Reads(a), Reads(b),
      Writes(y));
}

template <class T>
void accumulate(const ExecSpace& space, std::int64_t count, const T* x, T* y) {
  for_elements(
      space, "lockstep::add::accumulate", count, KOKKOS_LAMBDA(std::int64_t, const T& in, T& sum) { sum = sum + in; },
      Reads(x), Updates(y));
}

template <class T>
void accumulate(const ExecSpace& space, std::int64_t count, T scale, const T* x, T* y, const std::int32_t* left_out) {
  for_elements(
      space, "lockstep::add::accumulate_scaled", count,
      KOKKOS_LAMBDA(std::int64_t, const T& in, T& sum) {
        if (left_out == nullptr || *left_out == 0) sum += scale * in;
      },
      Reads(x), Updates(y));
}

struct MaskStream {
  std::uint64_t seed, stream;
  StepNumber step;
  KOKKOS_INLINE_FUNCTION RandomStream operator()() const {
    return {seed, RandomPurpose::dropout, stream ^ static_cast<std::uint64_t>(step())};
  }
};

template <class T>
void dropout(const ExecSpace& space, const DropoutMask& mask, std::int64_t count, const T* x, T* y) {
  // An element is dropped by `dropping` of the 2³² words.
  constexpr double words = 4294967296.0;
  const auto dropping = static_cast<std::uint32_t>(std::min(std::round(mask.rate * words), words - 1));
  using C = Compute<T>;
  const C scale = static_cast<C>(1.0 / (1.0 - mask.rate));
  for_elements(
      space, "lockstep::dropout::apply", count,
      KOKKOS_LAMBDA(std::int64_t, const T& in, const std::uint32_t& word, T& out) {
        const C scaled = C(in) * scale;
        out = T(word < dropping ? C(0) : scaled);
      },
      Reads(x), DrawsWords(MaskStream{mask.seed, mask.stream, mask.step}, mask.first_element), Writes(y));
}

}  // namespace

void activation_forward(const ExecSpace& space, Activation activation, const Tensor& x, const Tensor& y,
                        const Tensor& derivative) {
  dispatch_float(x.dtype, [&]<class T>(T) {
    dispatch_activation(activation, [&]<Activation a>(std::integral_constant<Activation, a>) {
      if constexpr (keeps_derivative(a))
        if (derivative)
          return activation_forward<a, T>(space, x.count(), x.as<const T>(), y.as<T>(), derivative.as<T>());
      activation_forward<a, T>(space, x.count(), x.as<const T>(), y.as<T>());
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
