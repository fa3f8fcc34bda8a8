// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/config/gradient_sum_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "comm/collective/algorithm.hpp"

namespace lockstep {
namespace {

bool sends_messages(const Algorithm& algorithm) { return algorithm.all_reduce != nullptr; }

/// Describes a key that names one of some algorithms, or auto.
void choose(Fields& fields, std::string_view key, const Algorithm*& chosen, std::vector<std::string_view> names,
            const std::string& help) {
  names.insert(names.begin(), "auto");
  int index = chosen ? static_cast<int>(std::ranges::find(names, chosen->name) - names.begin()) : 0;
  fields.choice(key, index, names, help);
  chosen = find_algorithm(names[static_cast<std::size_t>(index)]);
}

std::string all_reduce_help() {
  std::string help = "all-reduce algorithm that sums gradients over ranks: ";
  for (const Algorithm& algorithm : algorithms()) help += fmt::format("{} ({}), ", algorithm.name, algorithm.help);
  return help +
         "or auto: nccl where it can be used, else hierarchical, or the fastest in all_reduce_table for the size of a "
         "bucket";
}

}  // namespace

SumOptions GradientSumConfig::options() const {
  static constexpr DType types[] = {DType::f32, DType::bf16, DType::f16};
  return {.all_reduce = all_reduce,
          .wire = types[static_cast<std::size_t>(wire)],
          .between_nodes = between_nodes,
          .leaders = leaders};
}

void GradientSumConfig::describe(Fields& fields) {
  static constexpr std::string_view overlaps[] = {"auto", "none", "poll", "thread"};
  static constexpr std::string_view wires[] = {"fp32", "bf16", "fp16"};
  fields.number("bucket_mb", bucket_mb, {0.001, 1024},
                "size in megabytes of the buckets in which gradients are summed over ranks; the first and the last "
                "bucket have 1 MB at most");
  choose(fields, "all_reduce", all_reduce, algorithm_names([](const Algorithm&) { return true; }), all_reduce_help());
  fields.path(
      "all_reduce_table", all_reduce_table,
      "file made by lockstep bench allreduce --save, which tells auto the fastest algorithm for each size in bytes");
  choose(fields, "between_nodes", between_nodes, algorithm_names(sends_messages),
         "algorithm of hierarchical sums between nodes (auto: the fastest for the number of nodes and the size)");
  fields.integer_or("leaders", leaders, "auto", at_least_one,
                    "number of ranks of each node that take part in hierarchical sums between nodes (auto: up to 4)");
  fields.choice("wire", wire, wires,
                "type in which gradients are sent between ranks that share no memory (with precision.compute: fp64 "
                "always fp64); they are added in fp32, except by nccl, which also adds in 16 bits");
  fields.choice("overlap", overlap, overlaps,
                "how sums overlap the backward pass: poll (advanced between layers), thread (by a second thread), none "
                "(after the pass); auto: the fastest of these in the first steps, but none on a single node of CPUs, "
                "whose cores would do both");
}

}  // namespace lockstep
