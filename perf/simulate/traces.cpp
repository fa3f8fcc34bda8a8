// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes traces of the ranks of a sharded model for `smpirun -replay`: the actions of each rank, with the rounds of
// lib/comm. Usage: traces FOLDER RANKS WHAT MEGABYTES UNIT_MB FORWARD_MS BACKWARD_MS, where WHAT is gather, scatter, or
// a step with shard: none, optimizer, gradients or parameters. Writes FOLDER/0, 1, …, a file for each process.
//
// A trace cannot express "as soon as". So each rank is three processes of its node, as if each had a core: one
// computes, one sums gradients, and one gathers parameters. A message of a byte says what may begin, or is done.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "perf/simulate/stages.hpp"

namespace lockstep {
namespace {

enum Role { computes, sums, gathers };
constexpr int roles = 3;
constexpr double flops_per_ms = 1e8;  ///< of the platform's hosts, which do 100 Gflop/s

/// Writes the actions of a rank's three processes.
class RankTrace final : public Stage::Rank {
 public:
  RankTrace(const std::string& folder, int rank, int ranks) : rank_(rank), ranks_(ranks) {
    for (int role = 0; role < roles; ++role) {
      files_.emplace_back(folder + "/" + std::to_string(process(rank, role)));
      line(role, "init");
    }
  }
  ~RankTrace() override {
    for (int role = 0; role < roles; ++role) line(role, "finalize");
  }

  void compute(double ms) override { line(computes, "compute " + std::to_string(flops_per_ms * ms)); }
  void begin(Stage::Lane lane, const Stage::Exchange& exchange) override {
    const int role = lane == Stage::Lane::sums ? sums : gathers;
    tell(computes, role);
    for (const CommRound& step : exchange.schedule(rank_, ranks_)) {
      int requests = 0;
      if (step.receive) line(role, message("irecv", step.receive, role)), ++requests;
      if (step.send) line(role, message("isend", step.send, role)), ++requests;
      if (requests > 0) line(role, "waitall " + std::to_string(requests));
    }
    tell(role, computes);
  }
  void wait(Stage::Lane lane) override { hear(lane == Stage::Lane::sums ? sums : gathers, computes); }

 private:
  static int process(int rank, int role) { return roles * rank + role; }
  void line(int role, const std::string& action) {
    files_[static_cast<std::size_t>(role)] << process(rank_, role) << ' ' << action << '\n';
  }
  std::string message(const char* action, const CommRound::Part& part, int role) const {
    return std::string(action) + ' ' + std::to_string(process(part.peer, role)) + " 1 " +
           std::to_string(static_cast<std::int64_t>(sizeof(float)) * part.count);
  }
  void tell(int from, int to) {
    line(from, "send " + std::to_string(process(rank_, to)) + " 0 1");
    if (to != computes) hear(from, to);
  }
  void hear(int from, int to) { line(to, "recv " + std::to_string(process(rank_, from)) + " 0 1"); }

  int rank_, ranks_;
  std::vector<std::ofstream> files_;
};

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  if (argc != 8) return 64;
  const int ranks = std::atoi(argv[2]);
  const lockstep::Stage stage(argv[3],
                              {std::atof(argv[4]), std::atof(argv[5]), std::atof(argv[6]), std::atof(argv[7])});
  for (int rank = 0; rank < ranks; ++rank) {
    lockstep::RankTrace trace(argv[1], rank, ranks);
    stage.run(trace);
  }
}
