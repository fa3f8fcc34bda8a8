// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/loss/loss.hpp"

#include "ops/fast_math.hpp"
#include "ops/loss/online_softmax.hpp"
#include "ops/row_sums.hpp"

namespace lockstep {
namespace {

/// Rows are processed in tiles of this many elements. Sums along a row are kept separately for each place in a tile, so
/// that loops over a tile vectorize, and the order of additions depends only on sizes.
constexpr std::int64_t class_tile = 64;

KOKKOS_INLINE_FUNCTION std::int64_t tile_length(std::int64_t classes, std::int64_t first) {
  return classes - first < class_tile ? classes - first : class_tile;
}

template <class C>
KOKKOS_INLINE_FUNCTION C add_up_tile(C* sums) {
  for (std::int64_t half_length = class_tile / 2; half_length > 0; half_length /= 2)
    for (std::int64_t j = 0; j < half_length; ++j) sums[j] += sums[j + half_length];
  return sums[0];
}

template <class T>
KOKKOS_INLINE_FUNCTION Compute<T> row_maximum(std::int64_t classes, const T* z) {
  using C = Compute<T>;
  C largest[class_tile];
  for (std::int64_t j = 0; j < class_tile; ++j) largest[j] = C(z[0]);
  for (std::int64_t k = 0; k < classes; k += class_tile) {
    const std::int64_t length = tile_length(classes, k);
    for (std::int64_t j = 0; j < length; ++j) largest[j] = C(z[k + j]) > largest[j] ? C(z[k + j]) : largest[j];
  }
  for (std::int64_t half_length = class_tile / 2; half_length > 0; half_length /= 2)
    for (std::int64_t j = 0; j < half_length; ++j)
      largest[j] = largest[j + half_length] > largest[j] ? largest[j + half_length] : largest[j];
  return largest[0];
}

/// Σ (z − largest).
template <class T>
KOKKOS_INLINE_FUNCTION Compute<T> sum_of_differences(std::int64_t classes, const T* z, Compute<T> largest) {
  using C = Compute<T>;
  C sums[class_tile] = {};
  for (std::int64_t k = 0; k < classes; k += class_tile) {
    const std::int64_t length = tile_length(classes, k);
    for (std::int64_t j = 0; j < length; ++j) sums[j] += C(z[k + j]) - largest;
  }
  return add_up_tile(sums);
}

/// Σ exp(z − largest). If `e` is not null, it receives the exponentials, except in 16 bits, which would round them
/// before they are scaled.
template <class T>
KOKKOS_INLINE_FUNCTION Compute<T> exponential_sum(std::int64_t classes, const T* z, Compute<T> largest, T* e) {
  using C = Compute<T>;
  C sums[class_tile] = {}, exponentials[class_tile];
  for (std::int64_t k = 0; k < classes; k += class_tile) {
    const std::int64_t length = tile_length(classes, k);
    for (std::int64_t j = 0; j < length; ++j) exponentials[j] = fast_exp(C(z[k + j]) - largest);
    for (std::int64_t j = 0; j < length; ++j) sums[j] += exponentials[j];
    if constexpr (!is_16_bit<T>)
      if (e)
        for (std::int64_t j = 0; j < length; ++j) e[k + j] = exponentials[j];
  }
  return add_up_tile(sums);
}

/// dz = factor · exp(z − largest) − shift. Unless T has 16 bits, dz already holds the exponentials.
template <class T>
KOKKOS_INLINE_FUNCTION void row_gradient(std::int64_t classes, const T* z, Compute<T> largest, Compute<T> factor,
                                         Compute<T> shift, T* dz) {
  if constexpr (!is_16_bit<T>) {
    for (std::int64_t k = 0; k < classes; ++k) dz[k] = factor * dz[k] - shift;
  } else {
    float gradient[class_tile];
    for (std::int64_t k = 0; k < classes; k += class_tile) {
      const std::int64_t length = tile_length(classes, k);
      for (std::int64_t j = 0; j < length; ++j) gradient[j] = factor * fast_exp(float(z[k + j]) - largest) - shift;
      for (std::int64_t j = 0; j < length; ++j) dz[k + j] = T(gradient[j]);
    }
  }
}

/// True if the target is the first of the largest logits.
template <class T>
KOKKOS_INLINE_FUNCTION bool is_first_largest(const T* z, Compute<T> largest, std::int64_t target) {
  if (!(Compute<T>(z[target]) == largest)) return false;
  for (std::int64_t k = 0; k < target; ++k)
    if (Compute<T>(z[k]) == largest) return false;
  return true;
}

/// The wanted probabilities of the target and of every other class, and the factor of gradients.
template <class C>
struct SmoothLabels {
  C off_target, on_target;
  GradientFactor factor;
  SmoothLabels(double smoothing, const GradientFactor& scale, std::int64_t classes)
      : off_target(static_cast<C>(smoothing / static_cast<double>(classes))),
        on_target(static_cast<C>(1.0 - smoothing) + off_target),
        factor(scale) {}
  KOKKOS_INLINE_FUNCTION C gradient_scale() const { return static_cast<C>(factor.value()); }
};

template <class T>
void softmax_cross_entropy(const ExecSpace& space, const SmoothLabels<Compute<T>>& q, std::int64_t rows,
                           std::int64_t classes, const T* logits, const std::int32_t* targets, T* dlogits,
                           double* per_row) {
  using C = Compute<T>;
  Kokkos::parallel_for(
      "lockstep::softmax_cross_entropy::row", RangePolicy(space, 0, rows), KOKKOS_LAMBDA(const std::int64_t i) {
        const T* const z = logits + i * classes;
        T* const dz = dlogits ? dlogits + i * classes : nullptr;
        const std::int64_t target = targets[i];
        const C largest = row_maximum<T>(classes, z);
        // As Σ q_k = 1, −Σ q_k log p_k = log Σ exp(z − max) − Σ q_k (z_k − max).
        const C target_logit = C(z[target]) - largest;
        C linear = (q.on_target - q.off_target) * target_logit;
        if (q.off_target > C(0)) linear += q.off_target * sum_of_differences(classes, z, largest);
        per_row[2 * i + 1] = is_first_largest(z, largest, target) ? 1.0 : 0.0;
        const C sum = exponential_sum(classes, z, largest, dz);  // may overwrite z, since dz may be its memory
        per_row[2 * i] = static_cast<double>(Kokkos::log(sum) - linear);
        if (!dz) return;
        const C scale = q.gradient_scale(), factor = scale / sum;
        row_gradient(classes, z, largest, factor, scale * q.off_target, dz);
        dz[target] = T(factor * fast_exp(target_logit) - scale * q.on_target);
      });
}

/// The version for devices, with a few threads for each row.
template <class T>
void softmax_cross_entropy_by_teams(const ExecSpace& space, const SmoothLabels<Compute<T>>& q, std::int64_t rows,
                                    std::int64_t classes, const T* logits, const std::int32_t* targets, T* dlogits,
                                    double* per_row) {
  using C = Compute<T>;
  Kokkos::parallel_for(
      "lockstep::softmax_cross_entropy::row", row_team(space, rows), KOKKOS_LAMBDA(const RowMember& team) {
        for_rows(team, rows, [&](const std::int64_t i) {
          const T* const z = logits + i * classes;
          const std::int64_t target = targets[i];
          const OnlineSoftmax<C> seen = online_softmax_of_row(team, classes, z);
          const C largest = seen.largest;
          const C target_logit = C(z[target]) - largest;  // read before dz is written, which may be z's memory
          const C differences = sum_of_row<C>(
              team, q.off_target > C(0) ? classes : 0, [&](std::int64_t, const T& logit) { return C(logit) - largest; },
              Reads(z));
          const C linear = (q.on_target - q.off_target) * target_logit + q.off_target * differences;
          Kokkos::single(Kokkos::PerThread(team), [&] {
            per_row[2 * i] = static_cast<double>(Kokkos::log(seen.sum) - linear);
            per_row[2 * i + 1] = seen.first == target ? 1.0 : 0.0;
          });
          if (dlogits == nullptr) return;
          T* const dz = dlogits + i * classes;
          const C scale = q.gradient_scale(), factor = scale / seen.sum;
          for_row(
              team, classes,
              [&](std::int64_t k, const T& logit, T& gradient) {
                const C wanted = k == target ? q.on_target : q.off_target;
                gradient = T(factor * exp_of_distance(C(logit) - largest) - scale * wanted);
              },
              Reads(z), Writes(dz));
        });
      });
}

/// Number of classes from which on a whole team processes one row.
constexpr std::int64_t many_classes = 4096;
constexpr int block_threads = 256;

/// Softmax cross-entropy with a team for each row. The logits are read twice, the second time from the cache.
template <class T>
void softmax_cross_entropy_by_blocks(const ExecSpace& space, const SmoothLabels<Compute<T>>& q, std::int64_t rows,
                                     std::int64_t classes, const T* logits, const std::int32_t* targets, T* dlogits,
                                     double* per_row) {
  using C = Compute<T>;
  Kokkos::parallel_for(
      "lockstep::softmax_cross_entropy::row", RowTeam(space, static_cast<int>(rows), team_threads(block_threads), 1),
      KOKKOS_LAMBDA(const RowMember& team) {
        const std::int64_t i = team.league_rank(), target = targets[i];
        const T* const z = logits + i * classes;
        const SoftmaxRow<Reads<T>> row(classes, Reads<T>(z));
        const C of_target = C(z[target]);  // read before dz is written, which may be z's memory
        OnlineSoftmax<C> seen;
        Kokkos::parallel_for(Kokkos::TeamThreadRange(team, row.indices),
                             [&](const std::int64_t index) { seen.add(row, index); });
        seen.combine([&](const auto& reducer) { team.team_reduce(reducer); });
        const C largest = seen.largest;
        C differences = 0;
        if (q.off_target > C(0)) {
          Kokkos::parallel_for(Kokkos::TeamThreadRange(team, row.indices), [&](const std::int64_t index) {
            row.do_index([&](std::int64_t, const T& logit) { differences += C(logit) - largest; }, index);
          });
          team.team_reduce(Kokkos::Sum<C>(differences));
        }
        const C target_logit = of_target - largest;
        Kokkos::single(Kokkos::PerTeam(team), [&] {
          const C linear = (q.on_target - q.off_target) * target_logit + q.off_target * differences;
          per_row[2 * i] = static_cast<double>(Kokkos::log(seen.sum) - linear);
          per_row[2 * i + 1] = seen.first == target ? 1.0 : 0.0;
        });
        if (dlogits == nullptr) return;
        T* const dz = dlogits + i * classes;
        const C scale = q.gradient_scale(), factor = scale / seen.sum, off_target = scale * q.off_target;
        const SoftmaxRow<Reads<T>, Writes<T>> both(classes, Reads<T>(z), Writes<T>(dz));
        Kokkos::parallel_for(Kokkos::TeamThreadRange(team, both.indices), [&](const std::int64_t index) {
          both.do_index([&](std::int64_t, const T& logit,
                            T& gradient) { gradient = T(factor * exp_of_distance(C(logit) - largest) - off_target); },
                        index);
        });
        team.team_barrier();
        Kokkos::single(Kokkos::PerTeam(team),
                       [&] { dz[target] = T(factor * exp_of_distance(target_logit) - scale * q.on_target); });
      });
}

}  // namespace

void cross_entropy_of_rows(const ExecSpace& space, const ClassTargets& meaning, const Tensor& logits,
                           const Tensor& targets, const Tensor& dlogits, const Tensor& per_row,
                           const GradientFactor& gradient_scale, const MixedTargets& mixed) {
  const std::int64_t rows = logits.shape[0], classes = logits.shape[1];
  assert(targets.count() == rows && per_row.count() >= 2 * rows);
  if (meaning.class_weights || meaning.ignored >= 0 || mixed.others)
    return weighted_cross_entropy(space, meaning, logits, targets, mixed, dlogits, per_row, gradient_scale);
  dispatch_float(logits.dtype, [&]<class T>(T) {
    const auto run = [&](auto kernel) {
      kernel(space, SmoothLabels<Compute<T>>(meaning.label_smoothing, gradient_scale, classes), rows, classes,
             logits.as<const T>(), targets.as<const std::int32_t>(), dlogits ? dlogits.as<T>() : nullptr,
             per_row.as<double>());
    };
    if constexpr (!thread_per_element) run(softmax_cross_entropy<T>);
    else run(classes < many_classes ? softmax_cross_entropy_by_teams<T> : softmax_cross_entropy_by_blocks<T>);
  });
}

void add_cross_entropy(const ExecSpace& space, const ClassTargets& meaning, std::int64_t n, const Tensor& targets,
                       const Tensor& per_row, const Tensor& sums) {
  add_rows(space, n, targets.count() / n, per_row.as<double>(), sums.as<double>());
  if (meaning.class_weights || meaning.ignored >= 0) add_row_weights(space, meaning, n, targets, sums);
  else count_rows(space, targets.count(), sums.as<double>());
}

void softmax_cross_entropy(const ExecSpace& space, const ClassTargets& meaning, const Tensor& logits,
                           const Tensor& targets, const Tensor& dlogits, const Tensor& per_row, const Tensor& sums,
                           const GradientFactor& gradient_scale, const MixedTargets& mixed) {
  const Shape all{logits.shape.rows(), logits.shape[-1]};
  cross_entropy_of_rows(space, meaning, logits.reshaped(all), targets, dlogits ? dlogits.reshaped(all) : dlogits,
                        per_row, gradient_scale.over(logits.shape.of_example().rows()), mixed);
  add_cross_entropy(space, meaning, logits.shape[0], targets, per_row, sums);
}

}  // namespace lockstep
