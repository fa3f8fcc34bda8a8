// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/deck/other_names.hpp"

#include <algorithm>
#include <vector>

#include "run/deck/run_config.hpp"

namespace lockstep {
std::span<const OtherName> other_names_of_keys() {
  static constexpr std::string_view
      all_ranks = "examples per step, over all ranks",
      at_once = "the most examples that a rank computes at once; the number of micro-batches follows",
      follows = "it follows from batch.global, over all ranks, and batch.micro, the most that a rank computes at once",
      reads_ahead = "a thread of each rank reads ahead of the steps", from_input = "it follows from the layer's input";
  // clang-format off
  static constexpr OtherName names[] = {
      {"batch_size", "*", "batch.global", all_ranks},
      {"train_batch_size", "*", "batch.global", all_ranks},
      {"global_batch_size", "*", "batch.global", all_ranks},
      {"train_micro_batch_size_per_gpu", "*", "batch.micro", at_once},
      {"micro_batch_size", "*", "batch.micro", at_once},
      {"gradient_accumulation_steps", "*", "", follows},
      {"accumulate_grad_batches", "*", "", follows},
      {"fp16", "*", "precision.compute: fp16", ""},
      {"bf16", "*", "precision.compute: bf16", ""},
      {"amp", "*", "precision.compute: bf16, or fp16", ""},
      {"dtype", "*", "precision.compute", ""},
      {"tf32", "precision", "providers: {tf32: true}", ""},
      {"zero_optimization", "*", "parallel.shard: optimizer, gradients or parameters", "ZeRO's stages 1, 2 and 3"},
      {"zero", "*", "parallel.shard: optimizer, gradients or parameters", "ZeRO's stages 1, 2 and 3"},
      {"zero_stage", "*", "parallel.shard: optimizer, gradients or parameters", "ZeRO's stages 1, 2 and 3"},
      {"fsdp", "*", "parallel.shard: parameters", ""},
      {"sync_bn", "*", "parallel.sync_batch_norm", "true, when not given"},
      {"sync_batchnorm", "*", "parallel.sync_batch_norm", "true, when not given"},
      {"replicas", "parallel", "virtual_replicas", ""},
      {"emulate", "parallel", "--emulate-network latency_us=50,bandwidth_gbps=1,ranks_per_node=1 on the command line", ""},
      {"lr", "optimizer.groups.*", "learning_rate_scale", "it multiplies optimizer.learning_rate"},
      {"learning_rate", "optimizer.groups.*", "learning_rate_scale", "it multiplies optimizer.learning_rate"},
      {"lr", "*", "optimizer.learning_rate", ""},
      {"wd", "optimizer.groups.*", "weight_decay", ""},
      {"wd", "*", "optimizer.weight_decay", ""},
      {"eps", "*", "epsilon (of adafactor: epsilons)", ""},
      {"ema", "*", "optimizer.ema_decay", ""},
      {"gradient_clipping", "*", "optimizer.clip_norm", ""},
      {"gradient_clip_val", "*", "optimizer.clip_norm", ""},
      {"max_norm", "*", "optimizer.clip_norm", ""},
      {"max_grad_norm", "*", "optimizer.clip_norm", ""},
      {"step_size", "*", "schedule.every with its unit, as every: 30 epochs", ""},
      {"gamma", "schedule", "factor", ""},
      {"T_max", "*", "schedule.period with its unit, as period: 30 epochs", "to the end of the run, when not given"},
      {"eta_min", "*", "schedule.final_fraction", "a fraction of the learning rate"},
      {"warmup_steps", "*", "schedule.warmup with its unit, as warmup: 500 steps", ""},
      {"warmup_epochs", "*", "schedule.warmup with its unit, as warmup: 5 epochs", ""},
      {"warmup_ratio", "*", "schedule.warmup with its unit, as warmup: 5 epochs", ""},
      {"in_channels", "*", "", from_input},
      {"in_features", "*", "", from_input},
      {"out_channels", "*", "filters", ""},
      {"out_features", "*", "features", ""},
      {"num_embeddings", "*", "vocabulary", ""},
      {"embedding_dim", "*", "features", ""},
      {"p", "*.dropout", "rate", ""},
      {"path", "data", "file", ""},
      {"ignore_index", "*", "loss.ignore_class", "a number from 0 on that no class has, such as 255"},
      {"weight", "loss", "loss.class_weights", ""},
      {"num_workers", "*", "", reads_ahead},
      {"pin_memory", "*", "", reads_ahead},
      {"prefetch_factor", "*", "", reads_ahead},
      {"max_epochs", "*", "run.epochs", ""},
      {"num_epochs", "*", "run.epochs", ""},
      {"max_steps", "*", "run.steps", ""},
      {"manual_seed", "*", "run.seed", "of all ranks"},
      {"early_stopping", "*", "run.patience, as patience: {metric: validation_loss, evaluations: 5}", ""},
      {"save_top_k", "*", "checkpoint.keep_best, as keep_best: {metric: validation_accuracy, count: 3}", ""},
      {"levels", "parallel.compress", "", "with qsgd, which it belonged to", true},
      {"state", "parallel.local", "", "each group keeps the states of its optimizer", true},
      {"mix", "parallel.local", "", "groups take over the common parameters", true},
      {"momentum_every", "parallel.local", "", "with delayed_nesterov, which it belonged to", true},
      {"steps_by_speed", "parallel.local", "", "shares by speed are for synchronous steps: parallel.shares: measured", true},
      {"neighbours_every", "checkpoint", "checkpoint.every_minutes", "checkpoints are written while the next steps run", true},
      // Words instead of keys. They are recognised by the words that a key takes, or by the key's path.
      {"qsgd", "parallel.compress.method", "int8", "int8 has the same size and needs no random draws", true},
      {"dgc", "parallel.compress.method", "topk", "the optimizer applies its momentum to the sums of topk", true},
      {"slowmo", "parallel.local.outer", "nesterov", "nesterov has a momentum, too", true},
      {"elastic", "parallel.local.outer", "average, or nesterov", "groups begin each period with common parameters", true},
      {"delayed_nesterov", "parallel.local.outer", "nesterov, with as many gradients in an update as there are workers", "its momentum waited for them", true},
      {"bfloat16", "*", "bf16", ""},
      {"float16", "*", "fp16", ""},
      {"half", "*", "fp16", ""},
      {"float32", "*", "fp32", ""},
      {"float32", "*", "f32", ""},
      {"float64", "*", "fp64", ""},
      {"double", "*", "fp64", ""},
      {"uint8", "*", "u8", ""},
      {"dense", "*", "linear", ""},
      {"multi_head_attention", "*", "attention", ""},
      {"bce", "loss.type", "binary_cross_entropy", ""},
      {"bce_with_logits", "loss.type", "binary_cross_entropy", ""},
      {"nll_loss", "loss.type", "cross_entropy", ""},
      {"mse_loss", "loss.type", "mse", ""},
      {"l1_loss", "loss.type", "mae", ""},
      {"smooth_l1", "loss.type", "huber with delta: β, which is β times smooth_l1: divide the learning rate by β", ""},
      {"smooth_l1_loss", "loss.type", "huber with delta: β, which is β times smooth_l1: divide the learning rate by β", ""},
      {"tf32", "precision.compute", "providers: {tf32: true}", ""},
  };
  // clang-format on
  return names;
}

bool MeantKey::is_path() const {
  return std::ranges::all_of(instead, [](char c) { return (c >= 'a' && c <= 'z') || c == '_' || c == '.'; });
}

std::optional<MeantKey> meant_key(std::string_view name) {
  for (const OtherName& other : other_names_of_keys())
    if (other.name == name && (other.section.empty() || other.section == "*") &&
        (other.instead.empty() || other.instead.find('.') != std::string_view::npos))
      return MeantKey{std::string(other.instead), std::string(other.why)};
  RunConfig config;
  std::vector<std::string> paths = paths_of_key(config, name);
  std::erase(paths, name);
  if (paths.size() != 1) return std::nullopt;
  return MeantKey{paths.front(), ""};
}

}  // namespace lockstep
