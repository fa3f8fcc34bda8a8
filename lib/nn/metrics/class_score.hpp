// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "nn/metric.hpp"

namespace lockstep {

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

}  // namespace lockstep
