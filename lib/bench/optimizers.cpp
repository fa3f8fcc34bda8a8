// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "bench/bench.hpp"

#include <vector>

#include "base/median.hpp"
#include "bench/timing.hpp"
#include "nn/model_config.hpp"
#include "optim/optimizer.hpp"

namespace lockstep {
namespace {

/// `numbers`: numbers that are read or written for each parameter, if each kernel reads and writes what it needs once.
struct Case {
  const char* deck;
  double numbers;
};
constexpr Case cases[] = {
    {"{type: sgd}", 3},
    {"{type: sgd, momentum: 0.9, nesterov: true, weight_decay: 0.0001}", 5},
    {"{type: adam}", 7},
    {"{type: adamw}", 7},
    {"{type: rmsprop}", 5},
    {"{type: lion}", 5},
    {"{type: lars, weight_decay: 0.0001}", 2 + 5},
    {"{type: lamb}", 6 + 4},
    {"{type: adafactor}", 1 + 2 + 2 + 3},
};

void copy_numbers(const ExecSpace& space, std::int64_t count, const float* from, float* to) {
  Kokkos::parallel_for(
      "lockstep::bench::copy", RangePolicy(space, 0, count), KOKKOS_LAMBDA(const std::int64_t i) { to[i] = from[i]; });
}

}  // namespace

void bench_optimizers(const std::function<void(const std::string&)>& print) {
  constexpr int rounds = 15;
  const ExecSpace space;
  ModelConfig model;
  read_config(parse_deck("layers: [{linear: {features: 5000}}]", "bench"), model);
  ParameterBuffer parameters(Graph(model.resolved_layers(), {5000}).layer_specs(), DType::f32);
  parameters.initialize(space, 1);
  const std::int64_t count = parameters.trained_size();
  const OwnedTensor target("lockstep::bench::copy", DType::f32, {count});
  const UpdateScalarsMemory scalars;
  copy(space, parameters.owned().values(), parameters.owned().gradients());

  print(fmt::format("{} parameters, medians of {} steps alternating with copies\n", count, rounds));
  print("| optimizer | ms | GB/s | a copy's GB/s | share |\n|---|--:|--:|--:|--:|");
  for (const Case& c : cases) {
    OptimizerConfig config;
    read_config(parse_deck(c.deck, "bench"), config);
    const auto optimizer = config.make(parameters);
    std::vector<double> steps, copies;
    for (int round = 0; round < rounds; ++round) {
      const UpdateScalars* const step_scalars = scalars.set(
          space, {.coefficients = optimizer->coefficients(
                      {.learning_rate = 1e-6, .learning_rate_before = 1e-6, .number = round + 1})});
      steps.push_back(seconds_of([&] { optimizer->step(space, parameters, step_scalars); }));
      copies.push_back(seconds_of(
          [&] { copy_numbers(space, count, parameters.owned().gradients().as<float>(), target.get().as<float>()); }));
    }
    const auto rate = [&](double numbers, double seconds) {
      return numbers * static_cast<double>(count) * sizeof(float) / seconds * 1e-9;
    };
    const double step = rate(c.numbers, median(steps)), copied = rate(2, median(copies));
    print(fmt::format("| `{}` | {:.2f} | {:.2f} | {:.2f} | {:.2f} |", c.deck, 1e3 * median(steps), step, copied,
                      step / copied));
  }
}

}  // namespace lockstep
