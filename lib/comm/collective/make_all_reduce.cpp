// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/collective/make_all_reduce.hpp"

#include "comm/collective/by_size.hpp"

namespace lockstep {

std::unique_ptr<Collective> make_all_reduce(const SumOptions& options, std::span<const AllReduceRow> measured,
                                            const Topology& topology, const std::optional<NodeMemory>& memory,
                                            const ReduceBuffer& buffer) {
  const AllReduceParts parts{topology, memory, buffer, options};
  if (options.all_reduce) return all_reduce(*options.all_reduce, parts);
  if (measured.empty()) return fastest_all_reduce(parts);
  std::vector<BySize::Choice> choices;
  for (const AllReduceRow& row : measured)
    choices.push_back(
        {row.up_to / static_cast<std::int64_t>(size_of(buffer.dtype)), all_reduce(*row.algorithm, parts)});
  return std::make_unique<BySize>(std::move(choices));
}

}  // namespace lockstep
