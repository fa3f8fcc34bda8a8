// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/groups/local_group.hpp"

#include <algorithm>
#include <utility>

#include "config/deck.hpp"

namespace lockstep {
namespace {

/// sum += count, unless the step is left out, which the host may learn later. Pointers are into device memory.
void count_done(const ExecSpace& space, double count, const std::int32_t* left_out, double* sum) {
  Kokkos::parallel_for(
      "lockstep::count_done", RangePolicy(space, 0, 1),
      KOKKOS_LAMBDA(const std::int64_t) { *sum += *left_out != 0 ? 0.0 : count; });
}

Topology ranks_of_group(const LocalConfig& config, const Topology& all) {
  check_local_groups(config, all.node_of);
  const int rank = all.all.rank();
  const std::int64_t number = config.group ? rank / *config.group : all.node_of[static_cast<std::size_t>(rank)];
  return all.of(all.all.split(static_cast<int>(number)));
}

}  // namespace

void check_local_groups(const LocalConfig& config, std::span<const int> node_of) {
  if (!config.nests()) return;
  for (std::size_t rank = 0; rank < node_of.size(); ++rank) {
    const std::size_t first = rank - rank % static_cast<std::size_t>(*config.group);
    validate_key(node_of[rank] == node_of[first], "parallel.local.node_every",
                 "rank {} is on a different node from the rest of its group ({} ranks from rank {} on); give a "
                 "group that divides the ranks of each node, or leave node_every out",
                 rank, *config.group, first);
  }
}

LocalGroup::LocalGroup(const LocalConfig& config, const Topology& topology)
    : all(topology), ranks(ranks_of_group(config, topology)), numbers(ranks.all.all_gather(all.all.rank())) {
  std::vector<std::int64_t> first_ranks = all.all.all_gather(numbers.front());
  std::ranges::sort(first_ranks);
  const auto own = std::ranges::lower_bound(first_ranks, numbers.front());
  ranks_before = own - first_ranks.begin();
  first_ranks.erase(std::unique(first_ranks.begin(), first_ranks.end()), first_ranks.end());
  number = static_cast<int>(std::ranges::lower_bound(first_ranks, numbers.front()) - first_ranks.begin());
  count = static_cast<int>(first_ranks.size());
  are_equal = all.all.every_rank(ranks.all.size() * count == all.all.size());
}

RankShare LocalGroup::part_of(std::int64_t batch) const {
  const RankShare first = share_of(batch, ranks_before, all.all.size()),
                  last = share_of(batch, ranks_before + ranks.all.size() - 1, all.all.size());
  return {first.first, last.first + last.count - first.first};
}

AveragingWeights::AveragingWeights(const Communicator& ranks, const std::optional<Communicator>& node)
    : ranks_(ranks), node_(node), trained_("lockstep::averaging_weights::trained", DType::f64, {1}) {}

void AveragingWeights::add(const ExecSpace& space, double examples, const std::int32_t* left_out) {
  count_done(space, examples, left_out, trained_.get().as<double>());
}

void AveragingWeights::forget(const ExecSpace& space) {
  fill_zero(space, trained_.get());
  examples_of_node_ = 0;
}

std::optional<double> AveragingWeights::take_in_node(const ExecSpace& space) {
  const double own = examples(space);
  fill_zero(space, trained_.get());
  double sum = own;
  node_->all_reduce_sum({&sum, 1});
  examples_of_node_ += sum;
  return sum > 0 ? std::optional(own / sum) : std::nullopt;
}

std::optional<double> AveragingWeights::take(const ExecSpace& space) {
  double own = 0;
  if (node_) {
    // If no rank has trained since the node's last synchronization, its ranks have the same parameters.
    const double share = take_in_node(space).value_or(1.0 / node_->size());
    own = share * std::exchange(examples_of_node_, 0.0);
  } else {
    own = examples(space);
    fill_zero(space, trained_.get());
  }
  double sum = own;
  ranks_.all_reduce_sum({&sum, 1});
  return sum > 0 ? std::optional(own / sum) : std::nullopt;
}

}  // namespace lockstep
