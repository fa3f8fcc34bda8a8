// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/metrics/confusion_matrix.hpp"

#include "nn/metrics/predicted_class.hpp"

namespace lockstep {
namespace {

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

void count_confusions(const ExecSpace& space, const Tensor& outputs, const Tensor& targets, std::int64_t ignored,
                      const Tensor& matrix) {
  dispatch_float(outputs.dtype, [&]<class T>(T) {
    count_pairs(space, targets.count(), outputs.shape[-1], ignored, outputs.as<const T>(),
                targets.as<const std::int32_t>(), matrix.as<double>());
  });
}

}  // namespace lockstep
