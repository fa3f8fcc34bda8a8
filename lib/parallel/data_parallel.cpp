// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/data_parallel.hpp"

#include "ops/reduction.hpp"
#include "parallel/reducers/deterministic_reducer.hpp"
#include "parallel/reducers/device_reducer.hpp"

namespace lockstep {

DataParallel::DataParallel(const ParallelConfig& config, const ShardGroups& groups, ParameterBuffer& parameters,
                           ReplicaSums sums)
    : ranks_(groups.ranks.all),
      parameters_(parameters),
      memory_(std::move(sums.memory)),
      square_(parameters.trained_size()),
      nonfinite_("lockstep::nonfinite_gradients", DType::f64, {1}) {
  const Tensor gradients = parameters.gradients();
  GradientBuckets buckets(parameters.layout(), config);
  std::unique_ptr<Collective> compressed;
  if (config.compress.present && ranks_.size() > 1)
    compression_ = Compression::make(config, groups.ranks, memory_, parameters.layout(), sums.seed);
  if (compression_) {
    buckets.trained = compression_->buckets();
    compressed = compression_->make_sum({gradients.dtype, gradients.data});
  }
  if (config.tree_leaves() > 0) reducer_ = std::make_unique<DeterministicReducer>(ranks_, config, gradients);
  else if (sums.on_devices)
    reducer_ = std::make_unique<DeviceReducer>(config, std::move(sums.on_devices), gradients, buckets);
  else
    reducer_ = std::make_unique<BucketedReducer>(config, sums.measured, groups, memory_, gradients, buckets,
                                                 std::move(compressed));
  traits_.sums_exactly = compression_ == nullptr;
  traits_.states_change_early = compression_ != nullptr;
  if (!compression_) traits_.early_sums = reducer_.get();
}

void DataParallel::begin_step(const ExecSpace&, std::int64_t number, const BatchPlan& batch) {
  if (compression_) compression_->begin_step(number, batch.global_examples);
  reducer_->begin_step(batch);
}

void DataParallel::gradient_ready(const ExecSpace& space, ElementRange range) {
  reducer_->ready(space, range.first + range.count);
}

void DataParallel::gradient_sum_done(const ExecSpace& space) { reducer_->gradient_sum_done(space); }

void DataParallel::finish_gradients(const ExecSpace& space, const std::function<void()>& meanwhile) {
  reducer_->finish(space, meanwhile);
}

PassHooks DataParallel::pass_hooks() {
  updates_ = optimizer().stream_steps();
  return {.arrival = updates_};
}

void DataParallel::finish_update(const ExecSpace& space) {
  if (updates_) updates_->await(space, 0);
}

void DataParallel::change_parameters(const ExecSpace& space, const std::function<void()>& change) {
  finish_update(space);
  change();
}

Tensor DataParallel::measure_gradients(const ExecSpace& space, Measure what) {
  const Tensor gradients = parameters_.gradients({0, parameters_.trained_size()});
  if (what == Measure::square) return square_.compute(space, gradients);
  count_nonfinite(space, gradients, nonfinite_.get());
  return nonfinite_.get();
}

void DataParallel::share(const ExecSpace& space) {
  finish_update(space);
  ranks_.broadcast(space, parameters_.values());
  parameters_.round(space);
  share_states(space, ranks_, optimizer());
  if (compression_) compression_->share(space);
}

std::vector<ShardedState> DataParallel::sharded_states() const {
  std::vector<ShardedState> numbers = replicated_states(parameters_, optimizer(), ranks_.is_root());
  if (compression_) compression_->add_sharded_states(numbers);
  return numbers;
}

void DataParallel::update(const ExecSpace& space, const UpdateScalars* step, double statistics_factor) {
  optimizer().step(space, parameters_, step);
  optimizer().update_statistics(space, parameters_, step, statistics_factor);
}

}  // namespace lockstep
