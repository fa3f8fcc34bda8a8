// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "parallel/groups/local_group.hpp"
#include "parallel/groups/replica_update.hpp"
#include "parallel/reducers/bucketed_reducer.hpp"

namespace lockstep {

/// Returns the fragments of the parameters that are synchronized one after the other (parallel.local.fragments): the
/// trained parameters, cut between tensors into `count` ranges of about the same size, in the buffer's order (the
/// last layer first). The last fragment also has the layers' statistics. Throws KeyError if there are fewer tensors.
std::vector<ElementRange> local_fragments(const ParameterLayout& layout, std::int64_t count);

/// Sums over groups, of one fragment (local_fragments) at a time together with a number of examples, that go on during
/// steps in memory of their own. The first ranks of groups sum, and pass the sums on within their groups. All ranks
/// call begin and finish at the same steps.
class FragmentSums {
 public:
  /// `first_ranks` are those of all groups; null on other ranks. `group` are the ranks of this rank's group.
  /// Collective.
  FragmentSums(const ParallelConfig& config, const Topology* first_ranks, const Communicator& group,
               const ParameterLayout& layout);

  const std::vector<ElementRange>& fragments() const { return fragments_; }
  /// Memory of the numbers of a fragment that are to be summed, and then of their sums.
  Tensor numbers(std::size_t fragment) const;
  bool under_way() const { return current_.has_value(); }

  /// Begins the sum of numbers(fragment) and `examples`, which travels in the parameters' type, whatever the type on
  /// the wire. No other sum may be under way. Does not wait for other ranks.
  void begin(const ExecSpace& space, std::size_t fragment, double examples);
  /// Goes on as far as possible without waiting.
  void advance(const ExecSpace& space);
  /// Waits for the sum that is under way. Returns its fragment, and the sum of the examples.
  std::pair<std::size_t, double> finish(const ExecSpace& space);
  double take_exposed_seconds();

 private:
  Tensor all_numbers(std::size_t fragment) const;

  Communicator group_;
  std::vector<ElementRange> fragments_;
  OwnedTensor numbers_;                                 ///< of the largest fragment
  std::vector<std::unique_ptr<BucketedReducer>> sums_;  ///< empty on ranks that get the sums from others
  std::optional<std::size_t> current_;
};

/// Runs a function that changes the parameters which this rank owns, while nothing reads them; afterwards all ranks of
/// the group have all changes. Collective over the group.
using ParameterChange = std::function<void(const std::function<void()>& change)>;

/// Synchronizes parameters in fragments, one after the other, during steps (Streaming DiLoCo: Douillard et al. 2025,
/// algorithm 2): a fragment's sum begins `delay` steps before it is applied. After the run's last step all fragments
/// synchronize, so no sum begins that would be applied there.
class StreamingSync {
 public:
  /// `last_step` is that of the run. Arguments that are not owned must outlive this object.
  StreamingSync(const LocalConfig& config, std::unique_ptr<FragmentSums> sums, std::int64_t last_step,
                ReplicaUpdate& update, AveragingWeights& weights);

  /// Ends step number `step`: begins the sum that is due, and applies the one that is due by `change`.
  void end_step(const ExecSpace& space, std::int64_t step, const ParameterChange& change);
  /// Goes on as far as possible without waiting.
  void advance(const ExecSpace& space) { sums_->advance(space); }
  double take_exposed_seconds() { return sums_->take_exposed_seconds(); }

 private:
  void begin(const ExecSpace& space, std::size_t fragment);
  void finish(const ExecSpace& space);

  LocalConfig config_;
  std::unique_ptr<FragmentSums> sums_;
  std::int64_t last_step_;
  ReplicaUpdate& update_;
  AveragingWeights& weights_;
};

}  // namespace lockstep
