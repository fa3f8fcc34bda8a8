// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/collective/sum_options.hpp"
#include "config/fields.hpp"
#include "parallel/config/asynchronous_config.hpp"
#include "parallel/config/backup_config.hpp"
#include "parallel/config/compress_config.hpp"
#include "parallel/config/local_config.hpp"

namespace lockstep {

/// Of ParallelConfig::Shard, in the order of how much is divided.
inline constexpr std::string_view shard_names[] = {"none", "optimizer", "gradients", "parameters"};

/// The kinds of ParallelStrategy.
enum class StrategyKind {
  data,                 ///< DataParallel
  sharded,              ///< ShardedParallel
  local,                ///< LocalParallel
  simulated_gradients,  ///< SimulatedGradients
  simulated_workers,    ///< SimulatedWorkers
  free,                 ///< FreeParallel
};

/// The deck's `parallel` section.
struct ParallelConfig : Config {
  enum class Overlap { automatic, none, poll, thread };
  enum class Wire { fp32, bf16, fp16 };
  enum class Shard { none, optimizer, gradients, parameters };  ///< each divides what those before it do
  enum class Shares { equal, measured };

  double bucket_mb = 25, unit_mb = 25;
  double memory_gb = 0;                      ///< of a rank; 0: any
  std::string machine;                       ///< file, of which shard: auto predicts times; empty: none
  const Algorithm* all_reduce = nullptr;     ///< null: auto
  std::string all_reduce_table;              ///< file; empty: none
  const Algorithm* between_nodes = nullptr;  ///< of the leaders of nodes; null: auto
  std::optional<std::int64_t> leaders;       ///< none: as many as help
  Wire wire = Wire::fp32;
  Overlap overlap = Overlap::automatic;
  Shard shard = Shard::none;
  bool chooses_shard = false;  ///< auto: resolve_shard (train) says which; until then `shard` is none
  enum GroupWord : std::size_t { all, node };
  NumberOrWord shard_group;  ///< ranks that divide the model with each other; or a GroupWord
  bool share_parameters = true;
  std::int64_t prefetch = 1;
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
    std::string optimizer;   ///< folder, or the word
    std::string parameters;  ///< likewise; empty: they are in memory
    double block_mb = 16;
    /// Whether it is the word `memory`: that of the host.
    bool is_to_memory() const { return optimizer == "memory"; }
    /// `shard`: how the model is divided.
    void describe(Fields& fields, Shard shard);
  };
  Offload offload;
  /// Whether the values that ranks own are elsewhere, too.
  bool offloads_parameters() const {
    return offload.present && !offload.parameters.empty() && shard == Shard::parameters;
  }
  CompressConfig compress;
  AsynchronousConfig asynchronous;
  BackupConfig backup;
  /// How many of the ranks that run freely, the first ones, keep the parameters, and do nothing else.
  std::int64_t servers = 0;

  /// The one that so many ranks follow.
  StrategyKind strategy(int ranks) const;
  /// Whether it is one of the AsynchronousWorkers.
  bool has_workers() const { return runs_freely() || has_stepping_workers(); }
  /// Whether ranks are workers, each of which computes the gradient of one part of a batch after the other, and of the
  /// others waits for none.
  bool runs_freely() const { return asynchronous.free || backup.present; }
  /// The file of the order in which gradients are applied; empty: there is none.
  const std::string& record() const { return backup.present ? backup.record : asynchronous.record; }
  void leave_record_out() {
    asynchronous.record.clear();
    backup.record.clear();
  }
  /// Whether asynchronous workers do steps by themselves between reading parameters and giving away what they have
  /// changed (asynchronous local SGD), `local.every` of them.
  bool has_stepping_workers() const { return asynchronous.present && local.present; }
  Rounds rounds() const { return has_stepping_workers() ? Rounds{local.every, local.steps_by_speed} : Rounds{}; }
  /// Ranks that are one worker, which judges its steps by itself, where there are such.
  int ranks_of_worker(int ranks) const { return runs_freely() ? static_cast<int>(asynchronous.members(ranks)) : 1; }
  /// Where ranks run freely, how many workers there are, each a rank or a group of them. Throws KeyError
  /// (parallel.servers, or parallel.asynchronous.groups) where ranks cannot be divided so.
  int workers(int ranks) const;
  /// Of how many gradients an update is made. Throws KeyError (parallel.backup.ranks) where that would be none.
  std::int64_t gradients_of_update(int ranks) const;
  /// And how many equal parts a batch has.
  std::int64_t parts_of_batch(int ranks) const {
    return backup.present && backup.mode == BackupConfig::Mode::drop ? workers(ranks) : gradients_of_update(ranks);
  }

  /// The model is divided so, whatever the deck says.
  void take(Shard way) {
    shard = way;
    chooses_shard = false;
  }
  /// How gradients are summed.
  SumOptions sums() const;
  /// How many of so many ranks share batch_norm's mean and variance with each other; 1: each has its own.
  int ranks_of_statistics(int ranks) const {
    return sync_batch_norm ? static_cast<int>(std::min<std::int64_t>(group_size.value_or(ranks), ranks)) : 1;
  }
  /// Whether the other keys let ranks divide so much.
  bool allows(Shard wanted) const;
  /// Whether no rank has all gradients. (Fixed trees add up whole ones.)
  bool divides_gradients() const { return shard >= Shard::gradients && !deterministic.present; }
  /// Whether the ranks' shares of a batch may change.
  bool measures_shares() const { return shares == Shares::measured; }
  /// The most of `total` examples or shards that one of `ranks` ranks may come to have.
  std::int64_t largest_share(std::int64_t total, std::int64_t ranks) const {
    return std::min(total, share_limit() * ((total + ranks - 1) / ranks));
  }
  /// A share that a rank may come to have, in equal ones.
  std::int64_t share_limit() const { return measures_shares() ? 2 : 1; }
  /// Sums of so many shards in a fixed tree, and nothing else.
  static ParallelConfig in_fixed_tree(std::int64_t shards) {
    ParallelConfig config;
    config.deterministic = {.present = true, .shards = shards};
    return config;
  }
  /// Parts of each batch whose gradients are computed by themselves, and added in a fixed tree; 0: there are none.
  std::int64_t tree_leaves() const {
    if (deterministic.present) return deterministic.shards;
    const std::int64_t pieces = asynchronous.collect * asynchronous.recorded_members;
    return asynchronous.present && !asynchronous.free && !local.present && pieces > 1 ? pieces : 0;
  }
  void describe(Fields& fields) override;
  /// Keys that have no effect with this `shard`, for a warning: decks that try several ways to divide a model have
  /// them.
  std::vector<std::string> remarks() const;

 private:
  void describe_sums(Fields& fields);
  void describe_shard(Fields& fields);
  // Rules between keys:
  void check_own_sums(Fields& fields) const;
  void check_hierarchy(Fields& fields) const;
  void check_shard(Fields& fields) const;
  void check_free(Fields& fields) const;
  void check_local(Fields& fields) const;
  void check_compress(Fields& fields) const;
  void check_shares(Fields& fields) const;
  void check_workers(Fields& fields, std::string_view key) const;
};

}  // namespace lockstep
