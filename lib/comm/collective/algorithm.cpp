// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/collective/algorithm.hpp"

#include <cassert>

#include "comm/mpi_handle.hpp"

namespace lockstep {
namespace {

class LibraryAllReduce final : public Collective {
 public:
  LibraryAllReduce(const Communicator& ranks, const ReduceBuffer& buffer)
      : ranks_(ranks.duplicate()), buffer_(buffer) {}

  void start(std::int64_t first, std::int64_t count) override {
    const MpiLock lock;
    void* begin = static_cast<std::byte*>(buffer_.data) + static_cast<std::size_t>(first) * size_of(buffer_.dtype);
    expect_mpi(MPI_Iallreduce(MPI_IN_PLACE, begin, static_cast<int>(count), mpi_type(buffer_.dtype), MPI_SUM,
                              ranks_.mpi().comm, &request_));
  }
  bool advance() override { return has_ended(request_); }

 private:
  Communicator ranks_;
  ReduceBuffer buffer_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

/// The MPI library's all-reduce.
std::unique_ptr<Collective> library_all_reduce(const AllReduceParts& parts) {
  assert(!parts.topology.all.network());  // it sends its messages itself
  return std::make_unique<LibraryAllReduce>(parts.topology.all, parts.buffer);
}

// Values of a deck's parallel.all_reduce besides auto. docs/developer/add_an_all_reduce.md explains how to add one.
constexpr Algorithm table[] = {
    {.name = "mpi", .help = "the MPI library's own", .make = library_all_reduce, .by_library = true},
    {.name = "ring",
     .help = "slices travel around a ring of ranks",
     .all_reduce = ring_all_reduce,
     .reduce_scatter = ring_reduce_scatter,
     .all_gather = ring_all_gather},
    {.name = "halving_doubling",
     .help = "recursive halving and doubling",
     .all_reduce = halving_doubling_all_reduce,
     .reduce_scatter = halving_reduce_scatter,
     .all_gather = doubling_all_gather},
    {.name = "tree", .help = "up a binary tree of ranks and down again", .all_reduce = tree_all_reduce},
    {.name = "hierarchical",
     .help = "in the shared memory of each node, then between nodes",
     .make = hierarchical_all_reduce,
     .in_node_memory = true},
    {.name = "nccl", .help = "NCCL or RCCL, between GPUs", .in_device_memory = true},
};

}  // namespace

std::span<const Algorithm> algorithms() { return table; }

const Algorithm* find_algorithm(std::string_view name) {
  const auto found = std::ranges::find(table, name, &Algorithm::name);
  return found == std::end(table) ? nullptr : found;
}

bool sums_in_node_memory(const Algorithm* algorithm) { return !algorithm || algorithm->in_node_memory; }

bool sums_can_be_divided(const Algorithm* algorithm) {
  return !algorithm || algorithm->reduce_scatter || algorithm->in_node_memory;
}

std::vector<std::string_view> algorithm_names(const std::function<bool(const Algorithm&)>& is_wanted) {
  std::vector<std::string_view> names;
  for (const Algorithm& algorithm : table)
    if (is_wanted(algorithm)) names.push_back(algorithm.name);
  return names;
}

std::unique_ptr<Collective> all_reduce(const Algorithm& algorithm, const AllReduceParts& parts) {
  if (algorithm.make) return algorithm.make(parts);
  return all_reduce(algorithm, make_transport(parts.topology.all), parts.buffer, parts.options.wire);
}

}  // namespace lockstep
