// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <string>

#include "api/array.hpp"
#include "train/results.hpp"

namespace lockstep {

struct RunConfig;

/// Trains one network on the ranks of a communicator, on examples that they give, step by step. Each call is collective
/// over these ranks. Whatever is wrong on any rank (an array, the deck, a file) is thrown on all of them, as a
/// SharedError; the session is then as it was before the call (except as `restore` says). An error that is no
/// SharedError has been met by one rank in the middle of a step, for which the others wait: that rank must call
/// MPI_Abort.
///
/// The deck has `data: {memory: …}`, which gives the format of the examples, and `run: {steps: …}`, for the course of
/// the learning rate. It must not have what is meant for runs of `lockstep train`: other keys of `run`, `data` and
/// `checkpoint`.
class Session {
 public:
  /// MPI and Kokkos must have been started, and must end after the session. `deck`: YAML text.
  Session(const std::string& deck, MPI_Comm comm);
  /// `config`: see run/deck/run_config.hpp.
  Session(const RunConfig& config, MPI_Comm comm);
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  /// Does one step on the examples of all ranks together. Each rank gives any number of examples; with
  /// parallel.deterministic or parallel.virtual_replicas, each must give its equal part of the batch. Reads their
  /// memory until the call returns. Throws if the step is not applied because its gradients are not finite, or
  /// its loss is not for the second time in a row (with loss_watch: if that stops the run); returns normally if the
  /// step was skipped. The result has the step's outcome.
  StepResult step(const Array& inputs, const Array& targets);
  /// Returns the loss, the accuracy and the gradient norm of the last step.
  LoggedMetrics numbers();
  /// Returns the loss, the accuracy and the deck's `metrics` over other examples, of all ranks together.
  Metrics evaluate(const Array& inputs, const Array& targets);
  /// Number of steps done, including skipped ones.
  std::int64_t steps() const;

  /// Writes a checkpoint atomically, for `restore`, Network::load, model.weights or `lockstep predict`.
  void save(const std::string& file);
  /// Goes on from a checkpoint of the same network and optimizer, on any number of ranks. A file that does not fit, or
  /// is damaged, changes nothing. If reading breaks off after these checks, in the middle of the numbers, some are the
  /// file's and some are not: steps, evaluations and saves then throw until a restore succeeds.
  void restore(const std::string& file);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
