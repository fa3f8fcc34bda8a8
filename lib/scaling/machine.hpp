// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/fields.hpp"
#include "train/training_config.hpp"

namespace lockstep {

/// Messages: each takes latency + bytes / bandwidth.
struct LinkSpeed {
  double latency_us = 0;
  double bandwidth_gbps = 0;  ///< 10⁹ bytes a second

  void describe(Fields& fields);
  double seconds(double bytes) const { return 1e-6 * latency_us + bytes * 1e-9 / bandwidth_gbps; }
};

/// What one rank reaches in products of so many operations.
struct ProductSpeed {
  Precision precision = Precision::fp32;
  double mflop = 0, gflops = 0;

  void describe(Fields& fields);
};

/// Steps of a network that were measured on one rank, while the node's others did the same.
struct MeasuredStep {
  // The network that was measured:
  std::int64_t parameters = 0;
  double mflop_per_example = 0;
  Precision precision = Precision::fp32;
  std::string optimizer;
  // The batch, and how long its step took:
  std::int64_t examples = 0;
  double forward_ms = 0, backward_ms = 0, optimizer_ms = 0, other_ms = 0;

  void describe(Fields& fields);
};

/// A point of a distribution: this share of all steps takes at most `factor` times the median.
struct NoisePoint {
  double share = 0, factor = 1;

  void describe(Fields& fields);
};

/// A machine as predictions see it: what `lockstep bench machine --save` writes, or somebody from a data sheet.
struct Machine : Config {
  std::string name;
  std::int64_t ranks_per_node = 1;
  std::optional<double> memory_gb;  ///< of a rank
  std::optional<double> node_hour_price;

  std::vector<ProductSpeed> products;  ///< by rising mflop for each precision
  double memory_gbps = 0;              ///< that a rank reads and writes, while all ranks of its node do
  double step_us = 0;                  ///< of a step, whatever is computed in it
  std::vector<MeasuredStep> measured;
  std::vector<NoisePoint> noise;  ///< of the time that a rank computes; empty: none

  LinkSpeed node;                   ///< between two ranks of a node
  LinkSpeed network;                ///< between two ranks of different nodes
  LinkSpeed sum;                    ///< of the ranks of a node in their shared memory: bytes of one rank's gradients
  std::optional<double> node_gbps;  ///< most that all ranks of a node send together; none: no limit
  double reduce_gbps = 0;           ///< bytes of summands that a rank adds to its own
  std::optional<double> host_copy_gbps;  ///< between a device and its host; none: kernels compute in host memory
  std::optional<double> disk_gbps;  ///< that one rank of a node reads or writes; none: files take no time, and that of
                                    ///< states which are on a disk is not known

  void describe(Fields& fields) override;
  bool has_devices() const { return host_copy_gbps.has_value(); }
  std::int64_t nodes_of(std::int64_t ranks) const { return (ranks + ranks_per_node - 1) / ranks_per_node; }
};

/// Throws DeckError for what is wrong in the file, and Error(missing_file).
Machine read_machine(const std::string& file);

}  // namespace lockstep
