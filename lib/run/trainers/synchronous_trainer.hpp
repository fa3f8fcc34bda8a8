// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "parallel/asynchronous/push_order.hpp"
#include "run/trainers/run_trainer.hpp"

namespace lockstep {

/// One trainer for all ranks: they do all steps together. Its gradients may be those of simulated workers, in a known
/// order (SimulatedGradients).
class SynchronousTrainer final : public RunTrainer {
 public:
  /// See make_run_trainer.
  SynchronousTrainer(const RunConfig& config, Graph graph, std::unique_ptr<Loss> loss, const Dataset& train,
                     const Communicator& all);

  ~SynchronousTrainer() override { trainer_.reset(); }  // before the order that its strategy follows

  StepResult step(BatchSource& batches, const Calls& calls) override;
  BatchDealing dealing() const override;
  GradientCounts gradient_counts() const override;
  std::vector<ShardedState> sharded_states() const override { return trainer_->strategy().sharded_states(); }
  void share_parameters() override;

 private:
  PushOrder order_;     ///< empty: gradients are applied to the parameters that they were computed by
  std::string record_;  ///< path of the record of that order; empty: none
};

}  // namespace lockstep
