// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/groups/replica_update.hpp"

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
      trained_(parameters.layout().owned_count()),
      synced_("lockstep::replica_update::synced", parameters.dtype(),
              {trained_ + parameters.layout().statistics().count}),
      outer_(config, parameters.dtype(), trained_) {
  if (parameters.layout().is_divided())
    differences_ = OwnedTensor("lockstep::replica_update::differences", parameters.dtype(), {all().count});
}

Tensor ReplicaUpdate::delta_buffer() const {
  return differences_.get() ? differences_.get() : flat_part(parameters_.gradients(), all());
}

/// Calls use(piece, values) for the pieces of `range` that lie together in memory.
void ReplicaUpdate::for_pieces(ElementRange range, const Piece& use) const {
  const ParameterLayout& layout = parameters_.layout();
  std::int64_t first = 0;
  for (const ElementRange& owned : layout.owned()) {
    const ElementRange part = range.within({first, owned.count});
    if (part.count > 0) use(part, parameters_.owned().values({owned.first + part.first - first, part.count}));
    first += owned.count;
  }
  const ElementRange part = range.within(statistics());
  if (part.count > 0) use(part, parameters_.values({layout.statistics().first + part.first - trained_, part.count}));
}

void ReplicaUpdate::round(const ExecSpace& space, ElementRange range) const {
  if (!parameters_.rounded()) return;
  std::int64_t first = 0;
  for (const ElementRange& owned : parameters_.layout().owned()) {
    const ElementRange part = range.within({first, owned.count});
    parameters_.round(space, {owned.first + part.first - first, part.count});
    first += owned.count;
  }
}

void ReplicaUpdate::save_synced(const ExecSpace& space) const {
  for_pieces(all(), [&](ElementRange range, const Tensor& values) { copy(space, values, flat_part(synced(), range)); });
}

void ReplicaUpdate::put_back(const ExecSpace& space, ElementRange range) const {
  for_pieces(range, [&](ElementRange part, const Tensor& values) { copy(space, flat_part(synced(), part), values); });
  round(space, range);
}

void ReplicaUpdate::swap(const ExecSpace& space) const {
  for_pieces(all(), [&](ElementRange range, const Tensor& values) {
    swap_numbers(space, values, flat_part(synced(), range));
  });
  round(space, all());
}

void ReplicaUpdate::take_differences(const ExecSpace& space, double weight, ElementRange range,
                                     const Tensor& differences) const {
  for_pieces(range, [&](ElementRange part, const Tensor& values) {
    weighted_difference(space, weight, flat_part(synced(), part), values,
                        flat_part(differences, {part.first - range.first, part.count}));
  });
}

void ReplicaUpdate::step(const ExecSpace& space, double share, ElementRange range, const Tensor& differences) {
  const ElementRange of_trained = range.within(trained()), of_statistics = range.within(statistics());
  const auto part = [&](ElementRange of) { return flat_part(differences, {of.first - range.first, of.count}); };
  if (of_trained.count > 0) outer_.step(space, share, of_trained, part(of_trained), flat_part(synced(), of_trained));
  if (of_statistics.count > 0)
    outer_step(space, {.share = share}, part(of_statistics), {}, flat_part(synced(), of_statistics));
  put_back(space, range);
}

/// In one go: several ranks may write the same statistics.
void ReplicaUpdate::average(const ExecSpace& space, const Tensor& differences) const {
  for_pieces(all(), [&](ElementRange range, const Tensor& values) {
    weighted_difference(space, 1, flat_part(synced(), range), flat_part(differences, range), values);
  });
  round(space, all());
}

}  // namespace lockstep
