// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/local/replica_update.hpp"

namespace lockstep {

OuterOptimizer::OuterOptimizer(const LocalConfig& config, DType dtype, std::int64_t count)
    : rule_{.learning_rate = config.learning_rate_or_default(), .momentum = config.momentum_or_default()} {
  if (config.has_momentum()) velocity_ = OwnedTensor("lockstep::outer_optimizer::velocity", dtype, {count});
}

void OuterOptimizer::step(const ExecSpace& space, double share, ElementRange range, const Tensor& differences,
                          const Tensor& values) const {
  OuterStep rule = rule_;
  rule.share = share;
  outer_step(space, rule, differences, velocity() ? flat_part(velocity(), range) : Tensor{}, values);
}

ReplicaUpdate::ReplicaUpdate(const LocalConfig& config, ParameterBuffer& parameters)
    : parameters_(parameters),
      others_("lockstep::replica_update::others", parameters.dtype(), {parameters.layout().summed_size()}),
      outer_(config, parameters.dtype(), parameters.trained_size()) {}

void ReplicaUpdate::take_differences(const ExecSpace& space, double weight, ElementRange range,
                                     const Tensor& differences) const {
  weighted_difference(space, weight, flat_part(others(), range), flat_part(values(), range), differences);
}

void ReplicaUpdate::step(const ExecSpace& space, double share, ElementRange range, const Tensor& differences) {
  const ElementRange of_trained = range.within(trained()), statistics = range.within(parameters_.layout().statistics());
  const auto part = [&](ElementRange of) { return flat_part(differences, {of.first - range.first, of.count}); };
  if (of_trained.count > 0) outer_.step(space, share, of_trained, part(of_trained), flat_part(others(), of_trained));
  if (statistics.count > 0) outer_step(space, {.share = share}, part(statistics), {}, flat_part(others(), statistics));
  copy(space, flat_part(others(), range), flat_part(values(), range));
}

void ReplicaUpdate::take_differences(const ExecSpace& space, double trained, double statistics,
                                     const Tensor& differences) const {
  const auto take = [&](double weight, ElementRange range) {
    if (range.count > 0) take_differences(space, weight, range, flat_part(differences, range));
  };
  take(trained, this->trained());
  take(statistics, parameters_.layout().statistics());
}

void ReplicaUpdate::average(const ExecSpace& space, const Tensor& differences) const {
  copy(space, others(), values());
  outer_step(space, {}, differences, {}, values());
}

}  // namespace lockstep
