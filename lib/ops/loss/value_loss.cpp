// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>

#include "ops/fast_math.hpp"
#include "ops/loss/loss.hpp"
#include "ops/row_sums.hpp"

namespace lockstep {
namespace {

// Each rule gives the loss of one output (summed in fp64) and its derivative.

struct SquaredError {
  template <class C>
  KOKKOS_INLINE_FUNCTION double loss(C y, C t) const {
    const C error = y - t;
    return static_cast<double>(error) * static_cast<double>(error);
  }
  template <class C>
  KOKKOS_INLINE_FUNCTION C slope(C y, C t) const {
    return C(2) * (y - t);
  }
};

struct AbsoluteError {
  template <class C>
  KOKKOS_INLINE_FUNCTION double loss(C y, C t) const {
    return static_cast<double>(Kokkos::abs(y - t));
  }
  template <class C>
  KOKKOS_INLINE_FUNCTION C slope(C y, C t) const {
    const C error = y - t;
    return error > C(0) ? C(1) : error < C(0) ? C(-1) : error;  // 0 or NaN
  }
};

struct Huber {
  double delta;

  template <class C>
  KOKKOS_INLINE_FUNCTION double loss(C y, C t) const {
    const double error = Kokkos::abs(static_cast<double>(y - t));
    return error <= delta ? 0.5 * error * error : delta * (error - 0.5 * delta);
  }
  template <class C>
  KOKKOS_INLINE_FUNCTION C slope(C y, C t) const {
    const C error = y - t, limit = static_cast<C>(delta);
    return error > limit ? limit : error < -limit ? -limit : error;
  }
};

struct BinaryCrossEntropy {
  template <class C>
  KOKKOS_INLINE_FUNCTION double loss(C y, C t) const {
    const C positive = y < C(0) ? C(0) : y;  // NaN stays NaN
    return static_cast<double>(positive - y * t + Kokkos::log1p(fast_exp(-Kokkos::abs(y))));
  }
  template <class C>
  KOKKOS_INLINE_FUNCTION C slope(C y, C t) const {
    return fast_sigmoid(y) - t;
  }
};

/// The values of each example, divided into parts, each for one thread of a team. Vectors have one part, images
/// several, but at most as many as the image has rows of outputs, for which the scratch memory is sized.
struct Parts {
  static constexpr std::int64_t least = 1024;
  std::int64_t n, count, length, per_example;

  explicit Parts(const Shape& batch)
      : n(batch[0]),
        count(batch.of_example().count()),
        length(std::max(least, batch[-1])),
        per_example((count + length - 1) / length) {}

