// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/replica_audit.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "io/checksum.hpp"

namespace lockstep {

ReplicaAudit::ReplicaAudit(const Communicator& comm, const ParameterBuffer& parameters, const Optimizer& optimizer,
                           States states)
    : comm_(comm) {
  for (const Parameter& parameter : parameters.parameters())
    if (!parameters.windows().division.values || parameter.kind != ParameterSpec::Kind::trained)
      parts_.push_back({.name = parameter.name, .values = parameters.values(parameter)});
  if (!parameters.layout().is_divided() && states == States::alike)
    for (const auto& state : optimizer.states())
      for (const Parameter& parameter : state.layout) {
        Part part{.name = parameter.name + " (" + state.name + ")",
                  .values = {nullptr, state.values.dtype, parameter.shape},
                  .offloaded = state.offloaded,
                  .first = parameter.range.first};
        if (!part.offloaded)
          part.values.data = static_cast<std::byte*>(state.values.data) +
                             static_cast<std::size_t>(part.first) * size_of(state.values.dtype);
        parts_.push_back(std::move(part));
      }
  hashes_.resize(parts_.size());
  if constexpr (memory_is_separate)
    for (const Part& part : parts_) staging_.resize(std::max(staging_.size(), part.values.bytes()));
}

std::uint64_t ReplicaAudit::hash(const ExecSpace& space, const Part& part) {
  const Tensor& values = part.values;
  if (part.offloaded) {
    constexpr std::int64_t most = std::int64_t{1} << 17;
    staging_.resize(static_cast<std::size_t>(most) * size_of(values.dtype));
    RunningHash hash;
    for (std::int64_t first = 0; first < values.count(); first += most) {
      const std::int64_t count = std::min(most, values.count() - first);
      part.offloaded.read(PassingBlocks::Version::present, part.first + first, count, staging_.data());
      hash.add(staging_.data(), static_cast<std::size_t>(count) * size_of(values.dtype));
    }
    return hash.value();
  }
  if constexpr (!memory_is_separate) return hash_of(values.data, values.bytes());
  copy_to_host(space, values, staging_.data());
  return hash_of(staging_.data(), values.bytes());
}

void ReplicaAudit::compare(const ExecSpace& space, std::int64_t step) {
  space.fence("lockstep::replica_audit");
  for (std::size_t i = 0; i < parts_.size(); ++i) hashes_[i] = hash(space, parts_[i]);
  const std::uint64_t all = hash_of(hashes_.data(), hashes_.size() * sizeof(hashes_[0]));
  std::int64_t of_this_rank = 0;
  std::memcpy(&of_this_rank, &all, sizeof(all));
  const std::vector<std::int64_t> of_ranks = comm_.all_gather(of_this_rank);
  if (std::ranges::count(of_ranks, of_ranks[0]) != comm_.size()) report(of_ranks, step);
}

void ReplicaAudit::report(const std::vector<std::int64_t>& of_ranks, std::int64_t step) const {
  // What most ranks hold is taken for right; of as many, what the first of them hold.
  std::map<std::int64_t, std::int64_t> holders;
  for (const std::int64_t hash : of_ranks) ++holders[hash];
  const auto most = std::ranges::max_element(of_ranks, {}, [&](std::int64_t hash) { return holders[hash]; });
  const int reference = static_cast<int>(most - of_ranks.begin());

  std::string right(reinterpret_cast<const char*>(hashes_.data()), hashes_.size() * sizeof(hashes_[0]));
  comm_.broadcast(right, reference);
  std::size_t part = 0;
  while (part < hashes_.size() &&
         std::memcmp(&hashes_[part], right.data() + part * sizeof(hashes_[0]), sizeof(hashes_[0])) == 0)
    ++part;
  const std::vector<std::int64_t> first_parts = comm_.all_gather(static_cast<std::int64_t>(part));

  std::vector<std::string> others;
  for (int rank = 0; rank < comm_.size(); ++rank) {
    if (of_ranks[static_cast<std::size_t>(rank)] == *most) continue;
    std::string host = host_name();
    comm_.broadcast(host, rank);
    others.push_back(fmt::format("rank {} on {}, first in '{}'", rank, host,
                                 parts_[static_cast<std::size_t>(first_parts[static_cast<std::size_t>(rank)])].name));
  }
  const auto agreeing = holders[*most];
  throw SharedError(
      ExitStatus::internal,
      fmt::format("step {}: replicas differ: {} rank{} agree{}, and not {} (parallel.audit_every); memory or a "
                  "processor may be faulty there: go on from the last checkpoint, without that host",
                  step, agreeing, agreeing == 1 ? "" : "s", agreeing == 1 ? "s" : "", fmt::join(others, "; ")));
}

}  // namespace lockstep
