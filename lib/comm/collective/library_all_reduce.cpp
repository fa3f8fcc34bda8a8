// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cassert>

#include "comm/collective/algorithm.hpp"
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

}  // namespace

std::unique_ptr<Collective> library_all_reduce(const AllReduceParts& parts) {
  assert(!parts.topology.all.network());  // it sends its messages itself
  return std::make_unique<LibraryAllReduce>(parts.topology.all, parts.buffer);
}

}  // namespace lockstep
