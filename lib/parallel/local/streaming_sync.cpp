// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/local/streaming_sync.hpp"

#include <utility>

namespace lockstep {

StreamingSync::StreamingSync(const LocalConfig& config, std::unique_ptr<FragmentSums> sums, std::int64_t last_step,
                             ParameterBuffer& parameters, ReplicaUpdate& sync, AveragingWeights& weights)
    : config_(config),
      sums_(std::move(sums)),
      last_step_(last_step),
      parameters_(parameters),
      sync_(sync),
      weights_(weights) {}

void StreamingSync::end_step(const ExecSpace& space, std::int64_t step, const std::function<void()>& before_change) {
  const std::int64_t period = config_.fragment_period(), steps = step - config_.from_step;
  const std::size_t count = sums_->fragments().size();
  if (step == last_step_) {
    before_change();
    for (std::size_t fragment = 0; fragment < count; ++fragment) {
      begin(space, fragment);
      finish(space);
    }
    copy(space, sync_.others(), sync_.values());  // also fragments for which no rank has examples
    return;
  }
  if ((steps + config_.delay) % period == 0 && step + config_.delay < last_step_)
    begin(space, static_cast<std::size_t>((steps + config_.delay) / period - 1) % count);
  if (steps % period == 0 && sums_->under_way()) {
    before_change();
    finish(space);
  }
}

/// The number of examples travels with the sum, so that no rank waits for it here.
void StreamingSync::begin(const ExecSpace& space, std::size_t fragment) {
  const double examples = weights_.examples(space);
  sync_.take_differences(space, examples, sums_->fragments()[fragment], sums_->numbers(fragment));
  sums_->begin(space, fragment, examples);
}

void StreamingSync::finish(const ExecSpace& space) {
  const auto [fragment, examples] = sums_->finish(space);
  if (examples == 0) return;
  sync_.step(space, 1 / examples, sums_->fragments()[fragment], sums_->numbers(fragment));
  parameters_.round(space);
}

}  // namespace lockstep
