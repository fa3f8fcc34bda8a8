// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/fields.hpp"

namespace lockstep {

/// What ranks divide among themselves: each divides what those before it do, and more.
enum class Shard { none, optimizer, gradients, parameters };
/// Names of Shard, in their order.
inline constexpr std::string_view shard_names[] = {"none", "optimizer", "gradients", "parameters"};

/// The keys of the deck's `parallel` section that say how ranks divide the model.
struct ShardConfig {
  enum GroupWord : std::size_t { all, node };

  Shard shard = Shard::none;
  bool chooses_shard = false;  ///< shard: auto, which resolve_shard (train) resolves; until then `shard` is none
  std::string machine;         ///< path of the file by which shard: auto predicts times; empty: none
  double unit_mb = 25;
  NumberOrWord shard_group;  ///< number of ranks that divide the model among them, or a GroupWord
  bool share_parameters = true;
  double memory_gb = 0;  ///< limit for a rank; 0: none
  std::int64_t prefetch = 1;

  /// Whether the model is divided.
  bool divides() const { return shard != Shard::none; }
  /// Divides the model in this way, whatever the deck says.
  void take(Shard way) {
    shard = way;
    chooses_shard = false;
  }
  void describe(Fields& fields);
  /// Says, for a warning, which keys have no effect with this `shard`; decks that try several ways to divide a model
  /// have such keys.
  std::vector<std::string> remarks() const;
};

}  // namespace lockstep
