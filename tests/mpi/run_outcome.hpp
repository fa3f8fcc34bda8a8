// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lockstep::test {

/// What a run has left.
struct RunOutcome {
  std::map<std::string, std::string> rows;  ///< by step and split; without what is measured in seconds
  std::string failure;
  std::int64_t steps, applied;
  std::vector<std::uint8_t> parameters, states;
};

/// Runs a deck, given as text, to its end. Collective.
RunOutcome train_to_the_end(const std::string& deck);

/// They are the same bit for bit, but for rows that only `all` has.
void expect_the_same(const RunOutcome& some, const RunOutcome& all);

}  // namespace lockstep::test
