// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "run/deck/run_config.hpp"
#include "scaling/machine.hpp"

namespace lockstep {

struct MachineBench {
  std::string save;                   ///< file to write; empty: none
  bool overwrite = false;             ///< whether to replace an existing file
  std::vector<std::int64_t> batches;  ///< examples a rank in the measured steps; empty: powers of four up to the most
                                      ///< that a rank computes at once
  double seconds = 2;                 ///< time for measuring each of them
};

/// A deck's network, and the batches for which its steps are measured.
struct NetworkToMeasure {
  MeasuredStep network;  ///< description of the network, without times
  std::vector<std::int64_t> batches;

  /// Throws what reading the deck's data throws, and bad_usage for batches that are larger than the data.
  NetworkToMeasure(const RunConfig& deck, const MachineBench& options);
};

/// Measures what predictions need, on at least two ranks, on one node or on several. Measures steps as well if a deck
/// is given. Prints a line for each measurement, and saves the machine. Collective.
void measure_machine(const Communicator& comm, const std::optional<RunConfig>& deck, const MachineBench& options,
                     const std::function<void(const std::string&)>& print);

// Parts of measure_machine, in order. All are collective.

/// Measures products, memory, copies between device and host, and the fixed time of a step, of a rank while the other
/// ranks of its node do the same.
void measure_compute(const Communicator& comm, const std::vector<Precision>& precisions, Machine& machine);
/// Measures steps of a deck on all ranks at the same time, each by itself. The times of these steps also give the
/// noise.
void measure_steps(const Communicator& comm, const RunConfig& deck, const NetworkToMeasure& steps, double seconds,
                   Machine& machine);
/// Measures messages, sums, and the disk that holds the file `save` (empty: no disk).
void measure_exchange(const Communicator& comm, const std::string& save, Machine& machine);

/// Mean over ranks. Collective.
double mean_of(const Communicator& comm, double value);

}  // namespace lockstep
