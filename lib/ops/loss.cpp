// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/loss.hpp"

#include <Kokkos_BitManipulation.hpp>

namespace lockstep {
namespace {

using Range = Kokkos::RangePolicy<ExecSpace, Kokkos::IndexType<std::int64_t>>;

/// Partial results kept side by side along a row, so that loops become vectors while the order of
/// additions stays the same.
constexpr int lanes = 16;

KOKKOS_INLINE_FUNCTION double fast_exp(double x) { return Kokkos::exp(x); }

/// eˣ = 2ⁿ·eʳ, |r| ≤ ln 2 / 2, eʳ by a polynomial (Cephes' expf): within 2 units in the last place, without
/// branches. What is below −87 gives e⁻⁸⁷ (10⁻³⁸); NaN stays NaN. For x ≤ 88.
KOKKOS_INLINE_FUNCTION float fast_exp(float x) {
  x = x < -87.0f ? -87.0f : x;
  constexpr float magic = 12582912.0f;  // 1.5·2²³: adding it rounds to a whole number, in the lowest bits
  const float shifted = x * 1.44269504f + magic;
  const float n = shifted - magic;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const std::uint32_t exponent = (Kokkos::bit_cast<std::uint32_t>(shifted) + 127u) << 23;
  return p * Kokkos::bit_cast<float>(exponent);
}

template <class T>
KOKKOS_INLINE_FUNCTION Compute<T> row_maximum(std::int64_t classes, const T* z) {
  using C = Compute<T>;
  C lane[lanes];
  for (int l = 0; l < lanes; ++l) lane[l] = C(z[0]);
  std::int64_t k = 0;
  for (; k + lanes <= classes; k += lanes)
    for (int l = 0; l < lanes; ++l) lane[l] = C(z[k + l]) > lane[l] ? C(z[k + l]) : lane[l];
  for (; k < classes; ++k) lane[0] = C(z[k]) > lane[0] ? C(z[k]) : lane[0];
  for (int l = 1; l < lanes; ++l) lane[0] = lane[l] > lane[0] ? lane[l] : lane[0];
  return lane[0];
}

/// Σ exp(z − largest) and Σ (z − largest).
template <class C>
struct RowSums {
  C exponentials, logits;
};

/// `e` receives the exponentials, unless it is null.
template <class T>
KOKKOS_INLINE_FUNCTION RowSums<Compute<T>> row_sums(std::int64_t classes, const T* z, Compute<T> largest, Compute<T>* e) {
  using C = Compute<T>;
  C exponential_lane[lanes] = {}, logit_lane[lanes] = {};
  std::int64_t k = 0;
  for (; k + lanes <= classes; k += lanes) {
    C value[lanes];
    for (int l = 0; l < lanes; ++l) value[l] = C(z[k + l]) - largest;
    for (int l = 0; l < lanes; ++l) logit_lane[l] += value[l];
    for (int l = 0; l < lanes; ++l) value[l] = fast_exp(value[l]);
    for (int l = 0; l < lanes; ++l) exponential_lane[l] += value[l];
    if (e)
      for (int l = 0; l < lanes; ++l) e[k + l] = value[l];
  }
  for (; k < classes; ++k) {
    const C value = C(z[k]) - largest, exponential = fast_exp(value);
    logit_lane[0] += value;
    exponential_lane[0] += exponential;
    if (e) e[k] = exponential;
  }
  for (int l = 1; l < lanes; ++l) {
    logit_lane[0] += logit_lane[l];
    exponential_lane[0] += exponential_lane[l];
  }
  return {exponential_lane[0], logit_lane[0]};
}

/// 16 bits would round the exponentials before they are scaled: they are computed again instead.
template <class T>
KOKKOS_INLINE_FUNCTION Compute<T>* room_for_exponentials(T* dlogits) {
  if constexpr (is_16_bit<T>) return nullptr;
  else return dlogits;
}

template <class T>
KOKKOS_INLINE_FUNCTION Compute<T> exponential_of(const T* z, Compute<T> largest, const T* e, std::int64_t k) {
  if constexpr (is_16_bit<T>) return fast_exp(Compute<T>(z[k]) - largest);
  else return e[k];
}

/// Whether the target is the first of the largest.
template <class T>
KOKKOS_INLINE_FUNCTION bool is_first_largest(const T* z, Compute<T> largest, std::int64_t target) {
  if (!(Compute<T>(z[target]) == largest)) return false;
  for (std::int64_t k = 0; k < target; ++k)
    if (Compute<T>(z[k]) == largest) return false;
  return true;
}

template <class T>
void softmax_cross_entropy(const ExecSpace& space, double smoothing, double scale, std::int64_t rows, std::int64_t classes,
                           const T* logits, const std::int32_t* targets, T* dlogits, double* per_row) {
  using C = Compute<T>;
  const C off_target = static_cast<C>(smoothing / static_cast<double>(classes));
  const C on_target = static_cast<C>(1.0 - smoothing) + off_target;
  const C gradient_scale = static_cast<C>(scale);
  Kokkos::parallel_for("lockstep::softmax_cross_entropy::row", Range(space, 0, rows), KOKKOS_LAMBDA(const std::int64_t i) {
    const T* const z = logits + i * classes;
    T* const dz = dlogits ? dlogits + i * classes : nullptr;
    const std::int64_t target = targets[i];
    const C largest = row_maximum<T>(classes, z);
    const RowSums<C> sums = row_sums<T>(classes, z, largest, room_for_exponentials(dz));
    // Σ q_k = 1, so −Σ q_k log p_k = log Σ exp(z − max) − Σ q_k (z_k − max).
    C linear = (on_target - off_target) * (C(z[target]) - largest);
    if (off_target > C(0)) linear += off_target * sums.logits;
    per_row[2 * i] = static_cast<double>(Kokkos::log(sums.exponentials) - linear);
    per_row[2 * i + 1] = is_first_largest(z, largest, target) ? 1.0 : 0.0;
    if (!dz) return;
    const C factor = gradient_scale / sums.exponentials, shift = gradient_scale * off_target;
    const C at_target = exponential_of<T>(z, largest, dz, target);
    for (std::int64_t k = 0; k < classes; ++k) dz[k] = T(factor * exponential_of<T>(z, largest, dz, k) - shift);
    dz[target] = T(factor * at_target - gradient_scale * on_target);
  });
}

template <class T>
void mean_squared_error(const ExecSpace& space, double gradient_scale, std::int64_t n, std::int64_t outputs, const T* y,
                        const T* t, T* dy, double* per_example) {
  using C = Compute<T>;
  const C scale = static_cast<C>(gradient_scale) * C(2) / static_cast<C>(outputs);
  Kokkos::parallel_for("lockstep::mean_squared_error::example", Range(space, 0, n),
                       KOKKOS_LAMBDA(const std::int64_t i) {
                         double sum = 0;
                         for (std::int64_t k = i * outputs; k < (i + 1) * outputs; ++k) {
                           const C error = y[k] - t[k];
                           sum += static_cast<double>(error) * static_cast<double>(error);
                           if (dy) dy[k] = T(scale * error);
                         }
                         per_example[2 * i] = sum / static_cast<double>(outputs);
                         per_example[2 * i + 1] = 0.0;
                       });
}

/// The mean over the positions of each example, in the place of its first.
void average_positions(const ExecSpace& space, std::int64_t n, std::int64_t positions, double* per_row) {
  Kokkos::parallel_for("lockstep::loss::positions", Range(space, 0, n), KOKKOS_LAMBDA(const std::int64_t i) {
    double* const row = per_row + 2 * i * positions;
    double loss = 0, correct = 0;
    for (std::int64_t t = 0; t < positions; ++t) {
      loss += row[2 * t];
      correct += row[2 * t + 1];
    }
    row[0] = loss / static_cast<double>(positions);
    row[1] = correct / static_cast<double>(positions);
  });
}

/// Examples are summed in their order by one thread: n is small, and the result does not depend on
/// the number of threads. Example i stands in row i · stride.
void add_up(const ExecSpace& space, std::int64_t n, std::int64_t stride, const double* per_example, double* sums) {
  Kokkos::parallel_for("lockstep::loss::sum", Range(space, 0, 2), KOKKOS_LAMBDA(const std::int64_t column) {
    double sum = sums[column];
    for (std::int64_t i = 0; i < n; ++i) sum += per_example[2 * i * stride + column];
    sums[column] = sum;
  });
}

}  // namespace

void softmax_cross_entropy(const ExecSpace& space, double label_smoothing, const Tensor& logits,
                           const Tensor& targets, const Tensor& dlogits, const Tensor& per_example,
                           const Tensor& sums, double gradient_scale) {
  const std::int64_t n = logits.shape[0], classes = logits.shape[-1];
  const std::int64_t positions = logits.shape.rank() == 3 ? logits.shape[1] : 1;
  assert(targets.count() == n * positions && per_example.count() >= 2 * n * positions);
  const double scale = gradient_scale / static_cast<double>(positions);
  dispatch_float(logits.dtype, [&]<class T>(T) {
    softmax_cross_entropy<T>(space, label_smoothing, scale, n * positions, classes, logits.as<T>(),
                             targets.as<std::int32_t>(), dlogits ? dlogits.as<T>() : nullptr,
                             per_example.as<double>());
  });
  if (positions > 1) average_positions(space, n, positions, per_example.as<double>());
  add_up(space, n, positions, per_example.as<double>(), sums.as<double>());
}

void mean_squared_error(const ExecSpace& space, const Tensor& outputs, const Tensor& targets,
                        const Tensor& doutputs, const Tensor& per_example, const Tensor& sums, double gradient_scale) {
  const std::int64_t n = outputs.shape[0];
  dispatch_float(outputs.dtype, [&]<class T>(T) {
    mean_squared_error<T>(space, gradient_scale, n, outputs.shape[1], outputs.as<T>(), targets.as<T>(),
                          doutputs ? doutputs.as<T>() : nullptr, per_example.as<double>());
  });
  add_up(space, n, 1, per_example.as<double>(), sums.as<double>());
}

}  // namespace lockstep
