// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "bench/bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/duration.hpp"
#include "base/median.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "comm/collective/make_all_reduce.hpp"
#include "io/output_file.hpp"
#include "parallel/parallel_memory.hpp"

namespace lockstep {
namespace {

/// A way to sum `count` numbers over all ranks.
struct Candidate {
  const Algorithm* algorithm;
  std::function<void(std::int64_t count)> sum;
  std::vector<double> seconds;  ///< one for each round

  double median() const { return lockstep::median(seconds); }
};

/// Seconds of one sum on the slowest rank, as the mean of as many in a row as take about 20 ms. Collective.
double time_of(const Communicator& comm, const Candidate& candidate, std::int64_t count) {
  const auto run = [&](std::int64_t times) {
    comm.barrier();
    const Timer timer;
    for (std::int64_t i = 0; i < times; ++i) candidate.sum(count);
    return comm.all_reduce_max(timer.seconds());
  };
  const auto times = std::clamp<std::int64_t>(static_cast<std::int64_t>(0.02 / run(3) * 3), 1, 10'000);
  return run(times) / static_cast<double>(times);
}

/// Returns, on rank 0, a warning about times of ranks that share cores; empty if they do not. Collective.
std::string shared_cores_remark(const Communicator& comm) {
  const Communicator node = comm.on_this_node();
  const std::vector<int> usable = usable_cores();
  std::vector<double> ranks_of(
      static_cast<std::size_t>(1 + node.all_reduce_max(std::int64_t{usable.empty() ? 0 : usable.back()})));
  for (const int core : usable) ranks_of[static_cast<std::size_t>(core)] = 1;
  node.all_reduce_sum(ranks_of);
  const auto cores = std::ranges::count_if(ranks_of, [](double ranks) { return ranks > 0; });
  std::string remark;
  if (cores > 0 && node.size() > cores)
    remark = fmt::format(
        "{} ranks share {} on {}: they take turns on a core, so their sums are slower than with one core per "
        "rank",
        node.size(), counted(cores, "core"), host_name());
  for (const std::string& of_a_rank : comm.gather_to_root(remark))
    if (!of_a_rank.empty()) return of_a_rank;
  return "";
}

}  // namespace

void bench_all_reduce(const Communicator& comm, const AllReduceBench& options, const Print& print) {
  comm.run_on_root([&] {
    if (!options.save.empty()) check_output(options.save, options.overwrite, {});
  });
  const std::int64_t most = std::ranges::max(options.bytes) / static_cast<std::int64_t>(sizeof(float));
  const Topology topology(comm);
  const auto memory = gradient_memory(ParallelConfig(), topology.all, topology.node,
                                      static_cast<std::size_t>(most) * sizeof(float));
  std::vector<float> own(static_cast<std::size_t>(most));

  std::vector<Candidate> candidates;
  std::vector<std::unique_ptr<Collective>> sums;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.in_device_memory || (algorithm.by_library && comm.network())) continue;
    const bool shared = algorithm.in_node_memory;
    if (shared && !memory) continue;
    void* data = shared ? static_cast<void*>(memory->part(topology.node.rank())) : own.data();
    sums.push_back(
        make_all_reduce({.all_reduce = &algorithm}, {}, topology, shared ? memory : std::nullopt, {DType::f32, data}));
    candidates.push_back({&algorithm, [sum = sums.back().get()](std::int64_t count) {
                            sum->start(0, count);
                            wait_until([&] { return sum->advance(); });
                          }});
  }

  std::string header = "| bytes |", line = "|--:|";
  for (const Candidate& candidate : candidates)
    header += fmt::format(" {}, µs |", candidate.algorithm->name), line += "--:|";
  print(fmt::format("{} ranks on {}{}", comm.size(), counted(topology.nodes, "node"),
                    comm.network() ? fmt::format(" ({})", comm.network()->description()) : ""));
  if (const std::string remark = shared_cores_remark(comm); !remark.empty()) print(remark + "\n");
  print(header + " fastest | times as fast as the first |");
  print(line + "---|--:|");
  std::vector<std::int64_t> sizes = options.bytes;
  std::ranges::sort(sizes);
  std::vector<AllReduceRow> rows;
  for (const std::int64_t bytes : sizes) {
    for (Candidate& candidate : candidates) candidate.seconds.clear();
    for (int round = 0; round < options.rounds; ++round)
      for (Candidate& candidate : candidates)
        candidate.seconds.push_back(time_of(comm, candidate, bytes / static_cast<std::int64_t>(sizeof(float))));
    std::string row = fmt::format("| {} |", bytes);
    for (Candidate& candidate : candidates) row += fmt::format(" {:.1f} |", 1e6 * candidate.median());
    const auto fastest = std::ranges::min_element(candidates, {}, &Candidate::median);
    print(row + fmt::format(" {} | {:.2f} |", fastest->algorithm->name, candidates[0].median() / fastest->median()));
    // A row's algorithm is used up to the geometric mean of its size and the next one that was measured.
    if (!rows.empty() && rows.back().algorithm == fastest->algorithm) rows.pop_back();
    else if (!rows.empty())
      rows.back().up_to = static_cast<std::int64_t>(
          std::sqrt(static_cast<double>(rows.back().up_to) * static_cast<double>(bytes)));
    rows.push_back({bytes, fastest->algorithm});
  }
  if (options.save.empty()) return;
  comm.run_on_root([&] { replace_text_file(options.save, table_text(comm.size(), topology.nodes, rows)); });
}

}  // namespace lockstep
