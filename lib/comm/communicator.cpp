// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/communicator.hpp"

#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <new>
#include <optional>

namespace lockstep {
namespace {

/// Counts of one MPI call are ints.
constexpr std::int64_t max_count = std::int64_t{1} << 30;

/// Inside a node, sums go in pieces that stay in the caches: 13 MB over 2 ranks take 3.1 ms in pieces of
/// 1 MB and 4.5 ms in one (Open MPI 5.0, Zen 3). Between nodes, more calls would mean more latency.
constexpr std::int64_t cached_count = std::int64_t{1} << 18;

MPI_Datatype mpi_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return MPI_FLOAT;
    case DType::f64: return MPI_DOUBLE;
    case DType::u8: return MPI_UINT8_T;
    case DType::i32: return MPI_INT32_T;
    case DType::i64: return MPI_INT64_T;
    case DType::bf16:
    case DType::f16: break;  // MPI does not know them
  }
  refuse_dtype(dtype, "a type that MPI knows");
}

/// Gives MPI a host address of the tensor's numbers: the tensor itself, or a copy around the call.
/// (An MPI that takes device addresses would not need it; it must not be assumed.)
template <class Call>
void on_host(const ExecSpace& space, const Tensor& tensor, Call call) {
  if constexpr (host_shares_memory) {
    space.fence("lockstep::communicator");
    call(static_cast<std::byte*>(tensor.data));
  } else {
    Kokkos::View<std::byte*, StagingSpace> staged(Kokkos::view_alloc("lockstep::staged", Kokkos::WithoutInitializing),
                                                  tensor.bytes());
    copy_to_host(space, tensor, staged.data());
    call(staged.data());
    copy_from_host(space, staged.data(), tensor);
  }
}

template <class Call>
void in_pieces(const Tensor& tensor, std::byte* data, std::int64_t piece, Call call) {
  for (std::int64_t done = 0; done < tensor.count(); done += piece)
    call(data + static_cast<std::size_t>(done) * size_of(tensor.dtype),
         static_cast<int>(std::min(piece, tensor.count() - done)));
}

}  // namespace

MpiSession::MpiSession(int& argc, char**& argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
}

MpiSession::~MpiSession() { MPI_Finalize(); }

Communicator Communicator::world() {
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
  int on_this_node = 0;
  MPI_Comm_size(node, &on_this_node);
  MPI_Comm_free(&node);
  return {rank, size, on_this_node == size};
}

void Communicator::barrier() const { MPI_Barrier(MPI_COMM_WORLD); }

void Communicator::broadcast(std::string& text) const {
  auto size = static_cast<std::int64_t>(text.size());
  MPI_Bcast(&size, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
  text.resize(static_cast<std::size_t>(size));
  validate(size <= max_count, ExitStatus::internal, "a text of {} bytes is too long to broadcast", size);
  MPI_Bcast(text.data(), static_cast<int>(size), MPI_CHAR, 0, MPI_COMM_WORLD);
}

void Communicator::broadcast(const ExecSpace& space, const Tensor& tensor) const {
  if (size_ == 1) return;
  on_host(space, tensor, [&](std::byte* data) {
    in_pieces(tensor, data, max_count,
              [&](std::byte* piece, int count) { MPI_Bcast(piece, count, mpi_type(tensor.dtype), 0, MPI_COMM_WORLD); });
  });
}

void Communicator::sum(std::span<double> values) const {
  MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

void Communicator::sum(const ExecSpace& space, const Tensor& tensor) const {
  if (size_ == 1) return;
  on_host(space, tensor, [&](std::byte* data) {
    in_pieces(tensor, data, on_one_node_ ? cached_count : max_count, [&](std::byte* piece, int count) {
      MPI_Allreduce(MPI_IN_PLACE, piece, count, mpi_type(tensor.dtype), MPI_SUM, MPI_COMM_WORLD);
    });
  });
}

std::int64_t Communicator::max(std::int64_t value) const {
  MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
  return value;
}

void Communicator::together(const std::function<void()>& work) const {
  std::optional<Error> failure;
  try {
    work();
  } catch (const Error& error) {
    failure = error;
  } catch (const std::bad_alloc&) {
    failure = Error(ExitStatus::internal, out_of_memory);
  } catch (const std::exception& error) {
    failure = Error(ExitStatus::internal,
                    fmt::format("{}; this is a fault of Lockstep, please report it", error.what()));
  }
  std::int64_t first = failure ? rank_ : size_;
  MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT64_T, MPI_MIN, MPI_COMM_WORLD);
  if (first == size_) return;

  // The lowest rank that failed tells the others what it would have said.
  std::int64_t header[2] = {0, 0};
  std::string message = failure ? failure->what() : "";
  if (first == rank_) {
    header[0] = static_cast<std::int64_t>(failure->status());
    header[1] = static_cast<std::int64_t>(message.size());
  }
  MPI_Bcast(header, 2, MPI_INT64_T, static_cast<int>(first), MPI_COMM_WORLD);
  message.resize(static_cast<std::size_t>(header[1]));
  MPI_Bcast(message.data(), static_cast<int>(header[1]), MPI_CHAR, static_cast<int>(first), MPI_COMM_WORLD);
  throw SharedError(static_cast<ExitStatus>(header[0]), message);
}

void Communicator::abort(ExitStatus status) const {
  MPI_Abort(MPI_COMM_WORLD, static_cast<int>(status));
  std::abort();
}

std::string mpi_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string version(text, static_cast<std::size_t>(length));
  return version.substr(0, version.find_first_of(",\n"));
}

}  // namespace lockstep
