// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "run/deck/run_config.hpp"

namespace lockstep {

namespace {

void check_wire(const RunConfig& config, Fields& section) {
  section.check(config.parallel.sums.wire != GradientSumConfig::Wire::fp16 || config.precision.scales_loss(), "wire",
                "sums of gradients overflow in fp16 unless a loss scale keeps them small; use bf16, or set "
                "precision.loss_scale");
}

void check_shard(const RunConfig& config, Fields& section) {
  section.check(!config.parallel.sharding.divides() || config.optimizer.rule().divides(), "shard",
                config.optimizer.type +
                    " keeps averages of whole rows and columns, which cannot be sharded; use "
                    "another optimizer, or shard: none");
}

void check_asynchronous(const RunConfig& config, Fields& section) {
  const AsynchronousConfig& asynchronous = config.parallel.asynchronous;
  if (!asynchronous.present) return;
  section.check(!config.precision.scales_loss(), "asynchronous",
                "gradients of workers would have different loss scales (precision.loss_scale, which fp16 has); compute "
                "in bf16, or leave one out");
  section.check(!asynchronous.compensates() || config.optimizer.type == "sgd", "asynchronous",
                "staleness: compensate is an estimate for steps along the gradient, but " + config.optimizer.type +
                    " takes other steps; use sgd, or another staleness");
}

/// Checks what ranks need that wait for no other: backup ranks, or asynchronous workers with schedule.free.
void check_free_ranks(const RunConfig& config, Fields& section) {
  const ParallelConfig& parallel = config.parallel;
  const OptimizerConfig& optimizer = config.optimizer;
  if (!parallel.runs_freely()) return;
  const bool backs_up = parallel.backup.present;
  const auto refuse = [&](bool is_set, const std::string& why) {
    section.check(!is_set, backs_up ? "backup" : "asynchronous", (backs_up ? "" : "schedule: {free: true} ") + why);
  };
  refuse(memory_is_separate,
         "keeps the parameters in host memory, but this build computes on devices; use a build for CPUs, or leave it "
         "out");
  refuse(backs_up && config.precision.scales_loss(),
         "lets each rank check its own gradient, but gradients of a scaled loss (precision.loss_scale, which fp16 has) "
         "are checked by all ranks together; compute in bf16, or leave one out");
  const bool updates_parts = !parallel.has_stepping_workers();
  refuse(updates_parts && (!optimizer.rule().divides() || optimizer.type == "lars" || optimizer.type == "lamb"),
         "divides each update among ranks that do not wait for each other, but " + optimizer.type +
             " needs whole parameters; use another optimizer");
  refuse(updates_parts && optimizer.rule().clip_norm > 0,
         "gives each rank a part of an update, but optimizer.clip_norm needs the norm of the whole gradient; use "
         "clip_value, or leave one out");
  refuse(optimizer.averages(),
         "updates parameters between steps, but optimizer.ema_decay averages them after each step; leave one out");
  refuse(parallel.offload.present, "needs the optimizer's state in memory; leave parallel.offload out");
}

void check_local(const RunConfig& config, Fields& section) {
  section.check(!config.parallel.has_stepping_workers() || !memory_is_separate, "local",
                "with asynchronous workers keeps parameters in host memory, but this build computes on devices; use a "
                "build for CPUs, or leave one out");
  section.check(!config.parallel.local.present || !config.optimizer.averages(), "local",
                "gives each group of ranks its own moving average (optimizer.ema_decay), but evaluations need a single "
                "one; leave one out");
}

void check_offload(const RunConfig& config, Fields& section) {
  const OptimizerConfig& optimizer = config.optimizer;
  const ParallelConfig::Offload& offload = config.parallel.offload;
  section.check(!offload.present || optimizer.offloads(), "offload",
                optimizer.type + (optimizer.rule().divides()
                                      ? " has no state here that could be offloaded; remove it"
                                      : " keeps averages of whole rows and columns, which are small and span all "
                                        "blocks; remove it, or use another optimizer"));
  section.check(!offload.present || !memory_is_separate || offload.is_to_memory(), "offload",
                "this build computes on devices, which cannot read the state from files; give optimizer: memory (the "
                "host's), or use a build for CPUs");
  section.check(!offload.is_to_memory() || memory_is_separate, "offload",
                "optimizer: memory is host memory, where this build computes, so nothing would be saved; give a folder "
                "on a disk (./memory for one of that name), or remove it");
  section.check(!offload.present || !config.parallel.local.present, "offload",
                "local averages or resets states where groups synchronize, and needs them in memory; leave one out");
}

void check_compress(const RunConfig& config, Fields& section) {
  section.check(!config.parallel.compress.present || !config.precision.scales_loss(), "compress",
                "the compression error of a step whose scaled gradients overflow is lost; use precision.compute bf16 "
                "or fp32, without loss_scale, or leave compress out");
}

}  // namespace

void RunConfig::check_branch(Fields& fields) const {
  fields.check(run.branch_from.empty() || !model.weights.present, "run.branch_from",
               "cannot be combined with model.weights (a branch takes its parameters from the checkpoint); remove one "
               "of them");
}

void RunConfig::check_parallel(Fields& section) const {
  check_wire(*this, section);
  check_shard(*this, section);
  check_asynchronous(*this, section);
  check_free_ranks(*this, section);
  check_local(*this, section);
  check_offload(*this, section);
  check_compress(*this, section);
}

void RunConfig::check_reaction(Fields& section) const {
  const bool rolls_back = loss_watch.on_anomaly == LossWatchConfig::Action::rollback;
  section.check(!rolls_back || checkpoint.regular(), "on_anomaly",
                "rollback needs checkpoints to go back to; set checkpoint.every_steps, every_epochs or every_minutes");
  section.check(!rolls_back || data.shuffle, "on_anomaly",
                "rollback continues with the examples in another order, but data.shuffle is false; use skip or stop");
  section.check(!parallel.compress.keeps_errors() || loss_watch.on_anomaly != LossWatchConfig::Action::skip,
                "on_anomaly",
                "a skipped gradient would come back through parallel.compress.error_feedback; use rollback or stop");
}

void RunConfig::check_loss_watch(Fields& fields) const {
  fields.check(!loss_watch.present || !parallel.local.present, "loss_watch",
               "watches the losses of all ranks, but parallel.local lets groups of ranks train on their own; leave one "
               "out");
  fields.check(
      !loss_watch.present || !parallel.runs_freely(), "loss_watch",
      fmt::format("watches the losses of all ranks, but parallel.{} lets each rank train on its own; leave one "
                  "out",
                  parallel.backup.present ? "backup" : "asynchronous.schedule.free"));
}

}  // namespace lockstep
