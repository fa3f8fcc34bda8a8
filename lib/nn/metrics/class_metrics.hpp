// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"
#include "nn/metrics/metric.hpp"
#include "ops/loss/loss.hpp"

namespace lockstep {

/// The share of examples (for sequences: of positions) whose class has one of the k largest outputs. Of equal outputs,
/// the one with the smaller class number ranks higher.
class TopK final : public Metric {
 public:
  TopK(const Shape&, std::int64_t ignored, int k) : ignored_(ignored), k_(k) {}
  std::int64_t sum_count() const override { return 2; }
  void add(const ExecSpace& space, const Tensor& outputs, const Tensor& targets, const Tensor& scratch,
           const Tensor& sums) const override;
  double value(std::span<const double> sums, std::int64_t) const override { return sums[0] / sums[1]; }

 private:
  std::int64_t ignored_, k_;
};

/// A score of each class, averaged over the classes that occur among targets or predictions (scikit-learn's
/// average="macro", zero_division=0). For a class with TP correct predictions, P predictions and A targets: precision
/// TP/P, recall TP/A, F1 2 TP/(P + A), intersection over union TP/(P + A − TP).
class ClassScore final : public Metric {
 public:
  enum class Of { precision, recall, f1, iou };

  ClassScore(const Shape& one_output, std::int64_t ignored, Of score)
      : classes_(one_output[-1]), ignored_(ignored), score_(score) {}
  std::int64_t sum_count() const override { return 3 * classes_; }
  void add(const ExecSpace& space, const Tensor& outputs, const Tensor& targets, const Tensor& scratch,
           const Tensor& sums) const override;
  double value(std::span<const double> sums, std::int64_t examples) const override;

 private:
  std::int64_t classes_, ignored_;
  Of score_;
};

/// e^H, where H is the mean cross entropy over examples and positions, in nats.
class Perplexity final : public Metric {
 public:
  Perplexity(const Shape&, std::int64_t ignored) : ignored_(ignored) {}
  std::int64_t sum_count() const override { return loss_sum_count; }
  void add(const ExecSpace& space, const Tensor& outputs, const Tensor& targets, const Tensor& scratch,
           const Tensor& sums) const override;
  double value(std::span<const double> sums, std::int64_t examples) const override;

 private:
  std::int64_t ignored_;
};

/// Adds to `matrix` (f64 [K, K]) the number of rows of each class (matrix row) that are predicted as each class (matrix
/// column). Targets equal to `ignored` and rows whose outputs contain NaN are not counted. outputs [n, …, K]; targets
/// i32 [n, …].
void count_confusions(const ExecSpace& space, const Tensor& outputs, const Tensor& targets, std::int64_t ignored,
                      const Tensor& matrix);

}  // namespace lockstep
