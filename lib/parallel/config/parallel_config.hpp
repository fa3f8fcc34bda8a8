// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/capabilities.hpp"
#include "config/fields.hpp"
#include "parallel/config/asynchronous_config.hpp"
#include "parallel/config/backup_config.hpp"
#include "parallel/config/compress_config.hpp"
#include "parallel/config/gradient_sum_config.hpp"
#include "parallel/config/local_config.hpp"
#include "parallel/config/shard_config.hpp"

namespace lockstep {

/// How ranks share the work of a step, or do steps by themselves.
enum class StrategyKind {
  data,                 ///< DataParallel
  sharded,              ///< ShardedParallel
  simulated_gradients,  ///< SimulatedGradients
  simulated_workers,    ///< workers with a SimulatedExchange
  free,                 ///< workers with a FreeExchange
};

/// The deck's `parallel` section.
struct ParallelConfig : Config {
  enum class Shares { equal, measured };

  GradientSumConfig sums;
  ShardConfig sharding;
  bool sync_batch_norm = true;
  std::optional<std::int64_t> group_size;  ///< none: all ranks
  std::int64_t virtual_replicas = 1;
  Shares shares = Shares::equal;
  std::int64_t audit_every = 0;
  bool survive = false;
  struct Deterministic {
    bool present = false;
    std::int64_t shards = 8;

    void describe(Fields& fields);
  };
  Deterministic deterministic;
  LocalConfig local;
  struct Offload {
    bool present = false;
    std::string optimizer;   ///< path of a folder, or `memory`
    std::string parameters;  ///< the same, or empty: parameters stay in memory
    double block_mb = 16;
    /// Whether `optimizer` is the word `memory`, which means host memory.
    bool is_to_memory() const { return optimizer == "memory"; }
    /// `shard` says how the model is divided.
    void describe(Fields& fields, Shard shard);
  };
  Offload offload;
  /// Whether the values that ranks own are offloaded too.
  bool offloads_parameters() const {
    return offload.present && !offload.parameters.empty() && sharding.shard == Shard::parameters;
  }
  CompressConfig compress;
  AsynchronousConfig asynchronous;
  BackupConfig backup;
  /// Number of the ranks, the first ones, that keep the parameters of free-running ranks and do nothing else.
  std::int64_t servers = 0;

  /// Returns the strategy that so many ranks follow.
  StrategyKind strategy(int ranks) const;
  /// Whether ranks, or groups of them, are workers that do steps by themselves.
  bool has_workers() const { return runs_freely() || has_stepping_workers(); }
  /// Whether ranks are workers, each of which computes the gradient of one part of a batch after the other and waits
  /// for no other worker.
  bool runs_freely() const { return asynchronous.free || backup.present; }
  /// Path of the record of the order in which gradients are applied; empty: there is none.
  const std::string& record() const { return backup.present ? backup.record : asynchronous.record; }
  void leave_record_out() {
    asynchronous.record.clear();
    backup.record.clear();
  }
  /// Whether asynchronous workers do `local.every` steps by themselves between reading parameters and giving what they
  /// have changed (asynchronous local SGD).
  bool has_stepping_workers() const { return asynchronous.present && local.present; }
  /// Whether groups of ranks train by themselves, and synchronize from time to time (GroupExchange).
  bool synchronizes_groups() const { return local.present && !asynchronous.present; }
  /// Steps of a round, after which a worker gives what it has changed; a gradient is a round of one step.
  std::int64_t steps_of_round() const { return has_stepping_workers() ? local.every : 1; }
  /// Number of ranks that form a worker, which judges its steps by itself; 1 if ranks do not run freely.
  int ranks_of_worker(int ranks) const { return runs_freely() ? static_cast<int>(asynchronous.members(ranks)) : 1; }
  /// Number of workers if ranks run freely; each is a rank or a group of ranks. Throws KeyError (parallel.servers, or
  /// parallel.asynchronous.groups) if ranks cannot be divided so.
  int workers(int ranks) const;
  /// Number of gradients in an update. Throws KeyError (parallel.backup.ranks) if that would be none.
  std::int64_t gradients_of_update(int ranks) const;
  /// Number of equal parts of a batch.
  std::int64_t parts_of_batch(int ranks) const {
    return backup.present && backup.mode == BackupConfig::Mode::drop ? workers(ranks) : gradients_of_update(ranks);
  }

  /// Number of ranks, out of `ranks`, that share batch_norm's mean and variance with each other; 1: each has its own.
  int ranks_of_statistics(int ranks) const {
    return sync_batch_norm ? static_cast<int>(std::min<std::int64_t>(group_size.value_or(ranks), ranks)) : 1;
  }
  /// Whether the other keys of the deck let ranks divide so much.
  bool allows(Shard wanted) const;
  /// Whether the ranks' shares of a batch may change.
  bool measures_shares() const { return shares == Shares::measured; }
  /// Largest number of examples or shards, out of `total`, that one of `ranks` ranks may come to have.
  std::int64_t largest_share(std::int64_t total, std::int64_t ranks) const {
    return std::min(total, share_limit() * ((total + ranks - 1) / ranks));
  }
  /// Largest share that a rank may come to have, in multiples of an equal share.
  std::int64_t share_limit() const { return measures_shares() ? 2 : 1; }
  /// Returns a config that sums so many shards in a fixed tree, and nothing else.
  static ParallelConfig in_fixed_tree(std::int64_t shards) {
    ParallelConfig config;
    config.deterministic = {.present = true, .shards = shards};
    return config;
  }
  /// Number of parts of each batch whose gradients are computed separately and added in a fixed tree; 0: there are
  /// none.
  std::int64_t tree_leaves() const {
    if (deterministic.present) return deterministic.shards;
    const bool simulates_gradients = asynchronous.present && !asynchronous.free && !local.present;
    const std::int64_t pieces = asynchronous.collect * asynchronous.recorded.members;
    return simulates_gradients && pieces > 1 ? pieces : 0;
  }
  /// Throws KeyError if so many ranks cannot train as this section says.
  void check_ranks(int ranks) const;
  /// Throws KeyError if so many ranks cannot compute the gradients of a network as this section says, and as the record
  /// of a replay. `takes_statistics`: the network has layers that take statistics over the examples of a batch.
  void check_passes(int ranks, bool takes_statistics) const;
  void describe(Fields& fields) override;
  /// All keys of this section, with what decides which others they go with (parallel_options.cpp).
  std::vector<Option> options() const;
  /// Says, for warnings, which keys of the deck have no effect with its way of training. One deck may serve several
  /// ways, so these keys are no error; they are read as if they were not given.
  std::vector<std::string> remarks() const;

 private:
  void leave_out_unused();
  void check(Fields& fields) const;

  std::vector<std::string> unused_;  ///< remarks on keys that were left out
};

}  // namespace lockstep
