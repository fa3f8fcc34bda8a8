// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "optim/parameter_blocks.hpp"

#include <algorithm>
#include <limits>
#include <span>

namespace lockstep {

ParameterBlocks::ParameterBlocks(ParameterGroups groups, const ParameterShard& owned, double clip_value,
                                 double ema_decay)
    : ema_decay_(ema_decay),
      rules_("lockstep::optimizer::rules", largest_rules),
      nonfinite_("lockstep::optimizer::nonfinite", DType::i32, {1}) {
  groups.stand_in(owned);
  groups_ = groups.groups;
  const std::size_t block_bytes = groups.blocks.size() * sizeof(ParameterBlock),
                    parameter_bytes = groups.parameters.size() * sizeof(TrainedParameter),
                    group_bytes = groups_.size() * sizeof(GroupSettings),
                    bytes = block_bytes + parameter_bytes + group_bytes;
  memory_ = Buffer("lockstep::optimizer::tables", bytes);
  std::vector<std::byte> tables(bytes);
  // Spans may be empty, since a rank may have no blocks.
  auto end = std::ranges::copy(std::as_bytes(std::span(groups.blocks)), tables.begin()).out;
  end = std::ranges::copy(std::as_bytes(std::span(groups.parameters)), end).out;
  std::ranges::copy(std::as_bytes(std::span(groups_)), end);
  copy_from_host(ExecSpace(), tables.data(), memory_.tensor(0, DType::u8, {static_cast<std::int64_t>(bytes)}));
  blocks_ = {.blocks = reinterpret_cast<const ParameterBlock*>(memory_.data()),
             .count = static_cast<std::int64_t>(groups.blocks.size()),
             .all = groups.all_blocks(),
             .parameters = reinterpret_cast<const TrainedParameter*>(memory_.data() + block_bytes),
             .parameter_count = static_cast<std::int64_t>(groups.parameters.size()),
             .clip_value = clip_value > 0 ? clip_value : std::numeric_limits<double>::infinity(),
             .nonfinite = nonfinite_.get(),
             .groups = reinterpret_cast<const GroupSettings*>(memory_.data() + block_bytes + parameter_bytes),
             .rules = rules_.data()};
  whole_ = {.blocks = blocks_.blocks, .count = blocks_.count};
}

void ParameterBlocks::average(const ExecSpace& space, const ParameterBuffer& parameters, const UpdateScalars* step,
                              const StateWindow& window) const {
  if (!averages()) return;
  update_average(space, window.blocks, window.count, ema_decay_, step, window.values_or(parameters.owned()),
                 window.states.back());
}

void ParameterBlocks::set_states(std::vector<Tensor> states) {
  states_ = std::move(states);
  whole_.states = states_;
}

void ParameterBlocks::pass_over_states(OffloadedUpdate& pass, bool values) {
  pass_ = &pass;
  passes_values_ = values;
}

void ParameterBlocks::begin_pass(StateUse use, const WindowWork& work) const {
  pass_->begin(use == StateUse::change ? StreamedBlocks::Pass::changes : StreamedBlocks::Pass::reads, work);
}

void ParameterBlocks::change_blocks(const std::function<void(std::vector<ParameterBlock>&)>& change) {
  const ExecSpace space;
  std::vector<ParameterBlock> blocks(static_cast<std::size_t>(blocks_.count));
  const Tensor table = memory_.tensor(0, DType::u8,
                                      {static_cast<std::int64_t>(blocks.size() * sizeof(ParameterBlock))});
  copy_to_host(space, table, blocks.data());
  change(blocks);
  copy_from_host(space, blocks.data(), table);
}

}  // namespace lockstep
