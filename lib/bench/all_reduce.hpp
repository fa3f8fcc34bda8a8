// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/products.hpp"
#include "comm/communicator.hpp"

namespace lockstep {

struct AllReduceBench {
  std::vector<std::int64_t> bytes{4'096, 65'536, 1 << 20, 16 << 20, 64 << 20};  ///< of each sum, fp32
  int rounds = 5;
  std::string save;  ///< file for the table that decks name in parallel.all_reduce_table; empty: none
  bool overwrite = false;
};

/// Times every all-reduce of the table, in turns, each as runs call it: medians over the rounds, of the slowest rank.
/// Collective.
void bench_all_reduce(const Communicator& comm, const AllReduceBench& options, const Print& print);

}  // namespace lockstep
