// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/asynchronous/worker_steps.hpp"

#include <cmath>

#include "base/error.hpp"
#include "optim/outer_step.hpp"

namespace lockstep {

std::int64_t UpdateSteps::updates_before(std::int64_t steps) const {
  validate(
      steps % every == 0 || steps >= last, ExitStatus::bad_deck,
      "parallel.local.every: the checkpoint is of step {}, and workers are to give what {} steps have changed, from "
      "a multiple of {} to the next; take a divisor of {}, or go on from another checkpoint",
      steps, every, every, steps);
  return (steps + every - 1) / every;
}

std::int64_t UpdateSteps::next_meeting(std::int64_t update, const std::function<bool(std::int64_t)>& meets) const {
  for (; update < updates(); ++update)
    for (std::int64_t step = behind(update - 1) + 1; step <= behind(update); ++step)
      if (meets(step)) return update;
  return update;
}

WorkerSteps::WorkerSteps(const UpdateSteps& steps, std::int64_t parts, ParameterBuffer& parameters)
    : steps_(steps),
      parts_(parts),
      parameters_(parameters),
      begun_("lockstep::worker_steps::begun", parameters.dtype(), {parameters.trained_size()}) {}

void WorkerSteps::begin(const ExecSpace& space, std::int64_t round) {
  const std::int64_t update = round / parts_;
  place_ = round % parts_;
  first_step_ = steps_.behind(update);
  done_ = 0;
  of_round_ = steps_.of(update);
  copy(space, values(), begun_.get());
}

void WorkerSteps::update(const ExecSpace& space, Optimizer& optimizer,
                         const ParallelStrategy::Coefficients& coefficients, const StepScalars& judged,
                         double& number) {
  const auto taken = static_cast<std::int64_t>(number) - 1;
  StepScalars scalars = coefficients(first_step_ + done_, taken);
  scalars.gradient_scale = judged.gradient_scale;
  scalars.left_out = judged.left_out;
  scalars.nonfinite_before = judged.nonfinite_before;
  optimizer.step(space, parameters_, scalars_.set(space, scalars));
  number += judged.left_out == 0 ? 1 : 0;
}

void WorkerSteps::take_difference(const ExecSpace& space) const {
  weighted_difference(space, 1, begun_.get(), values(), parameters_.gradients({0, parameters_.trained_size()}));
}

void WorkerSteps::count_from(std::int64_t steps, const Tensor& next) {
  double& number = *next.as<double>();
  number = number == 0 ? static_cast<double>(steps + 1) : std::round(number);
}

void add_numbers_of_worker(const std::vector<Optimizer::State>& states, const Tensor& next, HeldNumbers::Replica worker,
                           bool holds, std::vector<HeldNumbers>& all) {
  const auto add = [&](const std::string& state, const std::vector<Parameter>& layout, const Tensor& values) {
    all.push_back(numbers_of_one(state, layout, values, holds));
    all.back().replica = worker;
  };
  for (const Optimizer::State& state : states) add(state.name, state.layout, state.values);
  Parameter number{};
  number.name = "number";
  number.shape = {1};
  number.range = {0, 1};
  add("next_step", {number}, next);
  all.back().of_outer_step = true;  // a checkpoint may lack it
}

}  // namespace lockstep
