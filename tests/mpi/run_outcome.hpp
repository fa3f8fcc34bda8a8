// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lockstep::test {

/// The results of a run.
struct RunOutcome {
  std::map<std::string, std::string> rows;  ///< of the metrics, by step and split; without columns of measured times
  std::string failure;
  std::int64_t steps, applied;
  std::vector<std::uint8_t> parameters, states;
};

/// Runs a deck, given as text, to its end. Collective.
RunOutcome train_to_the_end(const std::string& deck);

/// Expects equal results, bit for bit, except for rows that only `all` has.
void expect_the_same(const RunOutcome& some, const RunOutcome& all);

}  // namespace lockstep::test
