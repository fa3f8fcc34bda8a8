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
  std::string save;                   ///< file to make; empty: none
  bool overwrite = false;             ///< a file of that name is replaced
  std::vector<std::int64_t> batches;  ///< of the deck's steps, a rank; empty: powers of four up to the deck's batch
  double seconds = 2;                 ///< that each of them is measured for
};

/// A deck's network, and the batches that its steps are measured with.
struct StepsToMeasure {
  MeasuredStep network;  ///< without times
  std::vector<std::int64_t> batches;

  /// Throws what reading the deck's data throws, and bad_usage for batches that they do not have.
  StepsToMeasure(const RunConfig& deck, const MachineBench& options);
};

/// Measures what predictions need, on the ranks that it is started with: on at least two, of one node or of several.
/// With a deck its steps are measured too. Prints a line for each, and saves the machine. Collective.
void measure_machine(const Communicator& comm, const std::optional<RunConfig>& deck, const MachineBench& options,
                     const std::function<void(const std::string&)>& print);

// Parts of it, in their order. `node`: of these ranks. Collective.

/// Products and memory of a rank, while the others of its node do the same.
void measure_compute(const Communicator& comm, const std::vector<Precision>& precisions, Machine& machine);
/// Steps of a deck, of each rank by itself but all at the same time; the same steps give the noise.
void measure_steps(const Communicator& comm, const RunConfig& deck, const StepsToMeasure& steps, double seconds,
                   Machine& machine);
/// Messages, sums, and the disk that has the file `save`; empty: no disk.
void measure_exchange(const Communicator& comm, const std::string& save, Machine& machine);

/// The mean over ranks.
double mean_of(const Communicator& comm, double value);

}  // namespace lockstep
