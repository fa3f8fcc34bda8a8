// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/sharded/parameter_gather.hpp"

#include <utility>

#include "base/timer.hpp"

namespace lockstep {

ParameterGather::ParameterGather(const ParallelConfig& config, const Topology& topology, const ParallelMemory& memory,
                                 ParameterBuffer& parameters, const std::vector<ElementRange>& buckets)
    : topology_(topology),
      memory_(memory),
      parameters_(parameters),
      values_("lockstep::values_on_host", parameters.values()),
      gather_(make_all_gather(config.sums.options(), topology_, memory_.flags, {parameters.dtype(), values_.data()})),
      node_barrier_(memory_.flags),
      buckets_(buckets) {
  follow(nullptr);
}

void ParameterGather::follow(ParameterArrival* own) {
  own_ = own;
  if (!own && memory_.parameters && topology_.one_node()) gathered_ = {{0, parameters_.trained_size()}};
  else gathered_ = buckets_;
}

/// Copies what this rank owns of a range to the host.
void ParameterGather::copy_own(const ExecSpace& space, const ElementRange& of) {
  for (const ElementRange& owned : parameters_.layout().owned())
    if (const ElementRange range = owned.within(of); range.count > 0) values_.to_host(space, parameters_.values(range));
}

/// Buckets travel in the order in which a forward pass needs them: the network's first layers are last in the buffer.
void ParameterGather::start(const ExecSpace& space) {
  if constexpr (!memory_is_separate) space.fence("lockstep::parameter_gather");
  else if (!own_) copy_own(space, {0, parameters_.trained_size()});
  on_their_way_ = gathered_.size();
  if (rounds_together()) await(space, 0);
  else have_arrived(space, 0);
}

/// Whether a node's ranks make the 16-bit copy together: the parameters that they share come from other nodes without
/// it.
bool ParameterGather::rounds_together() const {
  return memory_.parameters && !topology_.one_node() && parameters_.rounded();
}

bool ParameterGather::have_arrived(const ExecSpace& space, std::int64_t first) {
  for (; on_their_way_ > 0; --on_their_way_) {
    const ElementRange& bucket = gathered_[on_their_way_ - 1];
    const bool is_new = !own_ || own_->have_arrived(space, bucket.first);
    if (!running_ && !is_new) return bucket.end() <= first;
    if (!std::exchange(running_, true)) {
      if (memory_is_separate && own_) copy_own(space, bucket);
      gather_->start(bucket.first, bucket.count);
    }
    if (!gather_->advance()) return bucket.end() <= first;
    running_ = false;
    arrive(space, bucket);
  }
  return true;
}

void ParameterGather::await(const ExecSpace& space, std::int64_t first) {
  const Timer timer;
  wait_until([&] { return have_arrived(space, first); });
  exposed_seconds_ += timer.seconds();
}

void ParameterGather::arrive(const ExecSpace& space, const ElementRange& bucket) {
  values_.from_host(space, parameters_.values(bucket));
  if (!memory_.parameters) return parameters_.round(space, bucket);
  if (!rounds_together()) return;
  const ElementRange own = slice_of_rank(bucket.count, topology_.node.rank(), topology_.node.size());
  parameters_.round(space, {bucket.first + own.first, own.count});
  space.fence("lockstep::parameter_gather");
  wait_for_node();
}

double ParameterGather::take_exposed_seconds() { return std::exchange(exposed_seconds_, 0.0); }

}  // namespace lockstep
