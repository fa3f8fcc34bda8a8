// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "core/dtype.hpp"

// The measurements of `lockstep bench`, which print their results.
namespace lockstep {

/// Receives each line as soon as it is known.
using Print = std::function<void(const std::string& line)>;

/// Prints the peak of multiply-adds of one core, and the bandwidth of its memory.
void bench_peak(const Print& print);

/// Print the GFLOP/s and the share of the peak that each provider reaches in the presets' large inner products and
/// convolutions: the best of runs of about a second. Convolutions count their padding, which a library may skip: hence
/// shares above 100 %.
void bench_inner_products(const std::vector<DType>& types, std::int64_t batch, const Print& print);
void bench_convolutions(const std::vector<DType>& types, std::int64_t batch, const Print& print);

/// Prints a table of the kernels that are bound by memory: the rate of the bytes that each has to read and write, as a
/// share of the rate of a copy that is measured in turns with it. Tensors are larger than caches.
void bench_kernels(const std::vector<DType>& types, const Print& print);

/// Prints a table of a step of each optimizer on 25 million parameters in fp32: its milliseconds, and the rate of the
/// bytes that it has to read and write, as a share of the rate of a copy that is measured in turns with it.
void bench_optimizers(const std::function<void(const std::string&)>& print);

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
