// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "optim/rules/rules.hpp"

#include <cmath>
#include <limits>

#include "optim/rules/factored_moments.hpp"
#include "optim/rules/step_kernel.hpp"
#include "optim/rules/trust_ratio.hpp"

namespace lockstep {

/// Shazeer & Stern, "Adafactor", 2018, in PyTorch's form. v is the average of squared gradients, in which the newest
/// gradient has the weight t^−beta2_decay in step t; for matrices it is kept as averages of rows and columns
/// (factored_moments.hpp). u = g / √max(v, ε₁²); p ← p·(1 − lr·weight_decay) − α·u / max(1, rms(u) / clip_threshold),
/// where α = min(lr, 1/√t)·max(ε₂, rms(p)).
class Adafactor final : public Optimizer {
 public:
  Adafactor(const AdafactorConfig& config, const ParameterBuffer& parameters);

  StepCoefficients coefficients(const RateOfStep& rate) const override;
  bool overwrites_gradients() const override { return true; }

 private:
  void apply_rule(const ExecSpace& space, ParameterBuffer& parameters, const UpdateScalars* step) override;

  AdafactorConfig config_;
  FactoredMoments moments_;
  TrustRatios trust_;
  OwnedTensor one_;  ///< f64 [1]: the number 1, a gradient scale for kernels
};

namespace {

/// Indices of StepCoefficients: lr, 1/√t, and the weight of the newest gradient in the averages.
enum Coefficient : std::size_t { rate, largest_rate, taken };

/// Indices of Optimizer::states. The column average comes first, because all parameters have it.
enum State : std::size_t { column, row };

using Team = Kokkos::TeamPolicy<ExecSpace>;
using TeamMember = Team::member_type;

/// A team policy for row slabs; the columns of a row are spread over vector lanes.
Team teams(const ExecSpace& space, std::int64_t count) {
  return {space, static_cast<int>(count), team_threads(8), team_threads(32)};
}

template <class T>
struct Averages {
  MomentArrays moments;
  T* rows;
  T* columns;
  const UpdateScalars* step;

