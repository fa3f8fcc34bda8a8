// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/evaluator.hpp"

#include <algorithm>
#include <cmath>

#include "base/heartbeat.hpp"
#include "base/log.hpp"
#include "data/batch/data_loader.hpp"
#include "nn/metrics/class_metrics.hpp"
#include "ops/elementwise/elementwise.hpp"

namespace lockstep {
namespace {

/// Returns the rows of `output` in a tensor that has a row for each row of the batch.
Tensor rows_of(const Tensor& tensor, const Model::Output& output) {
  const std::int64_t columns = tensor.count() / tensor.shape[0];
  return {
      static_cast<std::byte*>(tensor.data) + static_cast<std::size_t>(output.first * columns) * size_of(tensor.dtype),
      tensor.dtype,
      {output.values.shape[0], columns}};
}

/// Removes a NaN's sign, which means nothing and would be printed.
double without_sign_of_nan(double value) { return std::isnan(value) ? std::abs(value) : value; }

Tensor targets_of(const Model::Output& output, const Tensor& targets) {
  return output.whole ? targets : rows_of(targets.reshaped({targets.count()}), output);
}

}  // namespace

MetricSums::MetricSums(std::int64_t max_batch, const Shape& one_output, std::span<const std::string> metrics,
                       std::int64_t ignored_class)
    : positions_(one_output.rows()),
      classes_(one_output[-1]),
      ignored_class_(ignored_class),
      per_example_("lockstep::loss_per_example", DType::f64, {max_batch * positions_, 2}),
      sums_("lockstep::loss_sums", DType::f64, {loss_sum_count}) {
  for (const std::string& name : metrics) {
    const MetricKind& kind = *find_metric(name);
    std::unique_ptr<Metric> metric = kind.make(one_output, ignored_class);
    const std::int64_t count = metric->sum_count();
    others_.push_back({kind.name, std::move(metric), OwnedTensor("lockstep::metric_sums", DType::f64, {count})});
  }
}

std::int64_t MetricSums::bytes_of(std::span<const std::string> metrics, const Shape& one_output) {
  std::int64_t numbers = 0;
  for (const std::string& name : metrics) numbers += find_metric(name)->make(one_output, -1)->sum_count();
  return numbers * static_cast<std::int64_t>(sizeof(double));
}

void MetricSums::count_confusions() {
  confusions_ = OwnedTensor("lockstep::confusion_matrix", DType::f64, {classes_, classes_});
}

void MetricSums::clear(const ExecSpace& space) {
  fill_zero(space, sums_.get());
  for (const Other& other : others_) fill_zero(space, other.sums.get());
  if (confusions_.get()) fill_zero(space, confusions_.get());
}

void MetricSums::add(const ExecSpace& space, const Loss& loss, std::int64_t n, const Model::Output& output,
                     const Tensor& targets, const GradientFactor& gradient_scale, const MixedTargets& mixed) {
  if (output.whole) {
    loss.evaluate(space, output.values, targets, output.gradient, per_example_.get(), sums_.get(), gradient_scale,
                  mixed);
    return;
  }
  loss.evaluate_rows(
      space, output.values, targets_of(output, targets), output.gradient, rows_of(per_example_.get(), output),
      gradient_scale.over(positions_),
      mixed.others ? MixedTargets{targets_of(output, mixed.others), targets_of(output, mixed.shares)} : MixedTargets{});
  if (output.last) loss.add_rows(space, n, targets, per_example_.get(), sums_.get());
}

void MetricSums::add_others(const ExecSpace& space, const Model::Output& output, const Tensor& all_targets) {
  const Tensor targets = targets_of(output, all_targets);
  const Tensor scratch = output.whole ? per_example_.get() : rows_of(per_example_.get(), output);
  for (const Other& other : others_) other.metric->add(space, output.values, targets, scratch, other.sums.get());
  if (confusions_.get()) lockstep::count_confusions(space, output.values, targets, ignored_class_, confusions_.get());
}

LossSums MetricSums::local(const ExecSpace& space) const {
  LossSums sums{};
  copy_to_host(space, sums_.get(), &sums);
  return sums;
}

Metrics MetricSums::reduce(const LossSums& local, const Communicator& comm, const Loss& loss) const {
  double values[] = {local.loss, local.correct, local.weight, local.counted};
  comm.all_reduce_sum(values);
  const auto mean = [this](double sum, double rows) {
    return without_sign_of_nan(rows > 0 ? sum / (rows / static_cast<double>(positions_)) : std::nan(""));
  };
  Metrics metrics{.loss = mean(values[0], values[2])};
  metrics.has_loss = values[2] > 0;
  if (loss.wants_classes()) metrics.accuracy = mean(values[1], values[3]);
  return metrics;
}

Metrics MetricSums::reduce_all(const ExecSpace& space, const Communicator& comm, const Loss& loss,
                               std::int64_t examples) const {
  Metrics metrics = reduce(local(space), comm, loss);
  for (const Other& other : others_) {
    std::vector<double> sums(static_cast<std::size_t>(other.metric->sum_count()));
    copy_to_host(space, other.sums.get(), sums.data());
    const double value = other.metric->value_over_ranks(sums, examples,
                                                        [&](std::span<double> values) { comm.all_reduce_sum(values); });
    metrics.others.push_back({other.name, without_sign_of_nan(value)});
  }
  if (confusions_.get()) {
    metrics.confusions.resize(static_cast<std::size_t>(classes_ * classes_));
    copy_to_host(space, confusions_.get(), metrics.confusions.data());
    comm.all_reduce_sum(metrics.confusions);
  }
  return metrics;
}

void Evaluator::add(PassContext& context, const HostBatch& batch, std::int64_t first, std::int64_t count) {
  const DeviceBatch examples = parts_.uploader.upload(space_, batch, first, count);
  parts_.model.forward(context, examples.inputs, [&](const Model::Output& output) {
    parts_.sums.add_others(space_, output, examples.targets);
    parts_.sums.add(space_, parts_.loss, count, output, examples.targets);
  });
  context.same_parameters = true;
  heartbeat().beat();
}

std::optional<Metrics> Evaluator::evaluate(const Dataset& dataset, const std::function<bool()>& gives_up) {
  const Sampler sampler({.dataset_size = dataset.size(),
                         .global_batch = max_batch_ * comm_.size(),
                         .shuffle = false,
                         .epochs = 1,
                         .rank = comm_.rank(),
                         .partition = {.ranks = comm_.size(), .micro = max_batch_}});
  DataLoader loader(dataset, sampler, max_batch_, AugmentConfig{}, 0);
  PassContext context{.space = space_, .training = false};
  parts_.sums.clear(space_);
  while (const HostBatch* batch = loader.next()) {
    add(context, *batch, 0, batch->size());
    if (gives_up()) return std::nullopt;
  }
  Metrics metrics = parts_.sums.reduce_all(space_, comm_, parts_.loss, dataset.size());
  if (!metrics.has_loss)
    warn(
        "{}: none of the targets of its {} examples counts: each is of loss.ignore_class or of a class whose weight in "
        "loss.class_weights is 0; its loss is nan and is not used; give examples with targets that count",
        dataset.description(), dataset.size());
  return metrics;
}

Metrics Evaluator::evaluate(const HostBatch& batch) {
  PassContext context{.space = space_, .training = false};
  parts_.sums.clear(space_);
  const std::int64_t largest = comm_.all_reduce_max(batch.size());
  for (const MicroBatch& part : micro_batches_of(batch.size(), largest, {.micro = max_batch_}))
    add(context, batch, part.first, part.count);
  return parts_.sums.reduce_all(space_, comm_, parts_.loss, batch.plan.global_examples);
}

}  // namespace lockstep
