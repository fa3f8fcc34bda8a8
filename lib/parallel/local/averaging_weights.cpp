// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/local/averaging_weights.hpp"

#include <utility>

#include "parallel/count_done.hpp"

namespace lockstep {

AveragingWeights::AveragingWeights(const Communicator& ranks, const std::optional<Communicator>& node)
    : ranks_(ranks), node_(node), stepped_("lockstep::averaging_weights::stepped", DType::f64, {1}) {}

void AveragingWeights::add(const ExecSpace& space, double examples, const std::int32_t* left_out) {
  count_done(space, examples, left_out, stepped_.get().as<double>());
}

void AveragingWeights::forget(const ExecSpace& space) {
  fill_zero(space, stepped_.get());
  examples_of_node_ = 0;
}

std::optional<double> AveragingWeights::take_in_node(const ExecSpace& space) {
  const double own = examples(space);
  fill_zero(space, stepped_.get());
  double sum = own;
  node_->all_reduce_sum({&sum, 1});
  examples_of_node_ += sum;
  return sum > 0 ? std::optional(own / sum) : std::nullopt;
}

std::optional<double> AveragingWeights::take(const ExecSpace& space) {
  double own = 0;
  if (node_) {
    // If no rank has stepped since the node's last synchronization, its ranks have the same parameters.
    const double share = take_in_node(space).value_or(1.0 / node_->size());
    own = share * std::exchange(examples_of_node_, 0.0);
  } else {
    own = examples(space);
    fill_zero(space, stepped_.get());
  }
  double sum = own;
  ranks_.all_reduce_sum({&sum, 1});
  return sum > 0 ? std::optional(own / sum) : std::nullopt;
}

}  // namespace lockstep