  KOKKOS_INLINE_FUNCTION std::int64_t total() const { return n * per_example; }
  KOKKOS_INLINE_FUNCTION std::int64_t first(std::int64_t part) const {
    return part / per_example * count + part % per_example * length;
  }
  KOKKOS_INLINE_FUNCTION std::int64_t size(std::int64_t part) const {
    const std::int64_t left = count - part % per_example * length;
    return left < length ? left : length;
  }
};

/// per_part [parts, 2] receives the sums in its first column.
template <class T, class Rule>
void elementwise_loss(const ExecSpace& space, const Rule& rule, const Parts& parts,
                      const GradientFactor& gradient_scale, const T* y, const Compute<T>* t, T* dy, double* per_part) {
  using C = Compute<T>;
  const GradientFactor scale = gradient_scale;
  Kokkos::parallel_for(
      "lockstep::value_loss::part", row_team(space, parts.total()), KOKKOS_LAMBDA(const RowMember& team) {
        for_rows(team, parts.total(), [&](const std::int64_t part) {
          const std::int64_t first = parts.first(part), size = parts.size(part);
          const double sum = row_sum<double>(
              team, size, [&](const std::int64_t k) { return rule.loss(C(y[first + k]), t[first + k]); });
          Kokkos::single(Kokkos::PerThread(team), [&] { per_part[2 * part] = sum; });
          if (!dy) return;
          const C factor = static_cast<C>(scale.value()) / static_cast<C>(parts.count);
          for_columns(team, size, [&](const std::int64_t k) {
            dy[first + k] = T(factor * rule.slope(C(y[first + k]), t[first + k]));
          });
        });
      });
}

/// Stores the mean loss of each example in its first part.
void average_parts(const ExecSpace& space, const Parts& parts, double* per_part) {
  Kokkos::parallel_for(
      "lockstep::value_loss::example", RangePolicy(space, 0, parts.n), KOKKOS_LAMBDA(const std::int64_t i) {
        double* const own = per_part + 2 * i * parts.per_example;
        double sum = 0;
        for (std::int64_t part = 0; part < parts.per_example; ++part) sum += own[2 * part];
        own[0] = sum / static_cast<double>(parts.count);
        own[1] = 0.0;
      });
}

/// Leaves Σ e² and Σ t² of each example in its first part.
template <class T>
void square_sums(const ExecSpace& space, const Parts& parts, const T* y, const Compute<T>* t, double* per_part) {
  using C = Compute<T>;
  Kokkos::parallel_for(
      "lockstep::relative_l2::part", row_team(space, parts.total()), KOKKOS_LAMBDA(const RowMember& team) {
        for_rows(team, parts.total(), [&](const std::int64_t part) {
          const std::int64_t first = parts.first(part), size = parts.size(part);
          const double errors = row_sum<double>(
              team, size, [&](const std::int64_t k) { return SquaredError().loss(C(y[first + k]), t[first + k]); });
          const double targets = row_sum<double>(
              team, size, [&](const std::int64_t k) { return SquaredError().loss(t[first + k], C(0)); });
          Kokkos::single(Kokkos::PerThread(team), [&] {
            per_part[2 * part] = errors;
            per_part[2 * part + 1] = targets;
          });
        });
      });
  Kokkos::parallel_for(
      "lockstep::relative_l2::example", RangePolicy(space, 0, parts.n), KOKKOS_LAMBDA(const std::int64_t i) {
        double* const own = per_part + 2 * i * parts.per_example;
        for (std::int64_t part = 1; part < parts.per_example; ++part)
          for (int column = 0; column < 2; ++column) own[column] += own[2 * part + column];
      });
}

/// The divisor of the norm of an example's error.
KOKKOS_INLINE_FUNCTION double relative_to(double square_sum) { return Kokkos::sqrt(square_sum) + 1e-8; }

template <class T>
void relative_l2(const ExecSpace& space, const Parts& parts, const GradientFactor& gradient_scale, const T* y,
                 const Compute<T>* t, T* dy, double* per_part) {
  using C = Compute<T>;
  const GradientFactor scale = gradient_scale;
  square_sums(space, parts, y, t, per_part);
  if (dy)
    Kokkos::parallel_for(
        "lockstep::relative_l2::gradient", row_team(space, parts.total()), KOKKOS_LAMBDA(const RowMember& team) {
          for_rows(team, parts.total(), [&](const std::int64_t part) {
            const double* const own = per_part + 2 * (part - part % parts.per_example);
            const std::int64_t first = parts.first(part);
            // The gradient is 0 at the minimum, where there is no derivative.
            const C factor = own[0] == 0 ? C(0)
                                         : static_cast<C>(scale.value() / (Kokkos::sqrt(own[0]) * relative_to(own[1])));
            for_columns(team, parts.size(part),
                        [&](const std::int64_t k) { dy[first + k] = T(factor * (C(y[first + k]) - t[first + k])); });
          });
        });
  Kokkos::parallel_for(
      "lockstep::relative_l2::loss", RangePolicy(space, 0, parts.n), KOKKOS_LAMBDA(const std::int64_t i) {
        double* const own = per_part + 2 * i * parts.per_example;
        own[0] = Kokkos::sqrt(own[0]) / relative_to(own[1]);
        own[1] = 0.0;
      });
}

}  // namespace

void value_loss(const ExecSpace& space, ValueLoss kind, double delta, const Tensor& outputs, const Tensor& targets,
                const Tensor& doutputs, const Tensor& per_row, const Tensor& sums,
                const GradientFactor& gradient_scale) {
  const Parts parts(outputs.shape);
  double* const per_part = per_row.as<double>();
  assert(targets.count() == outputs.count() && per_row.count() >= 2 * parts.total());
  dispatch_float(outputs.dtype, [&]<class T>(T) {
    const T* const y = outputs.as<const T>();
    const auto* const t = targets.as<const Compute<T>>();
    T* const dy = doutputs ? doutputs.as<T>() : nullptr;
    const auto run = [&](const auto& rule) {
      elementwise_loss<T>(space, rule, parts, gradient_scale, y, t, dy, per_part);
      average_parts(space, parts, per_part);
    };
    switch (kind) {
      case ValueLoss::squared_error: return run(SquaredError());
      case ValueLoss::absolute_error: return run(AbsoluteError());
      case ValueLoss::huber: return run(Huber{delta});
      case ValueLoss::binary_cross_entropy: return run(BinaryCrossEntropy());
      case ValueLoss::relative_l2: return relative_l2<T>(space, parts, gradient_scale, y, t, dy, per_part);
    }
  });
  add_examples(space, parts.n, parts.per_example, per_part, sums.as<double>());
  count_rows(space, outputs.shape.rows(), sums.as<double>());
}

}  // namespace lockstep
