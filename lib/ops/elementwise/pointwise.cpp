// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/elementwise/elementwise.hpp"

#include "core/packs.hpp"
#include "ops/fast_math.hpp"

namespace lockstep {
namespace {

struct Silu {
  template <class C>
  KOKKOS_INLINE_FUNCTION C value(C x, C) const {
    return x * fast_sigmoid(x);
  }
  template <class C>
  KOKKOS_INLINE_FUNCTION C slope(C x, C) const {
    const C s = fast_sigmoid(x);
    return s * (C(1) + x * (C(1) - s));
  }
};

struct LeakyRelu {
  template <class C>
  KOKKOS_INLINE_FUNCTION C value(C x, C a) const {
    return x > C(0) ? x : a * x;
  }
  template <class C>
  KOKKOS_INLINE_FUNCTION C slope(C x, C a) const {
    return x > C(0) ? C(1) : a;
  }
};

struct Elu {
  template <class C>
  KOKKOS_INLINE_FUNCTION C value(C x, C a) const {
    return x > C(0) ? x : a * fast_expm1(x);
  }
  template <class C>
  KOKKOS_INLINE_FUNCTION C slope(C x, C a) const {
    return x > C(0) ? C(1) : a * fast_exp(x);
  }
};

struct GeluTanh {
  static constexpr double root = 0.79788456080286535588, cubic = 0.044715;  // √(2/π)

  template <class C>
  KOKKOS_INLINE_FUNCTION C inner(C x) const {
    return fast_tanh(C(root) * (x + C(cubic) * x * x * x));
  }
  template <class C>
  KOKKOS_INLINE_FUNCTION C value(C x, C) const {
    return C(0.5) * x * (C(1) + inner(x));
  }
  template <class C>
  KOKKOS_INLINE_FUNCTION C slope(C x, C) const {
    // For |x| ≥ 8, t is ±1 and the second term is 0, also where x² would be infinite.
    const C t = inner(x), near = zero_beyond(C(100), x);
    return C(0.5) * (C(1) + t) + C(0.5) * near * (C(1) - t * t) * C(root) * (C(1) + C(3 * cubic) * near * near);
  }
};

template <class T, class Function>
void forward(const ExecSpace& space, const Function& f, std::int64_t count, Compute<T> a, const T* x, T* y) {
  for_elements(
      space, "lockstep::pointwise::forward", count,
      KOKKOS_LAMBDA(std::int64_t, const T& in, T& out) { out = T(f.value(Compute<T>(in), a)); }, Reads(x), Writes(y));
}

template <class T, class Function>
void backward(const ExecSpace& space, const Function& f, std::int64_t count, Compute<T> a, const T* x, const T* dy,
              T* dx) {
  for_elements(
      space, "lockstep::pointwise::backward", count,
      KOKKOS_LAMBDA(std::int64_t, const T& in, const T& gradient, T& out) {
        out = T(Compute<T>(gradient) * f.slope(Compute<T>(in), a));
      },
      Reads(x), Reads(dy), Writes(dx));
}

template <class F>
void dispatch_pointwise(Pointwise function, F f) {
  switch (function) {
    case Pointwise::silu: return f(Silu());
    case Pointwise::leaky_relu: return f(LeakyRelu());
    case Pointwise::elu: return f(Elu());
    case Pointwise::gelu_tanh: return f(GeluTanh());
  }
}

template <class T>
void multiply(const ExecSpace& space, const char* label, std::int64_t count, const T* a, const T* b, T* y) {
  for_elements(
      space, label, count,
      KOKKOS_LAMBDA(std::int64_t, const T& one, const T& other, T& out) {
        out = T(Compute<T>(one) * Compute<T>(other));
      },
      Reads(a), Reads(b), Writes(y));
}

template <class T>
void multiply_backward(const ExecSpace& space, std::int64_t count, const T* a, const T* b, const T* dy, T* da, T* db) {
  constexpr auto label = "lockstep::multiply::backward";
  if (!db) return multiply<T>(space, label, count, dy, b, da);
  if (!da) return multiply<T>(space, label, count, dy, a, db);
  for_elements(
      space, label, count,
      KOKKOS_LAMBDA(std::int64_t, const T& first, const T& second, const T& gradient, T& dfirst, T& dsecond) {
        // Loaded first, since dfirst may be the gradient's memory.
        const Compute<T> slope = gradient, one = first, other = second;
        dfirst = T(slope * other);
        dsecond = T(slope * one);
      },
      Reads(a), Reads(b), Reads(dy), Writes(da), Writes(db));
}

}  // namespace

void pointwise_forward(const ExecSpace& space, Pointwise function, double a, const Tensor& x, const Tensor& y) {
  dispatch_float(x.dtype, [&]<class T>(T) {
    dispatch_pointwise(function, [&](const auto& f) {
      forward<T>(space, f, x.count(), static_cast<Compute<T>>(a), x.as<const T>(), y.as<T>());
    });
  });
}

void pointwise_backward(const ExecSpace& space, Pointwise function, double a, const Tensor& x, const Tensor& dy,
                        const Tensor& dx) {
  dispatch_float(x.dtype, [&]<class T>(T) {
    dispatch_pointwise(function, [&](const auto& f) {
      backward<T>(space, f, x.count(), static_cast<Compute<T>>(a), x.as<const T>(), dy.as<const T>(), dx.as<T>());
    });
  });
}

void multiply(const ExecSpace& space, const Tensor& a, const Tensor& b, const Tensor& y) {
  dispatch_float(y.dtype, [&]<class T>(T) {
    multiply<T>(space, "lockstep::multiply::forward", y.count(), a.as<const T>(), b.as<const T>(), y.as<T>());
  });
}

void multiply_backward(const ExecSpace& space, const Tensor& a, const Tensor& b, const Tensor& dy, const Tensor& da,
                       const Tensor& db) {
  dispatch_float(dy.dtype, [&]<class T>(T) {
    multiply_backward<T>(space, dy.count(), a.as<const T>(), b.as<const T>(), dy.as<const T>(),
                         da ? da.as<T>() : nullptr, db ? db.as<T>() : nullptr);
  });
}

}  // namespace lockstep