  KOKKOS_INLINE_FUNCTION void take(T& average, double square) const {
    average += static_cast<T>(step->coefficients[taken]) * (static_cast<T>(square) - average);
  }
};

/// Updates the row averages, and sums each slab's squares by column.
template <class T, class Copy>
void average_rows(const ExecSpace& space, const BlockArrays<T, Copy, 0>& arrays, const Averages<T>& averages) {
  Kokkos::parallel_for(
      "lockstep::adafactor::rows", teams(space, averages.moments.slab_count), KOKKOS_LAMBDA(const TeamMember& team) {
        if (averages.step->left_out) return;
        const MatrixSlab slab = averages.moments.slabs[team.league_rank()];
        const FactoredMatrix matrix = averages.moments.matrices[slab.matrix];
        const T scale = static_cast<T>(*arrays.gradient_scale);
        const auto square = [&](std::int64_t r, std::int64_t c) {
          const auto g = static_cast<double>(
              arrays.gradient(matrix.first + (slab.first_row + r) * matrix.columns + c, scale));
          return g * g;
        };
        if (matrix.factored)
          Kokkos::parallel_for(Kokkos::TeamThreadRange(team, slab.rows), [&](const std::int64_t r) {
            double sum = 0;
            Kokkos::parallel_reduce(
                Kokkos::ThreadVectorRange(team, matrix.columns),
                [&](const std::int64_t c, double& part) { part += square(r, c); }, sum);
            Kokkos::single(Kokkos::PerThread(team), [&] {
              averages.take(averages.rows[matrix.row_state + slab.first_row + r],
                            sum / static_cast<double>(matrix.columns));
            });
          });
        double* const sums = averages.moments.column_sums + slab.sums;
        for (std::int64_t r = 0; r < slab.rows; ++r)
          Kokkos::parallel_for(Kokkos::TeamVectorRange(team, matrix.columns),
                               [&](const std::int64_t c) { sums[c] = r == 0 ? square(r, c) : sums[c] + square(r, c); });
      });
}

/// Updates the column averages from the slabs' sums, and computes the mean of each matrix's row averages.
template <class T>
void average_columns(const ExecSpace& space, const Averages<T>& averages) {
  Kokkos::parallel_for(
      "lockstep::adafactor::columns", teams(space, averages.moments.matrix_count),
      KOKKOS_LAMBDA(const TeamMember& team) {
        if (averages.step->left_out) return;
        const FactoredMatrix matrix = averages.moments.matrices[team.league_rank()];
        const double* const sums = averages.moments.column_sums + averages.moments.slabs[matrix.first_slab].sums;
        Kokkos::parallel_for(Kokkos::TeamVectorRange(team, matrix.columns), [&](const std::int64_t c) {
          double sum = 0;
          for (std::int64_t slab = 0; slab < matrix.slabs; ++slab) sum += sums[slab * matrix.columns + c];
          averages.take(averages.columns[matrix.column_state + c], sum / static_cast<double>(matrix.rows));
        });
        if (!matrix.factored) return;
        double sum = 0;
        Kokkos::parallel_reduce(
            Kokkos::TeamVectorRange(team, matrix.rows),
            [&](const std::int64_t r, double& part) {
              part += static_cast<double>(averages.rows[matrix.row_state + r]);
            },
            sum);
        Kokkos::single(Kokkos::PerTeam(team), [&] {
          averages.moments.row_means[team.league_rank()] = sum / static_cast<double>(matrix.rows);
        });
      });
}

/// g ← g / √max(v, ε₁²).
template <class T, class Copy>
void divide_gradients(const ExecSpace& space, const BlockArrays<T, Copy, 0>& arrays, const Averages<T>& averages,
                      double epsilon, T* gradients) {
  const T least = static_cast<T>(epsilon * epsilon);
  Kokkos::parallel_for(
      "lockstep::adafactor::update", teams(space, averages.moments.slab_count), KOKKOS_LAMBDA(const TeamMember& team) {
        if (averages.step->left_out) return;
        const MatrixSlab slab = averages.moments.slabs[team.league_rank()];
        const FactoredMatrix matrix = averages.moments.matrices[slab.matrix];
        const T scale = static_cast<T>(*arrays.gradient_scale);
        const T* const columns = averages.columns + matrix.column_state;
        Kokkos::parallel_for(Kokkos::TeamThreadRange(team, slab.rows), [&](const std::int64_t r) {
          const std::int64_t first = matrix.first + (slab.first_row + r) * matrix.columns;
          T factor = 1;
          if (matrix.factored) {
            const double mean = averages.moments.row_means[slab.matrix];
            factor = static_cast<T>(static_cast<double>(averages.rows[matrix.row_state + slab.first_row + r]) /
                                    (mean > epsilon ? mean : epsilon));
          }
          Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, matrix.columns), [&](const std::int64_t c) {
            const T v = factor * columns[c];
            gradients[first + c] = arrays.gradient(first + c, scale) / Kokkos::sqrt(v > least ? v : least);
          });
        });
      });
}

/// The factor of a parameter's step, α / max(1, rms(u) / clip_threshold).
struct AdafactorRatio {
  const UpdateScalars* step;
  double rate_scale[most_groups];
  double least_rms, threshold;
  KOKKOS_INLINE_FUNCTION double operator()(int group, std::int64_t count, double p_norm, double u_norm) const {
    const double root = Kokkos::sqrt(static_cast<double>(count));
    const double rms = p_norm / root > least_rms ? p_norm / root : least_rms;
    const double excess = u_norm / (root * threshold);
    const double wanted = rate_scale[group] * step->coefficients[rate], most = step->coefficients[largest_rate];
    return (wanted < most ? wanted : most) * rms / (excess > 1 ? excess : 1);
  }
};

template <class T>
struct AdafactorRule {
  T kept, ratio;
  KOKKOS_INLINE_FUNCTION T operator()(T p, T u, T*) const { return kept * p - ratio * u; }
};

struct MakeAdafactorRule {
  template <class T>
  KOKKOS_INLINE_FUNCTION AdafactorRule<T> operator()(T, const GroupSettings& group, const StepCoefficients& c) const {
    const double decay = group.learning_rate_scale * c[rate] * group.weight_decay;
    return {.kept = static_cast<T>(1 - decay), .ratio = T(1)};
  }
};

}  // namespace

