// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <vector>

#include "core/device_graph.hpp"
#include "data/batch/sampler.hpp"
#include "data/batch/upload.hpp"

namespace lockstep {

/// Records the kernels of a step as graphs, with which the host starts each part of a step in one call. Consecutive
/// steps of one batch size are recorded from the second one on, so that the smaller last batch of an epoch is not. All
/// that differs from step to step must reach a part through device memory.
class StepGraphs {
 public:
  /// A part of a step. Equal parts of steps of one size give the same kernels the same arguments.
  struct Part {
    enum class Kind { forward, backward, decision, update };

    Kind kind;
    std::int64_t first = 0;               ///< first example of its micro-batch
    std::array<const void*, 5> memory{};  ///< addresses that are not the same in all steps
    auto operator<=>(const Part&) const = default;
    /// Returns the part that works on these examples.
    static Part of(Kind kind, const MicroBatch& micro_batch, const DeviceBatch& examples, const void* workspace);
  };
  /// Ranks that take part in a part of a step. What several ranks do together is not recorded: the host controls it.
  enum class Ranks { this_one, all };

  /// `ranks` is the number of ranks of the run.
  StepGraphs(bool are_wanted, int ranks) : are_wanted_(are_wanted && DeviceGraph::exist), ranks_(ranks) {}

  /// Begins a step. `recurs` says that the memory which it reads is used by other steps too, in turn.
  void begin_step(const BatchPlan& plan, bool recurs);
  /// Does `work`, in which the host must do the same as in the last step that had this part.
  template <class Work>
  void run(const ExecSpace& space, const Part& part, Ranks ranks, const Work& work) {
    if (is_recorded_ && (ranks == Ranks::this_one || ranks_ == 1)) launch(space, part, work);
    else work();
  }

 private:
  struct Size {
    std::int64_t examples = 0, first = 0;  ///< examples of all ranks, and before this rank's
    std::vector<MicroBatch> micro_batches;
    bool operator==(const Size&) const = default;
  };
  void launch(const ExecSpace& space, const Part& part, const std::function<void()>& work);

  bool are_wanted_, is_recorded_ = false;  ///< in the run; in this step
  int ranks_;
  Size last_, recorded_;  ///< of the step before; of the recorded steps
  std::map<Part, DeviceGraph> graphs_;
};

}  // namespace lockstep
