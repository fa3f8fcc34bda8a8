// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/metrics/class_metrics.hpp"

#include <cmath>
#include <cstdint>
#include <limits>

#include "core/dtype.hpp"
#include "core/execution.hpp"

namespace lockstep {
namespace {

/// Returns the class of the largest output, the first one of equal outputs; -1 if any output is NaN.
template <class T>
KOKKOS_INLINE_FUNCTION std::int64_t predicted_class(const T* outputs, std::int64_t classes) {
  std::int64_t best = 0;
  for (std::int64_t k = 0; k < classes; ++k) {
    const auto value = Compute<T>(outputs[k]);
    if (value != value) return -1;
    if (value > Compute<T>(outputs[best])) best = k;
  }
  return best;
}

/// Adds the correct predictions, all predictions and all targets of each class to `sums` [3, classes]. Counts are
/// integers below 2^53 in f64, so the sums do not depend on the order of the atomic additions.
template <class T>
void count_classes(const ExecSpace& space, std::int64_t rows, std::int64_t classes, std::int64_t ignored,
                   const T* outputs, const std::int32_t* targets, double* sums) {
  Kokkos::parallel_for(
      "lockstep::class_score", RangePolicy(space, 0, rows), KOKKOS_LAMBDA(const std::int64_t i) {
        const std::int64_t target = targets[i];
        if (target == ignored) return;
        const std::int64_t predicted = predicted_class(outputs + i * classes, classes);
        if (predicted == target) Kokkos::atomic_add(sums + target, 1.0);
        if (predicted >= 0) Kokkos::atomic_add(sums + classes + predicted, 1.0);
        Kokkos::atomic_add(sums + 2 * classes + target, 1.0);
      });
}

/// Adds to `sums` the number of hits and the number of rows that count. Counts are integers below 2^53 in f64, so the
/// sums do not depend on the order of the atomic additions.
template <class T>
void count_hits(const ExecSpace& space, std::int64_t k, std::int64_t ignored, std::int64_t rows, std::int64_t classes,
                const T* outputs, const std::int32_t* targets, double* sums) {
  Kokkos::parallel_for(
      "lockstep::top_k", RangePolicy(space, 0, rows), KOKKOS_LAMBDA(const std::int64_t i) {
        const T* const y = outputs + i * classes;
        const std::int64_t target = targets[i];
        if (target == ignored) return;
        const auto of_target = Compute<T>(y[target]);
        std::int64_t after = 0;  // outputs that rank below the target's; NaN ranks below nothing, and nothing below NaN
        for (std::int64_t j = 0; j < classes; ++j) {
          const auto other = Compute<T>(y[j]);
          after += other < of_target || (other == of_target && j > target) ? 1 : 0;
        }
        if (classes - 1 - after < k && of_target == of_target) Kokkos::atomic_add(sums, 1.0);
        Kokkos::atomic_add(sums + 1, 1.0);
      });
}

template <class T>
void count_pairs(const ExecSpace& space, std::int64_t rows, std::int64_t classes, std::int64_t ignored,
                 const T* outputs, const std::int32_t* targets, double* matrix) {
  Kokkos::parallel_for(
      "lockstep::confusion_matrix", RangePolicy(space, 0, rows), KOKKOS_LAMBDA(const std::int64_t i) {
        const std::int64_t predicted = predicted_class(outputs + i * classes, classes);
        if (targets[i] != ignored && predicted >= 0) Kokkos::atomic_add(matrix + targets[i] * classes + predicted, 1.0);
      });
}

}  // namespace

void ClassScore::add(const ExecSpace& space, const Tensor& outputs, const Tensor& targets, const Tensor&,
                     const Tensor& sums) const {
  dispatch_float(outputs.dtype, [&]<class T>(T) {
    count_classes(space, targets.count(), classes_, ignored_, outputs.as<const T>(), targets.as<const std::int32_t>(),
                  sums.as<double>());
  });
}

double ClassScore::value(std::span<const double> sums, std::int64_t) const {
  const auto classes = static_cast<std::size_t>(classes_);
  double total = 0, occurring = 0;
  for (std::size_t k = 0; k < classes; ++k) {
    const double hits = sums[k], predicted = sums[classes + k], actual = sums[2 * classes + k];
    if (predicted + actual == 0) continue;
    occurring += 1;
    if (hits == 0) continue;  // all scores of the class are 0
    switch (score_) {
      case Of::precision: total += hits / predicted; break;
      case Of::recall: total += hits / actual; break;
      case Of::f1: total += 2 * hits / (predicted + actual); break;
      case Of::iou: total += hits / (predicted + actual - hits); break;
    }
  }
  return occurring > 0 ? total / occurring : std::numeric_limits<double>::quiet_NaN();
}

void TopK::add(const ExecSpace& space, const Tensor& outputs, const Tensor& targets, const Tensor&,
               const Tensor& sums) const {
  dispatch_float(outputs.dtype, [&]<class T>(T) {
    count_hits(space, k_, ignored_, targets.count(), outputs.shape[-1], outputs.as<const T>(),
               targets.as<const std::int32_t>(), sums.as<double>());
  });
}

void Perplexity::add(const ExecSpace& space, const Tensor& outputs, const Tensor& targets, const Tensor& scratch,
                     const Tensor& sums) const {
  // Rows count alike, whatever their example.
  const Tensor rows = outputs.reshaped({targets.count(), outputs.shape[-1]});
  softmax_cross_entropy(space, {.ignored = ignored_}, rows, targets, Tensor{}, scratch, sums);
}

double Perplexity::value(std::span<const double> sums, std::int64_t) const {
  const double counted = sums[3];
  return counted > 0 ? std::exp(sums[0] / counted) : std::numeric_limits<double>::quiet_NaN();
}

void count_confusions(const ExecSpace& space, const Tensor& outputs, const Tensor& targets, std::int64_t ignored,
                      const Tensor& matrix) {
  dispatch_float(outputs.dtype, [&]<class T>(T) {
    count_pairs(space, targets.count(), outputs.shape[-1], ignored, outputs.as<const T>(),
                targets.as<const std::int32_t>(), matrix.as<double>());
  });
}

}  // namespace lockstep
