// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <string>

#include "api/array.hpp"
#include "train/metrics.hpp"
#include "train/step_result.hpp"

namespace lockstep {

struct RunConfig;

/// Training of one network by the ranks of a communicator, on examples that they give, step by step. Each call is
/// collective over them. Whatever is wrong on any rank (an array, the deck, a file) is thrown on all of them, as a
/// SharedError; the session is then as it was before the call (but see `restore`).
///
/// Its deck has `data: {memory: …}`, which says what examples look like, and `run: {steps: …}`, for the course of the
/// learning rate. It must not have what is for runs of the command `lockstep train`: other keys of `run`, `data` and
/// `checkpoint`.
class Session {
 public:
  /// MPI and Kokkos have been started, and end after the session. `deck`: YAML text.
  Session(const std::string& deck, MPI_Comm comm);
  /// From run/deck/run_config.hpp.
  Session(const RunConfig& config, MPI_Comm comm);
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  /// One step, on the examples of all ranks together: each gives as many as it has. Their memory is read until the call
  /// returns. Of shards and virtual replicas each rank gives an equal part of the batch. A step that cannot be done, as
  /// its loss is not finite and loss_watch wants to stop, is thrown; one that was skipped is returned.
  StepResult step(const Array& inputs, const Array& targets);
  /// Loss, accuracy and norm of the gradient in the last step.
  StepNumbers numbers();
  /// Loss, accuracy and the deck's `metrics` over other examples, of all ranks together.
  Metrics evaluate(const Array& inputs, const Array& targets);
  /// Steps done, those that were skipped included.
  std::int64_t steps() const;

  /// Writes a checkpoint, all or nothing: for `restore`, Network::load, model.weights, `lockstep predict`.
  void save(const std::string& file);
  /// Goes on from a checkpoint of the same network and optimizer, on any number of ranks. A file that does not fit, or
  /// is damaged, changes nothing. Where reading breaks off after these checks, in the middle of the numbers, some are
  /// the file's and some are not: steps, evaluations and saves throw from then on, until a restore succeeds.
  void restore(const std::string& file);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