void AdafactorConfig::describe(Fields& fields) {
  OptimizerOptions::describe(fields);
  fields.number("beta2_decay", beta2_decay, positive,
                "exponent of the running averages: step t gives its own squared gradient the weight t^−beta2_decay");
  fields.number("clip_threshold", clip_threshold, positive,
                "largest root mean square of a parameter's update before the learning rate is applied; a larger update "
                "is scaled down to it");
  fields.numbers("epsilons", epsilons, positive,
                 "lower bounds of the root of an average square, and of the root mean square of a parameter that its "
                 "step is relative to");
  fields.check(epsilons.size() == 2, "epsilons", "must have two entries; write [1.0e-15, 0.001]");
}

std::vector<Parameter> AdafactorConfig::state_layout(std::string_view state,
                                                     const std::vector<Parameter>& trained) const {
  const bool of_rows = state == state_names()[row];
  std::vector<Parameter> layout;
  std::int64_t end = 0;
  for (Parameter parameter : trained) {
    const auto extents = parameter.shape.extents();
    std::vector<std::int64_t> kept(extents.begin(), extents.end());
    if (extents.size() > 1) kept.erase(kept.end() - (of_rows ? 1 : 2));
    else if (of_rows) continue;
    parameter.shape = Shape(kept);
    parameter.range = {end, parameter.shape.count()};
    end += parameter.range.count;
    layout.push_back(parameter);
  }
  return layout;
}

std::unique_ptr<Optimizer> AdafactorConfig::make(const ParameterBuffer& parameters) const {
  return std::make_unique<Adafactor>(*this, parameters);
}

Adafactor::Adafactor(const AdafactorConfig& config, const ParameterBuffer& parameters)
    : Optimizer(config, parameters),
      config_(config),
      moments_(parameters.layout().owned_parameters(), states()[row].layout, states()[column].layout),
      trust_(tables()),
      one_("lockstep::adafactor::one", DType::f64, {1}) {
  const double one = 1;
  copy_from_host(ExecSpace(), &one, one_.get());
}

StepCoefficients Adafactor::coefficients(const RateOfStep& rate) const {
  const auto number = static_cast<double>(rate.number);
  return {rate.learning_rate, 1 / std::sqrt(number), std::pow(number, -config_.beta2_decay)};
}

void Adafactor::apply_rule(const ExecSpace& space, ParameterBuffer& parameters, const UpdateScalars* step) {
  AdafactorRatio ratio{
      .step = step, .rate_scale = {}, .least_rms = config_.epsilons[1], .threshold = config_.clip_threshold};
  const std::vector<GroupSettings>& groups = tables().groups();
  for (std::size_t i = 0; i < groups.size(); ++i) ratio.rate_scale[i] = groups[i].learning_rate_scale;
  dispatch_step(parameters, [&]<class T, class Copy>(T, Copy* copies) {
    BlockArrays<T, Copy, 0> arrays = step_arrays<0, T>(tables(), parameters, step, copies, tables().whole());
    const Averages<T> averages{.moments = moments_.arrays(),
                               .rows = states()[row].values.as<T>(),
                               .columns = states()[column].values.as<T>(),
                               .step = step};
    average_rows(space, arrays, averages);
    average_columns(space, averages);
    divide_gradients(space, arrays, averages, config_.epsilons[0], parameters.owned().gradients().as<T>());
    // The gradient buffer now holds u, which is already scaled and clipped.
    arrays.gradient_scale = one_.get().as<double>();
    arrays.clip_value = std::numeric_limits<T>::infinity();
    block_squares(space, "lockstep::adafactor::norms",
                  rules_of<T>(space, tables(), step, MakeGradientRule<Adafactor>{}), arrays, trust_.squares());
    trust_ratios(space, "lockstep::adafactor::ratios", tables(), trust_, ratio);
    arrays.ratios = trust_.ratios();
    step_parameters(space, "lockstep::adafactor::step", rules_of<T>(space, tables(), step, MakeAdafactorRule{}), arrays,
                    tables().nonfinite());
    tables().average(space, parameters, step, tables().whole());
  });
}

}  // namespace lockstep
