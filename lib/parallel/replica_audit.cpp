// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/replica_audit.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "base/process.hpp"
#include "base/text.hpp"
#include "core/tensor.hpp"
#include "io/checksum.hpp"

namespace lockstep {
namespace {

std::string state_part_name(const Parameter& parameter, const Optimizer::State& state) {
  return parameter.name + " (" + state.name + ")";
}

}  // namespace

ReplicaAudit::ReplicaAudit(const Communicator& all, const Communicator* same_part, const ParameterBuffer& parameters,
                           const Optimizer& optimizer, States states, std::string other_cause)
    : all_(all), other_cause_(std::move(other_cause)) {
  const auto add = [&](const Communicator& ranks) -> std::vector<Part>& {
    return replicas_.emplace_back(Replicas{.ranks = ranks, .numbers = ranks.all_gather(all_.rank())}).parts;
  };
  add_whole(parameters, optimizer, states, add(all_));
  if (same_part && same_part->size() > 1) add_owned(parameters, optimizer, add(*same_part));
  bool has_parts = false;
  for (Replicas& replicas : replicas_) {
    replicas.hashes.resize(replicas.parts.size());
    has_parts |= replicas.ranks.size() > 1 && !replicas.parts.empty();
    if constexpr (memory_is_separate)
      for (const Part& part : replicas.parts) staging_.resize(std::max(staging_.size(), part.values.bytes()));
  }
  compares_anything_ = all_.any_rank(has_parts);
}

void ReplicaAudit::add_whole(const ParameterBuffer& parameters, const Optimizer& optimizer, States states,
                             std::vector<Part>& parts) {
  for (const Parameter& parameter : parameters.parameters())
    if (!parameters.windows().division.values || parameter.kind != ParameterSpec::Kind::trained)
      parts.push_back({.name = parameter.name, .values = parameters.values(parameter)});
  if (parameters.layout().is_divided() || states == States::own) return;
  for (const auto& state : optimizer.states())
    for (const Parameter& parameter : state.layout) {
      Part part{.name = state_part_name(parameter, state),
                .values = {nullptr, state.values.dtype, parameter.shape},
                .offloaded = state.offloaded,
                .first = parameter.range.first};
      if (!part.offloaded) part.values.data = flat_part(state.values, parameter.range).data;
      parts.push_back(std::move(part));
    }
}

/// Owned ranges stand one after the other in states, and in divided values.
void ReplicaAudit::add_owned(const ParameterBuffer& parameters, const Optimizer& optimizer, std::vector<Part>& parts) {
  const auto add = [&](const std::string& name, const Tensor& numbers, const OffloadedState& offloaded,
                       const ElementRange& place) {
    Part part{
        .name = name, .values = {nullptr, numbers.dtype, {place.count}}, .offloaded = offloaded, .first = place.first};
    if (!offloaded) part.values.data = flat_part(numbers, place).data;
    parts.push_back(std::move(part));
  };
  const OffloadedValues* const elsewhere = optimizer.offloaded_values();
  std::int64_t before = 0;  // elements of earlier owned ranges
  for (const ElementRange& owned : parameters.layout().owned()) {
    for (const Parameter& parameter : trained_parameters(parameters.parameters())) {
      const ElementRange part = owned.within(parameter.range);
      if (part.count == 0) continue;
      const ElementRange place{before + part.first - owned.first, part.count};
      if (parameters.windows().division.values)
        add(parameter.name, parameters.owned().values(), elsewhere ? elsewhere->as_state() : OffloadedState{}, place);
      for (const auto& state : optimizer.states())
        add(state_part_name(parameter, state), state.values, state.offloaded, place);
    }
    before += owned.count;
  }
}

std::uint64_t ReplicaAudit::hash(const ExecSpace& space, const Part& part) {
  const Tensor& values = part.values;
  if (part.offloaded) {
    constexpr std::int64_t most = std::int64_t{1} << 17;
    staging_.resize(std::max(staging_.size(), static_cast<std::size_t>(most) * size_of(values.dtype)));
    RunningHash hash;
    for (std::int64_t first = 0; first < values.count(); first += most) {
      const std::int64_t count = std::min(most, values.count() - first);
      part.offloaded.read(StreamedBlocks::Version::present, part.first + first, count, staging_.data());
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
  std::string found;
  for (Replicas& replicas : replicas_)  // a difference among all ranks is seen by all, which then skip the rest
    if (found.empty()) found = complaint(space, replicas, step);
  // Ranks that own the same find a difference by themselves; the others are told.
  const int nobody = all_.size();
  const auto first = static_cast<int>(all_.all_reduce_min(std::int64_t{found.empty() ? nobody : all_.rank()}));
  if (first == nobody) return;
  all_.broadcast(found, first);
  throw SharedError(ExitStatus::internal, found);
}

std::string ReplicaAudit::complaint(const ExecSpace& space, Replicas& replicas, std::int64_t step) {
  std::vector<std::uint64_t>& hashes = replicas.hashes;
  for (std::size_t i = 0; i < hashes.size(); ++i) hashes[i] = hash(space, replicas.parts[i]);
  const std::uint64_t all = hash_of(hashes.data(), hashes.size() * sizeof(hashes[0]));
  std::int64_t of_this_rank = 0;
  std::memcpy(&of_this_rank, &all, sizeof(all));
  const std::vector<std::int64_t> of_ranks = replicas.ranks.all_gather(of_this_rank);
  if (std::ranges::count(of_ranks, of_ranks[0]) == replicas.ranks.size()) return "";
  return report(replicas, of_ranks, step);
}

std::string ReplicaAudit::report(const Replicas& replicas, const std::vector<std::int64_t>& of_ranks,
                                 std::int64_t step) const {
  // What most ranks hold is taken as right; of several such, what the first of these ranks hold.
  std::map<std::int64_t, std::int64_t> holders;
  for (const std::int64_t hash : of_ranks) ++holders[hash];
  const auto most = std::ranges::max_element(of_ranks, {}, [&](std::int64_t hash) { return holders[hash]; });
  const int reference = static_cast<int>(most - of_ranks.begin());

  const Communicator& ranks = replicas.ranks;
  const std::vector<std::uint64_t>& hashes = replicas.hashes;
  std::string right(reinterpret_cast<const char*>(hashes.data()), hashes.size() * sizeof(hashes[0]));
  ranks.broadcast(right, reference);
  std::size_t part = 0;
  while (part < hashes.size() &&
         std::memcmp(&hashes[part], right.data() + part * sizeof(hashes[0]), sizeof(hashes[0])) == 0)
    ++part;
  const std::vector<std::int64_t> first_parts = ranks.all_gather(static_cast<std::int64_t>(part));

  std::vector<std::string> others;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const auto number = static_cast<std::size_t>(rank);
    if (of_ranks[number] == *most) continue;
    std::string host = host_name();
    ranks.broadcast(host, rank);
    others.push_back(fmt::format("rank {} on {}, first in '{}'", replicas.numbers[number], host,
                                 replicas.parts[static_cast<std::size_t>(first_parts[number])].name));
  }
  const auto agreeing = holders[*most];
  return fmt::format(
      "step {}: replicas differ: {} agree{}, but not {} (parallel.audit_every); memory or a processor may be "
      "faulty there: continue from the last checkpoint, without that host{}",
      step, counted(agreeing, "rank"), agreeing == 1 ? "s" : "", fmt::join(others, "; "), other_cause_);
}

}  // namespace lockstep
