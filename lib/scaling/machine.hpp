// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/fields.hpp"
#include "train/training_config.hpp"

namespace lockstep {

/// Speed of messages: each takes latency + bytes / bandwidth.
struct LinkSpeed {
  double latency_us = 0;
  double bandwidth_gbps = 0;  ///< 10⁹ bytes a second

  void describe(Fields& fields);
  double seconds(double bytes) const { return 1e-6 * latency_us + bytes * 1e-9 / bandwidth_gbps; }
};

/// Speed of one rank in products of a size.
struct ProductSpeed {
  Precision precision = Precision::fp32;
  double mflop = 0, gflops = 0;

  void describe(Fields& fields);
};

/// A step of a network, measured on one rank while the other ranks of its node did the same.
struct MeasuredStep {
  // The network that was measured:
  std::int64_t parameters = 0;
  double mflop_per_example = 0;
  Precision precision = Precision::fp32;
  std::string optimizer;
  // The batch, and the times of its step:
  std::int64_t examples = 0;
  double forward_ms = 0, backward_ms = 0, optimizer_ms = 0, other_ms = 0;

  void describe(Fields& fields);
};

/// A point of a distribution: this share of all steps takes at most `factor` times the median.
struct NoisePoint {
  double share = 0, factor = 1;

  void describe(Fields& fields);
};

/// Description of a machine for predictions, as `lockstep bench machine --save` or a user writes it.
struct Machine : Config {
  std::string name;
  std::int64_t ranks_per_node = 1;
  std::optional<double> memory_gb;  ///< memory of a rank
  std::optional<double> node_hour_price;

  std::vector<ProductSpeed> products;  ///< for each precision, by rising mflop
  double memory_gbps = 0;              ///< rate at which a rank reads and writes while all ranks of its node do
  double step_us = 0;                  ///< fixed part of a step's time
  std::vector<MeasuredStep> measured;
  std::vector<NoisePoint> noise;  ///< distribution of the time that a rank computes; empty: it is constant

  LinkSpeed node;                   ///< between two ranks of a node
  LinkSpeed network;                ///< between two ranks of different nodes
  LinkSpeed sum;                    ///< a sum over the ranks of a node in shared memory; bytes: of one rank's gradients
  std::optional<double> node_gbps;  ///< most that all ranks of a node send together; none: no limit
  double reduce_gbps = 0;           ///< bytes of messages that a rank adds to its own numbers
  std::optional<double> host_copy_gbps;  ///< between a device and its host; none: kernels compute in host memory
  std::optional<double> disk_gbps;  ///< rate at which one rank of a node reads or writes files; none: files take no
                                    ///< time, and that of states on a disk is unknown

  void describe(Fields& fields) override;
  bool has_devices() const { return host_copy_gbps.has_value(); }
  std::int64_t nodes_of(std::int64_t ranks) const { return (ranks + ranks_per_node - 1) / ranks_per_node; }
};

/// Throws DeckError for errors in the file, and Error(missing_file).
Machine read_machine(const std::string& file);

/// Returns the mean time of the slowest of `ranks` ranks, in median times of one: the expected maximum of independent
/// draws. The distribution is linear between its points and constant beyond its ends. 1 without noise.
double slowest_of(std::span<const NoisePoint> noise, std::int64_t ranks);

/// Returns the distribution of these times of the same work, by points that are dense at its upper end.
std::vector<NoisePoint> noise_of(std::vector<double> seconds);

}  // namespace lockstep
