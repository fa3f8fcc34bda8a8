// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A solver that trains its own surrogate. Half of the ranks integrate damped pendulums from random initial states. Each
// sends its results to a rank of the other half, which trains a network on them while the next ones are computed. At
// the end all ranks load the network and compare it with the solver.
//
//   mpirun -n 4 ./embed [FILE]       (FILE: the network's file; default: pendulum.h5)
#include <mpi.h>

#include <Kokkos_Core.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <lockstep/lockstep.hpp>
#include <random>
#include <string>

namespace {

constexpr int pendulums = 64;  // per message
constexpr int rounds = 400;

/// Angle and angular speed of each pendulum, before and after one unit of time.
struct Samples {
  using States = Kokkos::View<double* [2], Kokkos::LayoutRight, Kokkos::HostSpace>;
  States before{"before", pendulums}, after{"after", pendulums};
};

/// Integrates θ″ = −sin θ − θ′/5 from random states over one unit of time, by 200 steps of the midpoint rule.
void solve(std::mt19937_64& random, const Samples& samples) {
  std::uniform_real_distribution<double> start(-1.5, 1.5);
  for (int i = 0; i < pendulums; ++i) {
    double angle = samples.before(i, 0) = start(random), speed = samples.before(i, 1) = start(random);
    constexpr int steps = 200;
    constexpr double dt = 1.0 / steps;
    for (int step = 0; step < steps; ++step) {
      const double half_angle = angle + dt / 2 * speed;
      const double half_speed = speed - dt / 2 * (std::sin(angle) + 0.2 * speed);
      angle += dt * half_speed;
      speed -= dt * (std::sin(half_angle) + 0.2 * half_speed);
    }
    samples.after(i, 0) = angle, samples.after(i, 1) = speed;
  }
}

void compute(int trainer, int rank) {
  std::mt19937_64 random(static_cast<unsigned>(rank));
  const Samples samples;
  for (int round = 0; round < rounds; ++round) {
    solve(random, samples);
    MPI_Send(samples.before.data(), 2 * pendulums, MPI_DOUBLE, trainer, round, MPI_COMM_WORLD);
    MPI_Send(samples.after.data(), 2 * pendulums, MPI_DOUBLE, trainer, round, MPI_COMM_WORLD);
  }
}

void train(MPI_Comm trainers, int solver, const std::string& file) {
  int rank = 0, size = 0;
  MPI_Comm_rank(trainers, &rank);
  MPI_Comm_size(trainers, &size);
  const std::string deck = R"(
    run: {steps: )" + std::to_string(rounds) +
                           R"(}
    data: {memory: {inputs: [2], input_type: f64, targets: 2, target_type: f64}}
    model: {layers: [{linear: {features: 64}}, gelu, {linear: {features: 64}}, gelu, {linear: {features: 2}}]}
    loss: {type: mse}
    optimizer: {type: adamw, learning_rate: 0.01, weight_decay: 0}
    schedule: {type: cosine}
    batch: {global: )" + std::to_string(size * pendulums) +
                           "}";
  lockstep::Session session(deck, trainers);
  const Samples samples;
  for (int round = 0; round < rounds; ++round) {
    MPI_Recv(samples.before.data(), 2 * pendulums, MPI_DOUBLE, solver, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Recv(samples.after.data(), 2 * pendulums, MPI_DOUBLE, solver, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    session.step(samples.before, samples.after);
    if ((round + 1) % 100 != 0) continue;
    const lockstep::Metrics metrics = session.numbers().metrics;  // over the examples of all trainers
    if (rank == 0) std::printf("step %d: mean squared error %.2e\n", round + 1, metrics.loss);
  }
  session.save(file);
}

/// Returns the root mean square difference between network and solver on pendulums that no trainer has seen.
double error_of(lockstep::Network& network, int rank) {
  std::mt19937_64 random(1000u + static_cast<unsigned>(rank));
  const Samples samples;
  solve(random, samples);
  const Samples::States predicted("predicted", pendulums);
  network.predict(samples.before, predicted);
  double sum = 0;
  for (int i = 0; i < pendulums; ++i)
    for (int j = 0; j < 2; ++j) sum += std::pow(predicted(i, j) - samples.after(i, j), 2);
  return std::sqrt(sum / (2 * pendulums));
}

int run(const std::string& file) {
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int half = size / 2;
  if (size % 2 != 0) {
    if (rank == 0) std::fprintf(stderr, "error: %d ranks cannot be split into halves; give an even number\n", size);
    return EXIT_FAILURE;
  }
  const bool trains = rank < half;
  MPI_Comm mine = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, trains ? 0 : 1, rank, &mine);
  if (trains) train(mine, rank + half, file);
  else compute(rank - half, rank);
  MPI_Comm_free(&mine);
  MPI_Barrier(MPI_COMM_WORLD);  // until the file exists

  lockstep::Network network = lockstep::Network::load(file, MPI_COMM_WORLD);
  const double error = error_of(network, rank);
  std::printf("rank %d, which %s: the network differs from the solver by %.3f\n", rank, trains ? "trained" : "computed",
              error);
  return error < 0.05 ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int status = EXIT_FAILURE;
  try {
    const Kokkos::ScopeGuard kokkos(argc, argv);
    status = run(argc > 1 ? argv[1] : "pendulum.h5");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);  // the other half may be waiting for this one
  }
  MPI_Finalize();
  return status;
}
