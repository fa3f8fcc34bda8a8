// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "optim/optimizer.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/memory_plan.hpp"
#include "optim/parameter_blocks.hpp"
#include "optim/rules/rules.hpp"

namespace lockstep {
namespace {

constexpr Alternative optimizers[] = {
    {"sgd", "Stochastic gradient descent with momentum, as in PyTorch", make_config<SgdConfig>},
    {"adam", "Adam with weight decay as a part of the gradient, as in PyTorch", make_config<AdamConfig>},
    {"adamw", "Adam with decoupled weight decay, as in PyTorch", make_config<AdamWConfig>},
    {"rmsprop", "RMSprop: the gradient divided by the root of a running average of its square, as in PyTorch",
     make_config<RmspropConfig>},
    {"lion", "Lion: steps of equal size along the signs of averaged gradients (Chen et al. 2023)",
     make_config<LionConfig>},
    {"lars",
     "LARS: SGD with momentum and a learning rate for each parameter tensor, for large batches (You et al. 2017)",
     make_config<LarsConfig>},
    {"lamb", "LAMB: Adam with a learning rate for each parameter tensor, for large batches (You et al. 2020)",
     make_config<LambConfig>},
    {"adafactor",
     "Adafactor: needs little memory, as it keeps the average squares of a matrix for its rows and columns alone; "
     "steps are relative to the root mean square of the parameter (Shazeer & Stern 2018)",
     make_config<AdafactorConfig>},
};

std::vector<std::string> all_state_names(const OptimizerOptions& options) {
  std::vector<std::string> names = options.state_names();
  if (options.ema_decay > 0) names.push_back(ema_state);
  return names;
}

std::vector<Parameter> layout_of(const OptimizerOptions& options, std::string_view state,
                                 const std::vector<Parameter>& trained) {
  return state == ema_state ? trained : options.state_layout(state, trained);
}

/// Number of elements of a state that this rank keeps.
std::int64_t count_of(const std::vector<Parameter>& state, const ParameterLayout& parameters) {
  const bool like_parameters = std::ranges::equal(state, trained_parameters(parameters.parameters()), {},
                                                  &Parameter::range, &Parameter::range);
  if (like_parameters) return parameters.owned_count();
  return state.empty() ? 0 : state.back().range.first + state.back().range.count;
}

}  // namespace

void OptimizerOptions::describe(Fields& fields) {
  fields.number("learning_rate", learning_rate, not_negative,
                "learning rate, which schedule multiplies by a factor in each step");
  fields.number("clip_norm", clip_norm, not_negative,
                "largest L2 norm of the gradient over all parameters; a gradient of larger norm is scaled down to it "
                "(0: no clipping)");
  fields.number("clip_value", clip_value, not_negative,
                "largest absolute value of an element of the gradient, to which larger ones are clipped, after "
                "clip_norm (0: no clipping)");
  fields.number("weight_decay", weight_decay, not_negative, weight_decay_help());
  fields.boolean("exclude_bias_and_norm", exclude_bias_and_norm,
                 "whether parameters of one dimension (biases and those of norms) have no weight decay and, with lars "
                 "and lamb, no trust ratio (PyTorch's optimizers: false)");
  fields.number("ema_decay", ema_decay, fraction_below_one,
                "share of a moving average of the parameters that each step keeps, as 0.999; evaluations and "
                "predictions use the average in place of the parameters (0: no average)");
  fields.sections("groups", groups, "Other settings for some of the parameters, chosen by name");
}

OptimizerConfig::OptimizerConfig() : options(std::make_shared<SgdConfig>()) {}

std::span<const Alternative> optimizer_types() { return optimizers; }

void OptimizerConfig::describe(Fields& fields) { fields.one_of("type", type, options, optimizers, "update rule"); }

const OptimizerOptions& OptimizerConfig::rule() const { return dynamic_cast<const OptimizerOptions&>(*options); }

bool OptimizerConfig::averages() const { return rule().ema_decay > 0; }

std::vector<std::string> OptimizerConfig::state_names() const { return all_state_names(rule()); }

std::vector<Parameter> OptimizerConfig::state_layout(std::string_view state,
                                                     const std::vector<Parameter>& parameters) const {
  std::vector<Parameter> layout = layout_of(rule(), state, trained_parameters(parameters));
  if (state == ema_state)  // also of the statistics (Optimizer::average_of_statistics)
    std::ranges::copy_if(parameters, std::back_inserter(layout), [](const Parameter& parameter) {
      return parameter.kind == ParameterSpec::Kind::statistic;
    });
  return layout;
}

ParameterGroups OptimizerConfig::groups(const ParameterLayout& layout) const { return rule().groups_of(layout); }

// States can be offloaded if ranks can divide them: kernels then need only a block of states and its parameters.
bool OptimizerConfig::offloads() const { return rule().divides() && !state_names().empty(); }

std::unique_ptr<Optimizer> OptimizerConfig::make(const ParameterBuffer& parameters, const StateOffload& offload) const {
  std::unique_ptr<Optimizer> optimizer = rule().make(parameters);
  optimizer->place_states(offload, parameters.layout());
  return optimizer;
}

Optimizer::Optimizer(const OptimizerOptions& options, const ParameterBuffer& parameters)
    : needs_all_gradients_(options.needs_all_gradients()),
      tables_(options.groups_of(parameters.layout()), parameters.owned(), options.clip_value, options.ema_decay) {
  const ParameterLayout& layout = parameters.layout();
  for (const std::string& name : all_state_names(options)) {
    states_.push_back({name, layout_of(options, name, trained_parameters(layout.parameters())), {}, {}});
    states_.back().values = {nullptr, parameters.dtype(), {count_of(states_.back().layout, layout)}};
  }
  if (averages() && parameters.updates_statistics() && layout.statistics().count > 0)
    statistics_average_ = OwnedTensor("lockstep::optimizer::statistics_average", parameters.dtype(),
                                      {layout.statistics().count});
}

void Optimizer::place_states(const StateOffload& offload, const ParameterLayout& layout) {
  if (states_.empty()) return;
  if (offload.to != StateOffload::To::nowhere) {
    tables_.change_blocks([&](std::vector<ParameterBlock>& blocks) {
      offloaded_ = std::make_unique<OffloadedStates>(offload, states_.front().values.dtype, states_.size(),
                                                     layout.owned(), blocks, tables_.blocks().blocks);
    });
    if (offload.values) offloaded_values_ = std::make_unique<OffloadedValues>(*offloaded_);
    pass_ = std::make_unique<OffloadedUpdate>(*offloaded_, tables_.nonfinite());
    tables_.pass_over_states(*pass_, offload.values);
    for (std::size_t i = 0; i < states_.size(); ++i) states_[i].offloaded = {offloaded_.get(), i};
    return;
  }
  std::size_t end = 0;
  for (const State& state : states_) end += align_up(state.values.bytes());
  state_memory_ = Buffer("lockstep::optimizer::states", end);
  std::size_t begin = 0;
  std::vector<Tensor> values;
  for (State& state : states_) {
    state.values = state_memory_.tensor(begin, state.values.dtype, state.values.shape);
    begin += align_up(state.values.bytes());
    values.push_back(state.values);
  }
  tables_.set_states(std::move(values));
}

OffloadedUpdate* Optimizer::stream_steps() {
  tables_.stream_steps();
  return pass_.get();
}

void Optimizer::begin_step(const ExecSpace& space, ParameterBuffer& parameters, const UpdateScalars* step) {
  pass_->begin_early();
  has_begun_ = true;
  apply_rule(space, parameters, step);
}

void Optimizer::step(const ExecSpace& space, ParameterBuffer& parameters, const UpdateScalars* step) {
  if (!std::exchange(has_begun_, false)) apply_rule(space, parameters, step);
  if (tables_.streams()) pass_->turn();
}

void Optimizer::begin_average(const ExecSpace& space, const ParameterBuffer& parameters) {
  tables_.for_windows(space, ParameterBlocks::StateUse::change, [&](const StateWindow& window) {
    lockstep::begin_average(space, window.blocks, window.count, window.values_or(parameters.owned()),
                            window.states.back());
  });
  if (const Tensor& average = average_of_statistics())
    copy(space, parameters.values(parameters.layout().statistics()), average);
}

void Optimizer::swap_average(const ExecSpace& space, ParameterBuffer& parameters) {
  tables_.for_windows(space, ParameterBlocks::StateUse::change, [&](const StateWindow& window) {
    lockstep::swap_average(space, window.blocks, window.count, window.values_or(parameters.owned()),
                           window.states.back());
  });
  if (const Tensor& average = average_of_statistics())
    lockstep::swap_average(space, parameters.values(parameters.layout().statistics()), average);
  if (!parameters.rounded()) return;
  for (const ElementRange& owned : parameters.layout().owned()) parameters.round(space, owned);
}

void Optimizer::update_statistics(const ExecSpace& space, ParameterBuffer& parameters, const UpdateScalars* step,
                                  double scale) {
  parameters.update_statistics(space, scale, &step->left_out);
  if (const Tensor& average = average_of_statistics())
    update_average(space, tables_.ema_decay(), step, parameters.values(parameters.layout().statistics()), average);
}

bool Optimizer::left_nonfinite(const ExecSpace& space) const {
  std::int32_t flag = 0;
  copy_to_host(space, nonfinite(), &flag);
  return flag != 0;
}

}  // namespace lockstep
