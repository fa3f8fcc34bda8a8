// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>

#include "optim/parameter_blocks.hpp"
#include "optim/rules/step_kernel.hpp"

// A learning rate of its own for each parameter, from the norm of the parameter and that of its step, for LARS, LAMB
// and Adafactor. Norms cover whole parameters, of which a rank may own parts.
namespace lockstep {

/// The rule of optimizers whose ratio uses the gradient's norm. `Of` is the optimizer: each needs kernels of its own,
/// because nvcc's programs may call a null pointer if two files instantiate a kernel with the same template arguments.
template <class T, class Of>
struct GradientRule {
  KOKKOS_INLINE_FUNCTION T operator()(T, T g, T*) const { return g; }
};
template <class Of>
struct MakeGradientRule {
  template <class T>
  KOKKOS_INLINE_FUNCTION GradientRule<T, Of> operator()(T, const GroupSettings&, const StepCoefficients&) const {
    return {};
  }
};

/// The squared norms of the blocks of all ranks, and the ratios of the parameters.
class TrustRatios {
 public:
  explicit TrustRatios(const ParameterBlocks& tables)
      : squares_("lockstep::trust_ratio::squares", DType::f64, {std::max<std::int64_t>(1, tables.blocks().all), 2}),
        ratios_("lockstep::trust_ratio::ratios", DType::f64,
                {std::max<std::int64_t>(1, tables.blocks().parameter_count)}) {}

  const Tensor& squares() const { return squares_.get(); }
  double* ratios() const { return ratios_.get().as<double>(); }

 private:
  OwnedTensor squares_, ratios_;
};

struct BlockSquares {
  double parameters = 0, steps = 0;
};

/// Sums of squares of a block's parameters and of their steps rule(p, g, states); the rule may change the states.
template <class Member, class T, class Copy, int states, class Rule>
KOKKOS_INLINE_FUNCTION BlockSquares squares_of(const Member& team, const BlockArrays<T, Copy, states>& arrays,
                                               const ParameterBlock& block, const Rule& rule) {
  const T scale = static_cast<T>(*arrays.gradient_scale);
  const auto step_of = [&](std::int64_t i) {
    T state[states > 0 ? states : 1];
    for (int k = 0; k < states; ++k) state[k] = arrays.state[k][block.state + i];
    const T step = rule(arrays.parameters[block.first + i], arrays.gradient(block.gradient + i, scale), state);
    for (int k = 0; k < states; ++k) arrays.state[k][block.state + i] = state[k];
    return step;
  };
  BlockSquares squares;
  if constexpr (is_a_device) {
    Kokkos::parallel_reduce(
        Kokkos::TeamThreadRange(team, block.count),
        [&](const std::int64_t i, double& parameter_sum, double& step_sum) {
          const auto p = static_cast<double>(arrays.parameters[block.first + i]);
          const auto step = static_cast<double>(step_of(i));
          parameter_sum += p * p;
          step_sum += step * step;
        },
        squares.parameters, squares.steps);
  } else {
    constexpr int lanes = 16;            // independent partial sums, so that additions can overlap
    constexpr std::int64_t piece = 256;  // in elements
    double parameter_lanes[lanes] = {}, step_lanes[lanes] = {};
    T p[piece], step[piece];
    for (std::int64_t first = 0; first < block.count; first += piece) {
      const std::int64_t count = block.count - first < piece ? block.count - first : piece;
      const T* const from = arrays.parameters + block.first + first;
#pragma GCC ivdep
      for (std::int64_t i = 0; i < count; ++i) {
        p[i] = from[i];
        step[i] = step_of(first + i);
      }
      for (std::int64_t i = count; i < piece; ++i) p[i] = step[i] = 0;
      for (std::int64_t i = 0; i < piece; i += lanes)
        for (int lane = 0; lane < lanes; ++lane) {
          parameter_lanes[lane] += static_cast<double>(p[i + lane]) * static_cast<double>(p[i + lane]);
          step_lanes[lane] += static_cast<double>(step[i + lane]) * static_cast<double>(step[i + lane]);
        }
    }
    for (int lane = 0; lane < lanes; ++lane) {
      squares.parameters += parameter_lanes[lane];
      squares.steps += step_lanes[lane];
    }
  }
  return squares;
}

/// Computes the squares of the blocks in `arrays`; squares: [blocks, 2].
template <class T, class Copy, int states, class Rule>
void block_squares(const ExecSpace& space, const char* label, const Rules<Rule>* rules,
                   const BlockArrays<T, Copy, states>& arrays, const Tensor& squares) {
  using Team = Kokkos::TeamPolicy<ExecSpace>;
  auto* const of_blocks = squares.as<double>();
  Kokkos::parallel_for(
      label, Team(space, static_cast<int>(arrays.count), team_threads(256), 1),
      KOKKOS_LAMBDA(const typename Team::member_type& team) {
        const BlockArrays<T, Copy, states> own = arrays;  // a copy that no store can alias
        if (own.step->left_out) return;
        const ParameterBlock block = own.blocks[team.league_rank()];
        const BlockSquares found = squares_of(team, own, block, rules->of_group[block.group]);
        Kokkos::single(Kokkos::PerTeam(team), [&] {
          of_blocks[2 * block.number] = found.parameters;
          of_blocks[2 * block.number + 1] = found.steps;
        });
      });
}

/// Computes the squares of all ranks' blocks; squares: [blocks, 2]. find(window) must compute those of a window's
/// blocks. Collective if ranks own parts.
template <class Find>
void squares_of_all(const ExecSpace& space, const ParameterBlocks& tables, ParameterBlocks::StateUse use,
                    const Tensor& squares, const Find& find) {
  if (tables.sum_over_owners()) fill_zero(space, squares);
  tables.for_windows(space, use, find);
  if (tables.sum_over_owners()) tables.sum_over_owners()(space, squares);
}

/// ratios[parameter] = ratio(group, number of elements, norm of the parameter, norm of its step).
template <class Ratio>
void trust_ratios(const ExecSpace& space, const char* label, const ParameterBlocks& tables, const TrustRatios& trust,
                  const Ratio& ratio) {
  using Team = Kokkos::TeamPolicy<ExecSpace>;
  const TrainedParameter* const parameters = tables.blocks().parameters;
  const auto* const squares = trust.squares().as<const double>();
  double* const ratios = trust.ratios();
  Kokkos::parallel_for(
      label, Team(space, static_cast<int>(tables.blocks().parameter_count), team_threads(256), 1),
      KOKKOS_LAMBDA(const typename Team::member_type& team) {
        const TrainedParameter parameter = parameters[team.league_rank()];
        double p_square = 0, step_square = 0;
        Kokkos::parallel_reduce(
            Kokkos::TeamThreadRange(team, parameter.first_block, parameter.end_block),
            [&](const std::int64_t b, double& p_sum, double& step_sum) {
              p_sum += squares[2 * b];
              step_sum += squares[2 * b + 1];
            },
            p_square, step_square);
        Kokkos::single(Kokkos::PerTeam(team), [&] {
          ratios[team.league_rank()] = ratio(parameter.group, parameter.count, Kokkos::sqrt(p_square),
                                             Kokkos::sqrt(step_square));
        });
      });
}

}  // namespace lockstep
