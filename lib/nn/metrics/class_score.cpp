// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/metrics/class_score.hpp"

#include <limits>

#include "nn/metrics/predicted_class.hpp"

namespace lockstep {
namespace {

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

}  // namespace lockstep
