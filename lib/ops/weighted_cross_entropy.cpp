// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/fast_math.hpp"
#include "ops/loss.hpp"
#include "ops/loss_sums.hpp"
#include "ops/row_sums.hpp"

namespace lockstep {
namespace {

template <class T>
void weighted_cross_entropy(const ExecSpace& space, double smoothing, const double* weights, double total_weight,
                            double scale, std::int64_t rows, std::int64_t classes, const T* logits,
                            const std::int32_t* targets, T* dlogits, double* per_row) {
  using C = Compute<T>;
  const C on_target = static_cast<C>(1 - smoothing),
          off_target = static_cast<C>(smoothing / static_cast<double>(classes)), total = static_cast<C>(total_weight),
          gradient_scale = static_cast<C>(scale);
  Kokkos::parallel_for(
      "lockstep::weighted_cross_entropy::row", row_team(space, rows), KOKKOS_LAMBDA(const RowMember& team) {
        for_rows(team, rows, [&](const std::int64_t i) {
          const T* const z = logits + i * classes;
          const std::int64_t target = targets[i];
          C largest = C(z[0]);
          Kokkos::parallel_reduce(
              Kokkos::ThreadVectorRange(team, classes),
              [&](const std::int64_t k, C& best) { best = C(z[k]) > best ? C(z[k]) : best; }, Kokkos::Max<C>(largest));
          const C sum = row_sum<C>(team, classes, [&](const std::int64_t k) { return fast_exp(C(z[k]) - largest); });
          const C differences = row_sum<C>(team, off_target > C(0) ? classes : 0, [&](const std::int64_t k) {
            return static_cast<C>(weights[k]) * (C(z[k]) - largest);
          });
          const std::int64_t as_large_before = row_sum<std::int64_t>(
              team, target, [&](const std::int64_t k) { return C(z[k]) == largest ? 1 : 0; });
          // Σ q_k = q, so −Σ q_k log p_k = q · log Σ exp(z − max) − Σ q_k (z_k − max).
          const C of_target = on_target * static_cast<C>(weights[target]), q = of_target + off_target * total;
          const C target_logit = C(z[target]) - largest;
          const C linear = of_target * target_logit + off_target * differences;
          Kokkos::single(Kokkos::PerThread(team), [&] {
            per_row[2 * i] = static_cast<double>(q * Kokkos::log(sum) - linear);
            per_row[2 * i + 1] = target_logit == C(0) && as_large_before == 0 ? 1.0 : 0.0;
          });
          if (dlogits == nullptr) return;
          T* const dz = dlogits + i * classes;
          const C factor = gradient_scale * q / sum;
          for_columns(team, classes, [&](const std::int64_t k) {
            const C wanted = off_target * static_cast<C>(weights[k]) + (k == target ? of_target : C(0));
            dz[k] = T(factor * fast_exp(C(z[k]) - largest) - gradient_scale * wanted);
          });
        });
      });
}

/// Weights have so few bits that sums of them are exact: no order of additions changes them.
void add_weights(const ExecSpace& space, std::int64_t n, std::int64_t positions, const double* weights,
                 const std::int32_t* targets, double* sum_of_weights) {
  Kokkos::parallel_for(
      "lockstep::weighted_cross_entropy::weights", RangePolicy(space, 0, n), KOKKOS_LAMBDA(const std::int64_t i) {
        double sum = 0;
        for (std::int64_t t = i * positions; t < (i + 1) * positions; ++t) sum += weights[targets[t]];
        Kokkos::atomic_add(sum_of_weights, sum);
      });
}

}  // namespace

void weighted_cross_entropy(const ExecSpace& space, double label_smoothing, const Tensor& class_weights,
                            double total_weight, const Tensor& logits, const Tensor& targets, const Tensor& dlogits,
                            const Tensor& per_example, const Tensor& sums, double gradient_scale) {
  const std::int64_t n = logits.shape[0], classes = logits.shape[-1], positions = targets.count() / n;
  assert(targets.count() == n * positions && per_example.count() >= 2 * n * positions);
  assert(class_weights.count() == classes);
  dispatch_float(logits.dtype, [&]<class T>(T) {
    weighted_cross_entropy<T>(space, label_smoothing, class_weights.as<const double>(), total_weight,
                              gradient_scale / static_cast<double>(positions), n * positions, classes,
                              logits.as<const T>(), targets.as<const std::int32_t>(),
                              dlogits ? dlogits.as<T>() : nullptr, per_example.as<double>());
  });
  add_rows(space, n, positions, per_example.as<double>(), sums.as<double>());
  add_weights(space, n, positions, class_weights.as<const double>(), targets.as<const std::int32_t>(),
              sums.as<double>() + 2);
}

}  // namespace lockstep
