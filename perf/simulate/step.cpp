// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs training steps on a cluster that SimGrid SMPI simulates: layers only let time pass, and lib/comm sums the
// gradients. Usage, under smpirun: step MEGABYTES BUCKET_MB FORWARD_MS BACKWARD_MS ALGORITHM prints
// "RANKS,NODES,STEP_MS,SUM_MS", the simulated milliseconds of a whole step, and of a sum alone. With `stage WHAT` in
// place of the algorithm it prints "MS" of the exchanges that traces.cpp writes down. Without arguments it prints the
// names of all algorithms that can be simulated.
#include <mpi.h>
#include <unistd.h>

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "comm/transport.hpp"
#include "parallel/parallel_memory.hpp"
#include "parallel/reducers/bucketed_reducer.hpp"
#include "perf/simulate/stages.hpp"

namespace lockstep {

/// The simulation runs one rank at a time: a rank that waits must let simulated time pass, or no other rank goes on.
/// The longer it has waited in simulated time (MPI_Wtime), the longer it sleeps before it looks again.
void SpinBackoff::pause() {
  const auto now = Clock::time_point(
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(MPI_Wtime())));
  if (!since_) since_ = now;
  const auto waited = std::chrono::duration_cast<std::chrono::microseconds>(now - *since_);
  usleep(1 + static_cast<useconds_t>(waited.count() / 32));
}

namespace {

constexpr int layers = 50;
/// Microseconds between two looks of a thread that sums gradients beside the layers, as with overlap: thread.
constexpr double look_us = 50;

struct Step {
  double forward_ms, backward_ms;
};

/// Simulated milliseconds that the slowest rank takes for a step. Collective.
double time_of(BucketedReducer& reducer, const Step& step, std::int64_t count) {
  const ExecSpace space;
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  if (step.forward_ms > 0) usleep(static_cast<useconds_t>(1e3 * step.forward_ms));
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    for (double left = 1e3 * step.backward_ms / layers; left > 0; left -= look_us) {
      usleep(static_cast<useconds_t>(std::min(left, look_us)));
      reducer.ready(space, 0);
    }
    reducer.ready(space, count * (layer + 1) / layers - count * layer / layers);
  }
  reducer.finish(space, [] {});
  const double own = 1e3 * (MPI_Wtime() - begin);
  double slowest = 0;
  MPI_Allreduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

void simulate(char** argv) {
  const auto count = static_cast<std::int64_t>(1e6 * std::atof(argv[1])) / static_cast<std::int64_t>(sizeof(float));
  ParallelConfig config;
  config.sums.bucket_mb = std::atof(argv[2]);
  config.sums.overlap = GradientSumConfig::Overlap::poll;
  config.sums.all_reduce = find_algorithm(argv[5]);
  const Topology topology(Communicator::world());
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(float);
  const auto memory = gradient_memory(config, topology.all, topology.node, bytes);
  std::vector<std::byte> own(memory ? 0 : bytes);
  void* gradients = memory ? memory->part(topology.node.rank()) : own.data();
  BucketedReducer reducer(config, {}, ShardGroups(config, topology), memory, {gradients, DType::f32, {count}},
                          {{{0, count}}, count, config.sums.bucket_mb, sizeof(float)});
  time_of(reducer, {0, 0}, count);  // the first sum sets up what later ones use
  const double sum = time_of(reducer, {0, 0}, count);
  const double step = time_of(reducer, {std::atof(argv[3]), std::atof(argv[4])}, count);
  if (topology.all.is_root()) std::printf("%d,%d,%.4f,%.4f\n", topology.all.size(), topology.nodes, step, sum);
}

/// A rank whose exchanges lib/comm does, and which advances them now and then while it computes.
class RealRank final : public Stage::Rank {
 public:
  explicit RealRank(const Stage::Exchange& largest) : sums_(largest), gathers_(largest) {}

  void compute(double ms) override {
    constexpr double look = 10;
    for (double left = 1e3 * ms; left > 0; left -= look) {
      usleep(static_cast<useconds_t>(std::min(left, look)));
      advance();
    }
  }
  void begin(Stage::Lane lane, const Stage::Exchange& exchange) override {
    at(lane).waiting.push_back(exchange);
    advance();
  }
  void wait(Stage::Lane lane) override {
    for (advance(); at(lane).done == at(lane).awaited; advance()) usleep(1);
    ++at(lane).awaited;
  }

 private:
  struct Lane {
    explicit Lane(const Stage::Exchange& largest) : numbers(static_cast<std::size_t>(largest.count)) {
      const Algorithm& by_halves = *find_algorithm("halving_doubling");
      const ReduceBuffer buffer{DType::f32, numbers.data()};
      of_kind[0] = all_reduce(by_halves, mpi_transport(Communicator::world()), buffer);
      of_kind[1] = reduce_scatter(by_halves, mpi_transport(Communicator::world()), buffer);
      of_kind[2] = all_gather(by_halves, mpi_transport(Communicator::world()), buffer);
    }
    void advance() {
      for (;;) {
        if (running && !running->advance()) return;
        done += running ? 1 : 0;
        running = nullptr;
        if (waiting.empty()) return;
        running = of_kind[static_cast<std::size_t>(waiting.front().kind)].get();
        running->start(0, waiting.front().count);
        waiting.pop_front();
      }
    }

    std::vector<float> numbers;
    std::unique_ptr<Collective> of_kind[3];
    std::deque<Stage::Exchange> waiting;
    Collective* running = nullptr;
    int done = 0, awaited = 0;
  };
  Lane& at(Stage::Lane lane) { return lane == Stage::Lane::sums ? sums_ : gathers_; }
  void advance() {
    gathers_.advance();
    sums_.advance();
  }

  Lane sums_, gathers_;
};

void simulate_stage(char** argv) {
  const Stage stage(argv[6], {std::atof(argv[1]), std::atof(argv[2]), std::atof(argv[3]), std::atof(argv[4])});
  RealRank rank(stage.exchange(Stage::Kind::all_reduce));
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  stage.run(rank);
  const double own = 1e3 * (MPI_Wtime() - begin);
  double slowest = 0;
  MPI_Allreduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  if (Communicator::world().is_root()) std::printf("%.4f\n", slowest);
}

void print_algorithms() {
  for (const std::string_view name : algorithm_names([](const Algorithm& algorithm) { return !algorithm.by_library; }))
    std::puts(std::string(name).c_str());
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc == 1) lockstep::print_algorithms();
  const bool is_stage = argc == 7 && std::string(argv[5]) == "stage";
  if (argc != 6 && !is_stage) return argc == 1 ? MPI_Finalize() : 64;
  if (!Kokkos::is_initialized()) Kokkos::initialize();  // once for all ranks, which are threads of one process
  if (is_stage) lockstep::simulate_stage(argv);
  else lockstep::simulate(argv);
  MPI_Finalize();
}
