// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/sharded/parameter_gather.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/duration.hpp"

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

ParameterUnsharder::ParameterUnsharder(const ParallelConfig& config, const Topology& topology,
                                       const ParallelMemory& memory, ParameterBuffer& parameters,
                                       const std::vector<ElementRange>& buckets)
    : parameters_(parameters),
      windows_("lockstep::values_on_host", parameters.values()),
      node_(topology.node),
      gather_(make_all_gather(config.sums.options(), topology, memory.flags, {parameters.dtype(), windows_.data()})),
      node_barrier_(memory.flags),
      here_(parameters.windows()) {
  for (const ElementRange& range : parameters.windows().units) {
    Unit& unit = units_.emplace_back();
    std::ranges::copy_if(buckets, std::back_inserter(unit.buckets), [&](const ElementRange& bucket) {
      return bucket.first >= range.first && bucket.first < range.end();
    });
    for (const ElementRange& owned : parameters.layout().owned())
      if (const ElementRange part = owned.within(range); part.count > 0) unit.owned.push_back(part);
  }
}

ParameterUnsharder::~ParameterUnsharder() {
  try {
    while (!has_own()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  } catch (const Error&) {  // after an error nothing is being read
  }
}

void ParameterUnsharder::enter(const ExecSpace& space, int time) {
  here_.enter(time, [&](std::size_t unit) {
    on_their_way_.push_back(unit);
    // Waits until layers are done with the unit that had the window before.
    if constexpr (!memory_is_separate) space.fence("lockstep::parameter_unsharder");
  });
  const auto is_needed = [&](std::size_t unit) { return here_.is_needed(unit, time); };
  if (own_) own_->have_arrived(space, 0);  // so that the disk has the next blocks to read
  const Timer timer;
  wait_until([&] {
    advance(space);
    return std::ranges::none_of(on_their_way_, is_needed);
  });
  exposed_seconds_ += timer.seconds();
}

void ParameterUnsharder::advance(const ExecSpace& space) {
  while (!on_their_way_.empty()) {
    const std::size_t number = on_their_way_.front();
    const std::vector<ElementRange>& buckets = units_[number].buckets;
    const auto start = [&] {
      const ElementRange& bucket = buckets[bucket_];
      gather_->start(parameters_.windows().value_place(bucket.first), bucket.count);
    };
    switch (stage_) {
      case Stage::begins:
        if (own_ && !own_->have_arrived(space, parameters_.windows().units[number].first)) return;
        node_barrier_.start();
        stage_ = Stage::waits_for_window;
        break;
      case Stage::waits_for_window:
        if (!node_barrier_.advance()) return;
        start_own(space, number);
        stage_ = Stage::own_arrives;
        break;
      case Stage::own_arrives:
        if (!has_own()) return;
        start();
        stage_ = Stage::travels;
        break;
      case Stage::travels:
        if (!gather_->advance()) return;
        if (++bucket_ < buckets.size()) {
          start();
          break;
        }
        bucket_ = 0;
        round(space, number);
        node_barrier_.start();
        stage_ = Stage::is_rounded;
        break;
      case Stage::is_rounded:
        if (!node_barrier_.advance()) return;
        stage_ = Stage::begins;
        on_their_way_.pop_front();
        break;
    }
  }
}

void ParameterUnsharder::start_own(const ExecSpace& space, std::size_t unit) {
  OwnedValueStore* const store = parameters_.owned().store();
  if (!store) return put_own(space, unit);
  for (const ElementRange& range : units_[unit].owned)
    store->start_fetch(parameters_.owned().value_at(range.first), range.count, windows_.of(parameters_.values(range)));
}

bool ParameterUnsharder::has_own() const {
  OwnedValueStore* const store = parameters_.owned().store();
  return !store || store->has_fetched();
}

/// Copies what this rank owns of the unit into its window.
void ParameterUnsharder::put_own(const ExecSpace& space, std::size_t unit) {
  for (const ElementRange& range : units_[unit].owned) {
    const Tensor own = parameters_.owned().values(range), in_window = parameters_.values(range);
    if constexpr (memory_is_separate) copy_to_host(space, own, windows_.of(in_window));
    else copy(space, own, in_window);
  }
  if constexpr (!memory_is_separate) space.fence("lockstep::parameter_unsharder");
}

/// Makes the 16-bit copy of a unit; if windows are the node's, of this rank's part of it.
void ParameterUnsharder::round(const ExecSpace& space, std::size_t number) {
  const ElementRange& unit = parameters_.windows().units[number];
  windows_.from_host(space, parameters_.values(unit));
  const ElementRange part = node_barrier_.is_shared() ? slice_of_rank(unit.count, node_.rank(), node_.size())
                                                      : ElementRange{0, unit.count};
  parameters_.round(space, {unit.first + part.first, part.count});
  if constexpr (!memory_is_separate) space.fence("lockstep::parameter_unsharder");
}

void ParameterUnsharder::forget() { here_.forget(); }

double ParameterUnsharder::take_exposed_seconds() { return std::exchange(exposed_seconds_, 0.0); }

}  // namespace lockstep
