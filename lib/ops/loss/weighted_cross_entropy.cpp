// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/loss/loss.hpp"

#include "ops/fast_math.hpp"
#include "ops/row_sums.hpp"

namespace lockstep {
namespace {

/// q_k = weight_k ((1−ε)·onehot_k + ε/K), where onehot may be that of two targets, by their shares.
template <class C>
struct Wanted {
  C on_target, off_target, total_weight;
  const double* weights;  ///< null: all are 1
  std::int64_t ignored;
  const std::int32_t* others;  ///< null: targets are not mixed
  const double* shares;

  KOKKOS_INLINE_FUNCTION C weight(std::int64_t k) const { return weights ? static_cast<C>(weights[k]) : C(1); }
};

template <class T>
void cross_entropy(const ExecSpace& space, const Wanted<Compute<T>>& wanted, const GradientFactor& scale,
                   std::int64_t rows, std::int64_t classes, const T* logits, const std::int32_t* targets, T* dlogits,
                   double* per_row) {
  using C = Compute<T>;
  const GradientFactor own_scale = scale;
  Kokkos::parallel_for(
      "lockstep::weighted_cross_entropy::row", row_team(space, rows), KOKKOS_LAMBDA(const RowMember& team) {
        for_rows(team, rows, [&](const std::int64_t i) {
          const T* const z = logits + i * classes;
          T* const dz = dlogits ? dlogits + i * classes : nullptr;
          const std::int64_t target = targets[i];
          if (target == wanted.ignored) {
            Kokkos::single(Kokkos::PerThread(team), [&] { per_row[2 * i] = per_row[2 * i + 1] = 0.0; });
            if (dz) for_columns(team, classes, [&](const std::int64_t k) { dz[k] = T(0); });
            return;
          }
          C largest = C(z[0]);
          Kokkos::parallel_reduce(
              Kokkos::ThreadVectorRange(team, classes),
              [&](const std::int64_t k, C& best) { best = C(z[k]) > best ? C(z[k]) : best; }, Kokkos::Max<C>(largest));
          // These are read before any thread writes dz, which may be z's memory.
          const std::int64_t other = wanted.others ? wanted.others[i] : target;
          const C target_logit = C(z[target]) - largest, other_logit = C(z[other]) - largest;
          const C sum = row_sum<C>(team, classes, [&](const std::int64_t k) { return fast_exp(C(z[k]) - largest); });
          const C differences = row_sum<C>(team, wanted.off_target > C(0) ? classes : 0, [&](const std::int64_t k) {
            return wanted.weight(k) * (C(z[k]) - largest);
          });
          const std::int64_t as_large_before = row_sum<std::int64_t>(
              team, target, [&](const std::int64_t k) { return C(z[k]) == largest ? 1 : 0; });
          const C share = wanted.others ? static_cast<C>(wanted.shares[i]) : C(1);
          // With Σ q_k = q: −Σ q_k log p_k = q log Σ exp(z − max) − Σ q_k (z_k − max).
          const C of_target = wanted.on_target * share * wanted.weight(target),
                  of_other = wanted.on_target * (C(1) - share) * wanted.weight(other),
                  q = of_target + of_other + wanted.off_target * wanted.total_weight;
          const C linear = of_target * target_logit + of_other * other_logit + wanted.off_target * differences;
          Kokkos::single(Kokkos::PerThread(team), [&] {
            per_row[2 * i] = static_cast<double>(q * Kokkos::log(sum) - linear);
            per_row[2 * i + 1] = target_logit == C(0) && as_large_before == 0 ? 1.0 : 0.0;
          });
          if (!dz) return;
          const C gradient_scale = static_cast<C>(own_scale.value()), factor = gradient_scale * q / sum;
          for_columns(team, classes, [&](const std::int64_t k) {
            const C share = wanted.off_target * wanted.weight(k) + (k == target ? of_target : C(0)) +
                            (k == other ? of_other : C(0));
            dz[k] = T(factor * fast_exp(C(z[k]) - largest) - gradient_scale * share);
          });
        });
      });
}

}  // namespace

void weighted_cross_entropy(const ExecSpace& space, const ClassTargets& meaning, const Tensor& logits,
                            const Tensor& targets, const MixedTargets& mixed, const Tensor& dlogits,
                            const Tensor& per_row, const GradientFactor& gradient_scale) {
  const std::int64_t rows = logits.shape[0], classes = logits.shape[1];
  const double* const weights = meaning.class_weights ? meaning.class_weights.as<const double>() : nullptr;
  assert(!mixed.others || (!weights && meaning.ignored < 0 && mixed.others.count() == rows));
  assert(!weights || meaning.class_weights.count() == classes);
  dispatch_float(logits.dtype, [&]<class T>(T) {
    using C = Compute<T>;
    const Wanted<C> wanted{
        .on_target = static_cast<C>(1 - meaning.label_smoothing),
        .off_target = static_cast<C>(meaning.label_smoothing / static_cast<double>(classes)),
        .total_weight = static_cast<C>(weights ? meaning.total_weight : static_cast<double>(classes)),
        .weights = weights,
        .ignored = meaning.ignored,
        .others = mixed.others ? mixed.others.as<const std::int32_t>() : nullptr,
        .shares = mixed.others ? mixed.shares.as<const double>() : nullptr};
    cross_entropy<T>(space, wanted, gradient_scale, rows, classes, logits.as<const T>(),
                     targets.as<const std::int32_t>(), dlogits ? dlogits.as<T>() : nullptr, per_row.as<double>());
  });
}

void add_row_weights(const ExecSpace& space, const ClassTargets& meaning, std::int64_t n, const Tensor& all_targets,
                     const Tensor& all_sums) {
  const std::int64_t rows = all_targets.count() / n, ignored = meaning.ignored;
  const double* const weights = meaning.class_weights ? meaning.class_weights.as<const double>() : nullptr;
  const auto* const targets = all_targets.as<const std::int32_t>();
  auto* const sums = all_sums.as<double>();
  Kokkos::parallel_for(
      "lockstep::weighted_cross_entropy::weights", RangePolicy(space, 0, n), KOKKOS_LAMBDA(const std::int64_t i) {
        double weight = 0, counted = 0;
        for (std::int64_t row = i * rows; row < (i + 1) * rows; ++row) {
          if (targets[row] == ignored) continue;
          weight += weights ? weights[targets[row]] : 1.0;
          counted += 1;
        }
        Kokkos::atomic_add(sums + 2, weight);
        Kokkos::atomic_add(sums + 3, counted);
      });
}

}  // namespace lockstep
