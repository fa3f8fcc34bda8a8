// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/metrics/metric.hpp"

#include <algorithm>
#include <vector>

#include "nn/metrics/class_metrics.hpp"
#include "nn/metrics/value_metrics.hpp"

namespace lockstep {
namespace {

template <class M, auto... options>
std::unique_ptr<Metric> make(const Shape& one_output, std::int64_t ignored) {
  return std::make_unique<M>(one_output, ignored, options...);
}

constexpr Range at_most_one{.max = 1};

constexpr MetricKind table[] = {
    {"perplexity", "exponential of the mean cross entropy, without label smoothing", Better::less, at_least_one, true,
     1, make<Perplexity>},
    {"top_2", "share of examples whose class is among the two most likely", Better::more, fraction, true, 3,
     make<TopK, 2>},
    {"top_3", "share of examples whose class is among the three most likely", Better::more, fraction, true, 4,
     make<TopK, 3>},
    {"top_5", "share of examples whose class is among the five most likely", Better::more, fraction, true, 6,
     make<TopK, 5>},
    {"precision", "share of the predictions of a class that are right, averaged over classes", Better::more, fraction,
     true, 2, make<ClassScore, ClassScore::Of::precision>},
    {"recall", "share of the examples of a class that are predicted as that class, averaged over classes", Better::more,
     fraction, true, 2, make<ClassScore, ClassScore::Of::recall>},
    {"f1", "harmonic mean of precision and recall of a class, averaged over classes", Better::more, fraction, true, 2,
     make<ClassScore, ClassScore::Of::f1>},
    {"iou", "intersection over union of the targets and predictions of a class, averaged over classes", Better::more,
     fraction, true, 2, make<ClassScore, ClassScore::Of::iou>},
    {"r_squared", "share of the targets' variance that is explained, averaged over channels", Better::more, at_most_one,
     false, 1, make<RSquared>},
    {"auc", "area under the ROC curve for targets 0 and 1, averaged over channels", Better::more, fraction, false, 1,
     make<AreaUnderCurve>},
};

}  // namespace

std::span<const MetricKind> metric_kinds() { return table; }

std::span<const std::string_view> metric_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    for (const MetricKind& kind : table) all.push_back(kind.name);
    return all;
  }();
  return names;
}

std::span<const std::string_view> evaluation_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all = {"loss", "accuracy"};
    all.insert(all.end(), metric_names().begin(), metric_names().end());
    return all;
  }();
  return names;
}

const MetricKind* find_metric(std::string_view name) {
  const auto found = std::ranges::find(table, name, &MetricKind::name);
  return found == std::end(table) ? nullptr : found;
}

Better better_of(std::string_view name) {
  if (name == "loss") return Better::less;
  const MetricKind* kind = find_metric(name);
  return kind ? kind->better : Better::more;
}

Range values_of(std::string_view name) {
  if (name == "loss") return any_number;
  const MetricKind* kind = find_metric(name);
  return kind ? kind->values : fraction;
}

}  // namespace lockstep
