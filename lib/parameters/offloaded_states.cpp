// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parameters/offloaded_states.hpp"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <utility>

#include "base/heartbeat.hpp"
#include "parameters/block_file.hpp"
#include "parameters/host_blocks.hpp"

namespace lockstep {
namespace {

std::int64_t count_of(std::span<const ElementRange> ranges) {
  return std::accumulate(ranges.begin(), ranges.end(), std::int64_t{0},
                         [](std::int64_t sum, const ElementRange& range) { return sum + range.count; });
}

std::unique_ptr<BlockStore> make_store(const StateOffload& offload, const OffloadedStates::Division& division) {
  const std::size_t slots = StreamedBlocks::slots(division.blocks);
  if (offload.to == StateOffload::To::host_memory) return std::make_unique<HostBlocks>(division.block_bytes, slots);
  return std::make_unique<BlockFile>(offload.folder, division.block_bytes, slots);
}

/// Combines the flag that kernels have left for a window with `found`, the flag of the windows before it.
void add_findings(const ExecSpace& space, bool is_first, const Tensor& found, const Tensor& nonfinite) {
  auto *const before = found.as<std::int32_t>(), *const here = nonfinite.as<std::int32_t>();
  Kokkos::parallel_for(
      "lockstep::offloaded_update::findings", RangePolicy(space, 0, 1), KOKKOS_LAMBDA(const std::int64_t) {
        *before = is_first ? *here : *before | *here;
        *here = *before;
      });
}

}  // namespace

OffloadedStates::Division OffloadedStates::divide(double block_mb, DType dtype, std::size_t states,
                                                  std::int64_t count) {
  static_assert(array_block * sizeof(float) % ScratchFile::alignment == 0);
  const std::int64_t all = std::max<std::int64_t>(1, array_blocks(count));
  const double bytes = static_cast<double>(array_block) * static_cast<double>(size_of(dtype) * states);
  const std::int64_t most = std::clamp<std::int64_t>(static_cast<std::int64_t>(1e6 * block_mb / bytes), 1, all);
  const std::int64_t blocks = (all + most - 1) / most;
  const std::int64_t elements = (all + blocks - 1) / blocks * array_block;
  return {.elements = elements,
          .blocks = static_cast<std::size_t>((all * array_block + elements - 1) / elements),
          .block_bytes = static_cast<std::size_t>(elements) * size_of(dtype) * states};
}

OffloadedStates::OffloadedStates(const StateOffload& offload, DType dtype, std::size_t states,
                                 std::span<const ElementRange> owned, std::span<ParameterBlock> blocks,
                                 const ParameterBlock* in_step)
    : dtype_(dtype),
      has_values_(offload.values),
      division_(divide(offload.block_mb, dtype, states + (offload.values ? 1 : 0), count_of(owned))),
      blocks_(make_store(offload, division_), division_.block_bytes, division_.blocks),
      windows_(division_.blocks),
      states_(states + (offload.values ? 1 : 0), Tensor{nullptr, dtype, {division_.elements}}) {
  for (ParameterBlock& block : blocks) {
    StateWindow& window = windows_[static_cast<std::size_t>(block.state / division_.elements)];
    block.state %= division_.elements;
    if (has_values_) block.first = block.state;
    assert(block.state + block.count <= division_.elements);  // owned ranges begin at block boundaries
    if (window.count++ == 0) window.blocks = in_step + (&block - blocks.data());
  }
  std::int64_t state = 0;
  for (const ElementRange& range : owned)
    for (std::int64_t first = range.first; first < range.end();) {
      StateWindow& window = windows_[static_cast<std::size_t>(state / division_.elements)];
      const std::int64_t here = std::min(range.end() - first, division_.elements - state % division_.elements);
      if (window.range.count == 0) window.range.first = first;
      first += here, state += here;
      window.range.count = first - window.range.first;
    }
}

void OffloadedStates::work(const ExecSpace& space, const std::function<void(const StateWindow&)>& work) {
  const auto one = [&](std::size_t block, std::byte* bytes) {
    for (Tensor& state : states_) {
      state.data = bytes;
      bytes += state.bytes();
    }
    StateWindow window = windows_[block];
    window.states = std::span(states_).first(states_.size() - (has_values_ ? 1 : 0));
    if (has_values_) window.values = states_.back();
    work(window);
    heartbeat().beat();  // large states take long
  };
  blocks_.work(space, std::cref(one));
}

/// Calls visit(byte offset among all blocks, bytes) for each piece of the range that lies within one block.
template <class Visit>
void OffloadedStates::for_pieces(std::size_t state, std::int64_t first, std::int64_t count, const Visit& visit) const {
  const std::size_t element = size_of(dtype_);
  while (count > 0) {
    const std::int64_t block = first / division_.elements, at = first % division_.elements;
    const std::int64_t here = std::min(count, division_.elements - at);
    visit(static_cast<std::size_t>(block) * division_.block_bytes +
              (state * static_cast<std::size_t>(division_.elements) + static_cast<std::size_t>(at)) * element,
          static_cast<std::size_t>(here) * element);
    first += here, count -= here;
  }
}

void OffloadedStates::read(Version version, std::size_t state, std::int64_t first, std::int64_t count, std::byte* to) {
  for_pieces(state, first, count, [&](std::uint64_t place, std::size_t bytes) {
    blocks_.read(version, place, to, bytes);
    to += bytes;
  });
}

void OffloadedStates::write(std::size_t state, std::int64_t first, std::int64_t count, const std::byte* from) {
  for_pieces(state, first, count, [&](std::uint64_t place, std::size_t bytes) {
    blocks_.write(place, from, bytes);
    from += bytes;
  });
}

void OffloadedStates::start_fetch(std::size_t state, std::int64_t first, std::int64_t count, std::byte* to) {
  for_pieces(state, first, count, [&](std::uint64_t place, std::size_t bytes) {
    blocks_.start_fetch(place, to, bytes);
    to += bytes;
  });
}

OffloadedUpdate::OffloadedUpdate(OffloadedStates& states, const Tensor& nonfinite)
    : states_(states), nonfinite_(nonfinite), found_("lockstep::offloaded_update::found", DType::i32, {1}) {}

void OffloadedUpdate::begin(StreamedBlocks::Pass kind, const WindowWork& work) {
  assert(!is_passing());
  work_ = work;
  is_first_ = true;
  states_.blocks().begin(kind);
}

void OffloadedUpdate::work(const ExecSpace& space) {
  const auto one = [&](const StateWindow& window) {
    work_(space, window);
    add_findings(space, std::exchange(is_first_, false), found_.get(), nonfinite_);
  };
  states_.work(space, std::cref(one));
}

void OffloadedUpdate::advance_before(const ExecSpace& space, std::int64_t end) {
  while (is_passing() && states_.next().end() <= end && states_.blocks().is_here()) work(space);
}

void OffloadedUpdate::turn() {
  is_early_ = false;
  states_.blocks().turn();
}

/// While gradients are being computed, the parameters that they are computed with count as arrived.
bool OffloadedUpdate::have_arrived(const ExecSpace& space, std::int64_t first) {
  if (is_early_) return true;
  while (is_passing()) {
    if (!states_.blocks().is_here()) return states_.end_of_left() <= first;
    work(space);
  }
  return true;
}

void OffloadedUpdate::await(const ExecSpace& space, std::int64_t first) {
  while (is_passing() && !is_early_ && (first == 0 || states_.end_of_left() > first))
    work(space);  // a rank that owns nothing has end_of_left() 0
}

}  // namespace lockstep
