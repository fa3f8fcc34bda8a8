// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The all-reduces of lib/comm on a cluster that SimGrid SMPI simulates: the times that it prints are the simulation's.
// Usage, under smpirun: all_reduce BYTES…
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "comm/make_all_reduce.hpp"

namespace lockstep {

/// The simulation runs one rank at a time: who waits must let simulated time pass, or nobody else ever goes on.
void Patience::pause() { usleep(1); }

namespace {

double time_of(AllReduce& sum, std::int64_t count) {
  double slowest = 0;
  for (int run = 0; run < 2; ++run) {  // the first one makes what all others find there
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    sum.start(0, count);
    Patience patience;
    while (!sum.advance()) patience.pause();
    const double own = MPI_Wtime() - begin;
    MPI_Allreduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  }
  return slowest;
}

void simulate(const std::vector<std::int64_t>& sizes) {
  const Topology topology(Communicator::world(), 0);
  const std::int64_t most = *std::max_element(sizes.begin(), sizes.end());
  const auto memory = NodeMemory::make(topology.node, static_cast<std::size_t>(most));
  std::vector<float> own(static_cast<std::size_t>(most) / sizeof(float), 1.0F);
  for (const AllReduceKind kind :
       {AllReduceKind::ring, AllReduceKind::halving_doubling, AllReduceKind::tree, AllReduceKind::hierarchical}) {
    const bool shared = kind == AllReduceKind::hierarchical;
    if (shared && !memory) continue;
    ParallelConfig config;
    config.all_reduce = kind;
    void* data = shared ? static_cast<void*>(memory->part(topology.node.rank())) : own.data();
    const auto sum = make_all_reduce(config, topology, shared ? memory : std::nullopt, {DType::f32, data});
    for (const std::int64_t bytes : sizes) {
      std::fill(own.begin(), own.end(), 1.0F);
      const double seconds = time_of(*sum, bytes / static_cast<std::int64_t>(sizeof(float)));
      if (topology.all.is_root()) {
        std::printf("%d,%d,%s,%ld,%.3f\n", topology.all.size(), topology.nodes,
                    all_reduce_names[static_cast<std::size_t>(kind)].data(), static_cast<long>(bytes), 1e6 * seconds);
        std::fflush(stdout);
      }
    }
  }
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  std::vector<std::int64_t> sizes;
  for (int i = 1; i < argc; ++i) sizes.push_back(std::atoll(argv[i]));
  lockstep::simulate(sizes);
  MPI_Finalize();
}
