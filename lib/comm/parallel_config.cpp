// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/parallel_config.hpp"

namespace lockstep {

void ParallelConfig::describe(Fields& fields) {
  static constexpr std::string_view overlaps[] = {"auto", "none", "poll", "thread"};
  static constexpr std::string_view wires[] = {"fp32", "bf16", "fp16"};
  static constexpr std::string_view between[] = {"auto", "ring", "halving_doubling", "tree"};
  fields.number("bucket_mb", bucket_mb, {0.001, 1024},
                "gradients are summed over ranks in buckets of this many megabytes, the first one smaller");
  fields.choice("all_reduce", all_reduce, all_reduce_names,
                "algorithm of the sum; hierarchical adds up in a node's shared memory, and then between nodes; mpi is "
                "the MPI library's own; auto takes what is fastest for the ranks and the size of a bucket");
  fields.text("all_reduce_table", all_reduce_table,
              "file that lockstep bench allreduce --save has made: what auto takes for how many bytes");
  fields.choice("between_nodes", between_nodes, between, "algorithm of hierarchical sums between nodes");
  fields.integer_or("leaders", leaders, "auto", at_least_one,
                    "ranks of each node that take part in hierarchical sums between nodes");
  fields.choice(
      "wire", wire, wires,
      "type in which gradients travel between ranks that share no memory (of precision.compute fp64 always fp64); they are "
      "added in fp32 all the same");
  fields.choice(
      "overlap", overlap, overlaps,
      "how sums run beside the backward pass: advanced between layers (poll), by another thread, or not at all; "
      "auto tries them in the first steps, but not on one node, whose cores would do both");
  fields.boolean("sync_batch_norm", sync_batch_norm,
                 "whether batch_norm takes mean and variance of the examples of all ranks (in each micro-batch), "
                 "so that the number of ranks changes nothing; else each rank's of its own");
  fields.integer_or("group_size", group_size, "all", at_least_one,
                    "ranks that share batch_norm's mean and variance, one after the other in the order of ranks");
  fields.integer(
      "replicas", replicas, {1, 1 << 20},
      "replicas of each rank: its share is cut as that of so many ranks would be, and batch_norm, where it does "
      "not look at all ranks, looks at each part by itself");
  fields.integer(
      "audit_every", audit_every, not_negative,
      "steps between comparisons of the ranks' parameters and optimizer state, bit by bit, also made before each "
      "checkpoint; 0: none");
  fields.optional_section(
      "deterministic", deterministic.present,
      [this](Fields& section) {
        section.integer("shards", deterministic.shards, {1, 1 << 20},
                        "parts of each batch, whose gradients are computed by themselves; a multiple of the ranks");
      },
      "the same bits on any number of ranks that divides the shards: their gradients are added in a fixed tree");
  fields.optional_section(
      "emulate", emulate.present,
      [this](Fields& network) {
        network.number("latency_us", emulate.latency_us, not_negative, "least time of a message, in microseconds");
        network.number("bandwidth_gbps", emulate.bandwidth_gbps, not_negative,
                       "10^9 bytes a second of each wire between two ranks; 0: without limit");
        network.integer("ranks_per_node", emulate.ranks_per_node, {1, 1e6}, "ranks that share memory");
      },
      "for measuring: messages between nodes of so many ranks take at least the time that such a network needs");
  const std::pair<std::string_view, bool> of_no_use[] = {
      {"replicas", replicas != 1},
      {"all_reduce", all_reduce != AllReduceKind::automatic},
      {"all_reduce_table", !all_reduce_table.empty()},
      {"wire", wire != Wire::fp32},
      {"overlap", overlap != Overlap::automatic && overlap != Overlap::none},
      {"emulate", emulate.present},
  };
  for (const auto& [key, is_set] : of_no_use)
    fields.check(
        !deterministic.present || !is_set, key,
        "deterministic cuts batches and sums gradients in its own way, after the backward pass; leave one out");
  fields.check(wire == Wire::fp32 || all_reduce != AllReduceKind::mpi, "wire",
               "all_reduce: mpi adds in the type that travels; take another algorithm, or wire: fp32");
  fields.check(!emulate.present || all_reduce != AllReduceKind::mpi, "emulate",
               "all_reduce: mpi sends its messages itself; take another algorithm");
}

}  // namespace lockstep
