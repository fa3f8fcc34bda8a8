// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/local/replica_meeting.hpp"

namespace lockstep {

Tensor flat_part(const Tensor& numbers, ParameterRange range) {
  return {static_cast<std::byte*>(numbers.data) + static_cast<std::size_t>(range.first) * size_of(numbers.dtype),
          numbers.dtype,
          {range.count}};
}

ReplicaMeeting::ReplicaMeeting(const LocalConfig& config, int groups, ParameterBuffer& parameters)
    : config_(config),
      groups_(groups),
      parameters_(parameters),
      others_("lockstep::replica_meeting::others", parameters.dtype(), {parameters.layout().summed_size()}) {
  if (config_.has_momentum())
    velocity_ = OwnedTensor("lockstep::replica_meeting::velocity", parameters.dtype(), {parameters.trained_size()});
}

OuterStep ReplicaMeeting::rule(double learning_rate) const {
  using Outer = LocalConfig::Outer;
  const double rate = config_.learning_rate_or_default(groups_), momentum = config_.momentum_or_default();
  if (config_.outer == Outer::nesterov)
    return {.decay = momentum, .gain = 1, .learning_rate = rate, .direct = 1, .by_velocity = momentum};
  if (config_.outer == Outer::slowmo)
    return {.decay = momentum,
            .gain = learning_rate > 0 ? 1 / learning_rate : 0,
            .learning_rate = rate * learning_rate,
            .direct = 0,
            .by_velocity = 1};
  if (config_.outer == Outer::adasum) return {.learning_rate = rate};
  return {};
}

void ReplicaMeeting::take_differences(const ExecSpace& space, double weight, ParameterRange range,
                                      const Tensor& differences) const {
  weighted_difference(space, weight, flat_part(others(), range), flat_part(values(), range), differences);
}

void ReplicaMeeting::step(const ExecSpace& space, double share, double learning_rate, double mix, ParameterRange range,
                          const Tensor& differences) {
  const ParameterRange of_trained = range.within(trained()),
                       statistics = range.within(parameters_.layout().statistics());
  const auto change = [&](OuterStep rule, ParameterRange part, const Tensor& velocity) {
    if (part.count == 0) return;
    rule.gain *= share;
    rule.direct *= share;
    outer_step(space, rule, flat_part(differences, {part.first - range.first, part.count}), velocity,
               flat_part(others(), part));
  };
  change(rule(learning_rate), of_trained, velocity() ? flat_part(velocity(), of_trained) : Tensor());
  change({}, statistics, {});
  if (mix == 0) copy(space, flat_part(others(), range), flat_part(values(), range));
  else pull_towards(space, 1 - mix, flat_part(others(), range), flat_part(values(), range));
}

void ReplicaMeeting::take_differences(const ExecSpace& space, double trained, double statistics,
                                      const Tensor& differences) const {
  const auto take = [&](double weight, ParameterRange range) {
    if (range.count > 0) take_differences(space, weight, range, flat_part(differences, range));
  };
  take(trained, this->trained());
  take(statistics, parameters_.layout().statistics());
}

void ReplicaMeeting::average(const ExecSpace& space, const Tensor& differences) const {
  copy(space, others(), values());
  outer_step(space, {}, differences, {}, values());
}

void ReplicaMeeting::take_pulls(const ExecSpace& space, double weight, int group, const Tensor& differences) const {
  take_differences(space, config_.learning_rate_or_default(groups_) / group, weight, differences);
}

void ReplicaMeeting::pull(const ExecSpace& space, const Tensor& differences) {
  pull_towards(space, config_.learning_rate_or_default(groups_), flat_part(others(), trained()),
               flat_part(values(), trained()));
  outer_step(space, {}, differences, {}, others());
}

}  // namespace lockstep
