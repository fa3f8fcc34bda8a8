// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/monitor/machine_remarks.hpp"

#include <fmt/format.h>

#include "base/log.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "core/execution.hpp"

namespace lockstep {
namespace {

/// Returns the text of the first rank that has one, on all ranks. Collective.
std::string first_text(const Communicator& ranks, std::string text) {
  const auto first = static_cast<int>(
      -ranks.all_reduce_max(std::int64_t{text.empty() ? -ranks.size() : -ranks.rank()}));
  if (first == ranks.size()) return "";
  ranks.broadcast(text, first);
  return text;
}

std::string too_many_threads(int rank) {
  const int threads = ExecSpace().concurrency(), usable = usable_threads();
  const std::optional<double> quota = cpu_quota();
  if (usable > 0 && threads > usable)
    return fmt::format(
        "rank {} on {} has {}, but its affinity lets it run on {}; bind it to more (mpirun --bind-to none, srun "
        "--cpus-per-task={}), or set OMP_NUM_THREADS={}",
        rank, host_name(), counted(threads, "thread"), counted(usable, "processor"), threads, usable);
  if (quota && threads > *quota + 0.5)
    return fmt::format(
        "rank {} on {} has {}, but its cgroup grants it the time of {:.3g} processors (cpu.max); ask for more, or use "
        "fewer threads",
        rank, host_name(), counted(threads, "thread"), *quota);
  return "";
}

std::string all_on_one(const Topology& ranks) {
  const std::vector<int> own = usable_cores();
  const int size = ranks.node.size();
  const bool is_pinned = own.size() == 1 && usable_threads() == 1;
  const double core = is_pinned ? own.front() : -1;
  const bool same = ranks.node.all_reduce_max(core) == -ranks.node.all_reduce_max(-core);
  if (size == 1 || !is_pinned || !same) return "";
  return fmt::format(
      "the {} ranks on {} may all run on one and the same processor (their affinity); let the launcher bind each to "
      "one of its own (mpirun --bind-to core), or to none",
      size, host_name());
}

}  // namespace

std::vector<std::string> processor_remarks(const Topology& ranks) {
  std::vector<std::string> remarks;
  if (runs_on_device) return remarks;
  for (std::string text : {too_many_threads(ranks.all.rank()), all_on_one(ranks)})
    if (text = first_text(ranks.all, std::move(text)); !text.empty()) remarks.push_back(std::move(text));
  return remarks;
}

void warn_of_memory(const Topology& ranks, double bytes) {
  const std::optional<double> available = available_memory();
  const double needed = bytes * ranks.node.size();
  if (!available || needed <= *available) return;
  warn(
      "{} on {} will need about {} for the model and a step, but {} can be had there (/proc/meminfo, or the memory.max "
      "of a cgroup); use fewer ranks on a node, a smaller batch.micro, or parallel.shard on more nodes",
      counted(ranks.node.size(), "rank"), host_name(), bytes_text(needed), bytes_text(*available));
}

}  // namespace lockstep
