// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/products.hpp"
#include "comm/communicator.hpp"

namespace lockstep {

struct AllReduceBench {
  std::vector<std::int64_t> bytes{4'096, 65'536, 1 << 20, 16 << 20, 64 << 20};  ///< of one rank in each sum, fp32
  int rounds = 5;
  std::string save;  ///< file to write, a table for parallel.all_reduce_table of decks; empty: none
  bool overwrite = false;
};

/// Times every all-reduce of the table in turns, as runs call them, and prints medians over the rounds, of the slowest
/// rank. Collective.
void bench_all_reduce(const Communicator& comm, const AllReduceBench& options, const Print& print);

}  // namespace lockstep
