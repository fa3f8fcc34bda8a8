// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <fmt/format.h>

#include <memory>
#include <utility>

#include "core/execution.hpp"
#include "run/deck/run_config.hpp"

namespace lockstep {
namespace {

void add_optimizers(std::vector<Option>& options, const OptimizerConfig& optimizer) {
  for (const Alternative& type : optimizer_types()) {
    const bool is_used = optimizer.type == type.name;
    const std::shared_ptr<Config> made = is_used ? optimizer.options : type.make();
    const auto& rule = dynamic_cast<const OptimizerOptions&>(*made);
    const bool has_states = is_used ? !optimizer.state_names().empty() : !rule.state_names().empty();
    Option option{.key = "optimizer.type",
                  .value = fmt::format(": {}", type.name),
                  .is_used = is_used,
                  .example = {fmt::format("optimizer={{type: {}}}", type.name)}};
    if (!has_states) option.takes.push_back({Capability::some_states, "without momentum it keeps none"});
    if (!rule.divides())
      option.takes.push_back(
          {Capability::divisible_states, "it keeps averages of whole rows and columns", "use another optimizer"});
    if (!rule.divides() || rule.needs_all_gradients())
      option.takes.push_back(
          {Capability::partial_updates, "its update of a tensor depends on all of it", "use another optimizer"});
    if (!rule.steps_along_gradient())
      option.takes.push_back({Capability::gradient_steps, "it takes other steps", "use sgd"});
    add_value(options, std::move(option));
  }
  options.push_back({.key = "optimizer.clip_norm",
                     .is_used = optimizer.rule().clip_norm > 0,
                     .needs = {{Capability::whole_norm, "it scales the gradient by it", "use clip_value"}},
                     .example = {"optimizer.clip_norm=1"}});
  options.push_back({.key = "optimizer.ema_decay",
                     .is_used = optimizer.averages(),
                     .needs = {{Capability::common_steps, "it averages the parameters after each step"}},
                     .example = {"optimizer.ema_decay=0.9"}});
}

void add_precisions(std::vector<Option>& options, const PrecisionOptions& precision) {
  options.push_back({.key = "precision.loss_scale",
                     .is_used = precision.has_loss_scale,
                     .takes = {{Capability::unscaled_gradients, "it scales them"}},
                     .example = {"precision.loss_scale={}"}});
  options.push_back({.key = "precision.compute",
                     .value = ": fp16",
                     .is_used = precision.compute == Precision::fp16,
                     .takes = {{Capability::unscaled_gradients, "it always scales the loss", "compute in bf16"}},
                     .example = {"precision.compute=fp16"}});
}

void add_batches(std::vector<Option>& options, const RunConfig& config) {
  options.push_back({.key = "data.sampler",
                     .value = ": distributed_sampler",
                     .is_used = config.data.sampler == DataConfig::SamplerKind::distributed_sampler,
                     .needs = {{Capability::one_share, "it chooses examples by rank"}},
                     .example = {"data.sampler=distributed_sampler"}});
  options.push_back({.key = "data.shuffle",
                     .value = ": false",
                     .is_used = !config.data.shuffle,
                     .takes = {{Capability::other_order, "examples come in the order of the data"}},
                     .example = {"data.shuffle=false"}});
  options.push_back({.key = "data.augment",
                     .value = " with mixup or cutmix",
                     .is_used = config.data.augment.mixes(),
                     .needs = {{Capability::whole_batches, "it mixes each image with the next one of the batch"}},
                     .takes = {{Capability::single_classes, "a mixed example has several"}},
                     .example = {"data.augment={mixup: 0.2}"}});
  options.push_back({.key = "loss",
                     .value = " with class_weights or ignore_class",
                     .is_used = !config.loss.make()->counts_alike(),
                     .needs = {{Capability::single_classes, "the weight of a target is that of its class"}},
                     .takes = {{Capability::equal_weights, "it weights classes differently"}},
                     .example = {"loss={ignore_class: 0}"}});
  options.push_back({.key = "batch.ramp",
                     .is_used = !config.batch.ramp.empty(),
                     .needs = {{Capability::whole_batches, "batches grow"},
                               {Capability::run_loop, "it changes the number of examples"}},
                     .example = {"batch.ramp=[[3 steps, 24]]"}});
}

void add_watch(std::vector<Option>& options, const LossWatchConfig& watch) {
  using Action = LossWatchConfig::Action;
  options.push_back({.key = "loss_watch",
                     .is_used = watch.present,
                     .needs = {{Capability::common_steps, "it watches the losses of all ranks"}},
                     .example = {"loss_watch={}"}});
  options.push_back({.key = "loss_watch.on_anomaly",
                     .value = ": skip",
                     .is_used = watch.present && watch.on_anomaly == Action::skip,
                     .needs = {{Capability::forgotten_gradients, "it leaves steps out", "use rollback or stop"}},
                     .example = {"loss_watch.on_anomaly=skip"}});
  options.push_back({.key = "loss_watch.on_anomaly",
                     .value = ": rollback",
                     .is_used = watch.present && watch.on_anomaly == Action::rollback,
                     .needs = {{Capability::other_order, "it continues with other examples", "use skip or stop"}},
                     .example = {"loss_watch.on_anomaly=rollback", "checkpoint.every_steps=2"}});
}

/// Adds what is no key: the build, and who uses it.
void add_surroundings(std::vector<Option>& options) {
  options.push_back({.value = "a build for devices",
                     .is_used = memory_is_separate,
                     .takes = {{Capability::host_memory, "kernels compute in device memory", "use a build for CPUs"}}});
  options.push_back({.value = "a session of the library",
                     .takes = {{Capability::run_loop, "its program trains, evaluates and saves"}}});
}

}  // namespace

std::vector<Option> RunConfig::options() const {
  std::vector<Option> all = parallel.options();
  add_optimizers(all, optimizer);
  add_precisions(all, precision);
  add_batches(all, *this);
  add_watch(all, loss_watch);
  add_surroundings(all);
  return all;
}

void RunConfig::check_branch(Fields& fields) const {
  fields.check(run.branch_from.empty() || !model.weights.present, "run.branch_from",
               "cannot be combined with model.weights (a branch takes its parameters from the checkpoint); remove one "
               "of them");
}

void RunConfig::check_parallel(Fields& section) const {
  section.check(parallel.sums.wire != GradientSumConfig::Wire::fp16 || precision.scales_loss(), "wire",
                "sums of gradients overflow in fp16 unless a loss scale keeps them small; use bf16, or set "
                "precision.loss_scale");
  const ParallelConfig::Offload& offload = parallel.offload;
  section.check(!offload.present || !memory_is_separate || offload.is_to_memory(), "offload",
                "this build computes on devices, which cannot read the state from files; give optimizer: memory (the "
                "host's), or use a build for CPUs");
  section.check(!offload.is_to_memory() || memory_is_separate, "offload",
                "optimizer: memory is host memory, where this build computes, so nothing would be saved; give a folder "
                "on a disk (./memory for one of that name), or remove it");
}

void RunConfig::check_reaction(Fields& section) const {
  section.check(loss_watch.on_anomaly != LossWatchConfig::Action::rollback || checkpoint.regular(), "on_anomaly",
                "rollback needs checkpoints to go back to; set checkpoint.every_steps, every_epochs or every_minutes");
}

}  // namespace lockstep
