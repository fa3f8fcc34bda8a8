// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <vector>

#include "core/device_graph.hpp"
#include "data/sampler.hpp"
#include "data/upload.hpp"
#include "parallel/step_scope.hpp"

namespace lockstep {

/// Graphs of the kernels of a step, by which the host begins each of its parts in one call. Steps of one batch size
/// that follow each other are recorded from the second one on, so that a last batch of an epoch, smaller than others,
/// is not. A part is given what differs from step to step in the step's memory alone.
class StepGraphs {
 public:
  /// A part of a step. Equal parts of steps of one size give the same kernels the same arguments.
  struct Part {
    enum class Kind { forward, backward, decision, update };

    Kind kind;
    std::int64_t first = 0;               ///< example of its micro-batch
    std::array<const void*, 5> memory{};  ///< that is not the same in all steps
    auto operator<=>(const Part&) const = default;
    /// That works on these examples.
    static Part of(Kind kind, const MicroBatch& micro_batch, const DeviceBatch& examples, const void* workspace);
  };
  /// Who takes part in one. What several ranks do together is not recorded: the host sees to it.
  enum class Ranks { this_one, all };

  /// `ranks`: of the run.
  StepGraphs(bool are_wanted, int ranks) : are_wanted_(are_wanted && DeviceGraph::exist), ranks_(ranks) {}

  /// A step begins. `recurs`: the memory that it reads is that of other steps, by turns.
  void begin_step(const BatchPlan& plan, const StepScope& scope, bool recurs);
  /// Does `work`, which the host cannot tell from what it was in the last step that had this part.
  template <class Work>
  void run(const ExecSpace& space, const Part& part, Ranks ranks, const Work& work) {
    if (is_recorded_ && (ranks == Ranks::this_one || ranks_ == 1)) launch(space, part, work);
    else work();
  }

 private:
  struct Size {
    std::int64_t examples = 0, first = 0, summed = 0;  ///< of all ranks; before this rank's; of the update
    std::size_t ranks = 0;                             ///< that a step of groups names, whose updates do more
    std::vector<MicroBatch> micro_batches;
    bool operator==(const Size&) const = default;
  };
  void launch(const ExecSpace& space, const Part& part, const std::function<void()>& work);

  bool are_wanted_, is_recorded_ = false;  ///< any steps; this one
  int ranks_;
  Size last_, recorded_;  ///< of the step before, of the graphs
  std::map<Part, DeviceGraph> graphs_;
};

}  // namespace lockstep
