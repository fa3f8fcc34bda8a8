// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/loss.hpp"

namespace lockstep {
namespace {

using Range = Kokkos::RangePolicy<ExecSpace, Kokkos::IndexType<std::int64_t>>;

template <class T>
void softmax_cross_entropy(const ExecSpace& space, double smoothing, std::int64_t n, std::int64_t classes,
                           const T* logits, const std::int32_t* targets, T* dlogits, double* per_example) {
  using C = Compute<T>;
  const C off_target = static_cast<C>(smoothing / static_cast<double>(classes));
  const C on_target = static_cast<C>(1.0 - smoothing) + off_target;
  Kokkos::parallel_for("lockstep::softmax_cross_entropy::example", Range(space, 0, n),
                       KOKKOS_LAMBDA(const std::int64_t i) {
                         const T* const z = logits + i * classes;
                         const std::int64_t target = targets[i];
                         std::int64_t best = 0;
                         for (std::int64_t k = 1; k < classes; ++k)
                           if (z[k] > z[best]) best = k;
                         const C largest = z[best];
                         C sum = C(0), linear = C(0);
                         for (std::int64_t k = 0; k < classes; ++k) {
                           sum += Kokkos::exp(z[k] - largest);
                           linear += (k == target ? on_target : off_target) * (z[k] - largest);
                         }
                         // Σ q_k = 1, so −Σ q_k log p_k = log Σ exp(z − max) − Σ q_k (z_k − max).
                         per_example[2 * i] = static_cast<double>(Kokkos::log(sum) - linear);
                         per_example[2 * i + 1] = best == target ? 1.0 : 0.0;
                         if (dlogits)
                           for (std::int64_t k = 0; k < classes; ++k)
                             dlogits[i * classes + k] =
                                 T(Kokkos::exp(z[k] - largest) / sum - (k == target ? on_target : off_target));
                       });
}

template <class T>
void mean_squared_error(const ExecSpace& space, std::int64_t n, std::int64_t outputs, const T* y, const T* t,
                        T* dy, double* per_example) {
  using C = Compute<T>;
  const C scale = C(2) / static_cast<C>(outputs);
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

/// Examples are summed in their order by one thread: n is small, and the result does not depend on
/// the number of threads.
void add_up(const ExecSpace& space, std::int64_t n, const double* per_example, double* sums) {
  Kokkos::parallel_for("lockstep::loss::sum", Range(space, 0, 2), KOKKOS_LAMBDA(const std::int64_t column) {
    double sum = sums[column];
    for (std::int64_t i = 0; i < n; ++i) sum += per_example[2 * i + column];
    sums[column] = sum;
  });
}

}  // namespace

void softmax_cross_entropy(const ExecSpace& space, double label_smoothing, const Tensor& logits,
                           const Tensor& targets, const Tensor& dlogits, const Tensor& per_example,
                           const Tensor& sums) {
  const std::int64_t n = logits.shape[0];
  dispatch_float(logits.dtype, [&]<class T>(T) {
    softmax_cross_entropy<T>(space, label_smoothing, n, logits.shape[1], logits.as<T>(),
                             targets.as<std::int32_t>(), dlogits ? dlogits.as<T>() : nullptr,
                             per_example.as<double>());
  });
  add_up(space, n, per_example.as<double>(), sums.as<double>());
}

void mean_squared_error(const ExecSpace& space, const Tensor& outputs, const Tensor& targets,
                        const Tensor& doutputs, const Tensor& per_example, const Tensor& sums) {
  const std::int64_t n = outputs.shape[0];
  dispatch_float(outputs.dtype, [&]<class T>(T) {
    mean_squared_error<T>(space, n, outputs.shape[1], outputs.as<T>(), targets.as<T>(),
                          doutputs ? doutputs.as<T>() : nullptr, per_example.as<double>());
  });
  add_up(space, n, per_example.as<double>(), sums.as<double>());
}

}  // namespace lockstep
