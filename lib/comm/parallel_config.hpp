// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/fields.hpp"

namespace lockstep {

enum class AllReduceKind { automatic, mpi, ring, halving_doubling, tree, hierarchical };
inline constexpr std::string_view all_reduce_names[] = {"auto", "mpi",         "ring", "halving_doubling",
                                                        "tree", "hierarchical"};

/// An all-reduce, and the most bytes that it is for.
struct AllReduceRow {
  std::int64_t up_to;
  AllReduceKind kind;
};

/// The deck's `parallel` section.
struct ParallelConfig : Config {
  enum class Overlap { automatic, none, poll, thread };
  enum class Wire { fp32, bf16, fp16 };
  /// Of the leaders of nodes.
  enum class BetweenNodes { automatic, ring, halving_doubling, tree };
  struct Emulate {
    bool present = false;
    double latency_us = 0;
    double bandwidth_gbps = 0;
    std::int64_t ranks_per_node = 1;
  };

  double bucket_mb = 25;
  AllReduceKind all_reduce = AllReduceKind::automatic;
  std::string all_reduce_table;  ///< file; empty: none
  std::vector<AllReduceRow>
      measured;  ///< its rows by rising size, where there is one for these ranks; no key of the deck
  BetweenNodes between_nodes = BetweenNodes::automatic;
  std::optional<std::int64_t> leaders;  ///< none: as many as help
  Wire wire = Wire::fp32;
  Overlap overlap = Overlap::automatic;
  Emulate emulate;
  bool sync_batch_norm = true;
  std::optional<std::int64_t> group_size;  ///< none: all ranks
  std::int64_t replicas = 1;
  std::int64_t audit_every = 0;
  struct Deterministic {
    bool present = false;
    std::int64_t shards = 8;
  };
  Deterministic deterministic;

  /// Ranks that are taken for a node; 0: nodes are what they are.
  std::int64_t emulated_ranks_per_node() const { return emulate.present ? emulate.ranks_per_node : 0; }

  void describe(Fields& fields) override;
};

}  // namespace lockstep
