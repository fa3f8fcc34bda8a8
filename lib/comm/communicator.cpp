// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/communicator.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <limits>
#include <new>
#include <numeric>
#include <optional>

#include "base/heartbeat.hpp"
#include "comm/mpi_handle.hpp"

namespace lockstep {

bool may_release() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  return finalized == 0 && std::uncaught_exceptions() == 0;
}

std::mutex& mpi_lock() {
  static std::mutex lock;
  return lock;
}

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

namespace {

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

namespace {

bool started_by_a_launcher() {
  return std::ranges::any_of(std::array{"PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK"},
                             [](const char* name) { return std::getenv(name) != nullptr; });
}

}  // namespace

MpiSession::MpiSession(int& argc, char**& argv) {
  // A process alone has nobody to send to, and Open MPI would leave 16 MB of shared memory behind for that.
  if (!started_by_a_launcher()) ::setenv("OMPI_MCA_btl", "self", 1);
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
}

bool mpi_serves_threads() {
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  return level >= MPI_THREAD_SERIALIZED;
}

MpiSession::~MpiSession() { MPI_Finalize(); }

Communicator::Communicator(std::shared_ptr<MpiHandle> mpi) : mpi_(std::move(mpi)) {
  MPI_Comm_rank(mpi_->comm, &rank_);
  MPI_Comm_size(mpi_->comm, &size_);
}

Communicator Communicator::world() { return Communicator(std::make_shared<MpiHandle>(MPI_COMM_WORLD)); }

Communicator Communicator::duplicate() const {
  const WaitsForRanks waits;
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Comm_dup(mpi_->comm, &copy);
  return Communicator(std::make_shared<MpiHandle>(copy));
}

Communicator Communicator::split(int number) const {
  const WaitsForRanks waits;
  MPI_Comm part = MPI_COMM_NULL;
  MPI_Comm_split(mpi_->comm, number, rank_, &part);
  return Communicator(std::make_shared<MpiHandle>(part));
}

Communicator Communicator::on_this_node() const {
  const WaitsForRanks waits;
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split_type(mpi_->comm, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node);
  return Communicator(std::make_shared<MpiHandle>(node));
}

void Communicator::barrier() const {
  const WaitsForRanks waits;
  MPI_Barrier(mpi_->comm);
}

void Communicator::broadcast(std::string& text, int from) const {
  const WaitsForRanks waits;
  auto size = static_cast<std::int64_t>(text.size());
  MPI_Bcast(&size, 1, MPI_INT64_T, from, mpi_->comm);
  text.resize(static_cast<std::size_t>(size));
  validate(size <= max_mpi_count, ExitStatus::internal, "a text of {} bytes is too long to broadcast", size);
  MPI_Bcast(text.data(), static_cast<int>(size), MPI_CHAR, from, mpi_->comm);
}

void Communicator::broadcast(const ExecSpace& space, const Tensor& tensor) const {
  if (size_ == 1) return;
  on_host(space, tensor, [&](std::byte* data) {
    const WaitsForRanks waits;
    in_pieces(tensor, data, max_mpi_count,
              [&](std::byte* piece, int count) { MPI_Bcast(piece, count, mpi_type(tensor.dtype), 0, mpi_->comm); });
  });
}

void Communicator::broadcast(std::span<double> values) const {
  const WaitsForRanks waits;
  MPI_Bcast(values.data(), static_cast<int>(values.size()), MPI_DOUBLE, 0, mpi_->comm);
}

void Communicator::broadcast(std::span<std::byte> bytes) const {
  const WaitsForRanks waits;
  for (std::size_t done = 0, count = 0; done < bytes.size(); done += count) {
    count = std::min<std::size_t>(bytes.size() - done, max_mpi_count);
    MPI_Bcast(bytes.data() + done, static_cast<int>(count), MPI_BYTE, 0, mpi_->comm);
  }
}

void Communicator::sum(std::span<double> values) const {
  const WaitsForRanks waits;
  // No MPI_Allreduce: it may leave other bits on each rank.
  MPI_Reduce(is_root() ? MPI_IN_PLACE : values.data(), is_root() ? values.data() : nullptr,
             static_cast<int>(values.size()), MPI_DOUBLE, MPI_SUM, 0, mpi_->comm);
  broadcast(values);
}

void Communicator::sum(const ExecSpace& space, const Tensor& tensor) const {
  if (size_ == 1) return;
  on_host(space, tensor, [&](std::byte* data) {
    const WaitsForRanks waits;
    in_pieces(tensor, data, max_mpi_count, [&](std::byte* piece, int count) {
      MPI_Allreduce(MPI_IN_PLACE, piece, count, mpi_type(tensor.dtype), MPI_SUM, mpi_->comm);
    });
  });
}

std::int64_t Communicator::max(std::int64_t value) const {
  const WaitsForRanks waits;
  MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT64_T, MPI_MAX, mpi_->comm);
  return value;
}

std::vector<std::int64_t> Communicator::gather(std::int64_t value) const {
  const WaitsForRanks waits;
  std::vector<std::int64_t> values(static_cast<std::size_t>(size_));
  MPI_Allgather(&value, 1, MPI_INT64_T, values.data(), 1, MPI_INT64_T, mpi_->comm);
  return values;
}

std::vector<std::string> Communicator::gather(const std::string& text) const {
  const std::vector<std::int64_t> sizes = gather(static_cast<std::int64_t>(text.size()));
  std::vector<int> counts(sizes.begin(), sizes.end()), places(sizes.size());
  std::exclusive_scan(counts.begin(), counts.end(), places.begin(), 0);
  std::string all(is_root() ? static_cast<std::size_t>(places.back() + counts.back()) : 0, '\0');
  const WaitsForRanks waits;
  MPI_Gatherv(text.data(), static_cast<int>(text.size()), MPI_CHAR, all.data(), counts.data(), places.data(), MPI_CHAR,
              0, mpi_->comm);
  std::vector<std::string> texts;
  for (std::size_t i = 0; is_root() && i < counts.size(); ++i)
    texts.push_back(all.substr(static_cast<std::size_t>(places[i]), static_cast<std::size_t>(counts[i])));
  return texts;
}

std::string Communicator::to_root(const std::string& text, int from) const {
  if (from == 0) return is_root() ? text : "";
  const WaitsForRanks waits;
  if (rank_ == from) MPI_Send(text.data(), static_cast<int>(text.size()), MPI_CHAR, 0, 0, mpi_->comm);
  if (!is_root()) return "";
  MPI_Status status;
  MPI_Probe(from, 0, mpi_->comm, &status);
  int size = 0;
  MPI_Get_count(&status, MPI_CHAR, &size);
  std::string received(static_cast<std::size_t>(size), '\0');
  MPI_Recv(received.data(), size, MPI_CHAR, from, 0, mpi_->comm, MPI_STATUS_IGNORE);
  return received;
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
  const WaitsForRanks waits;
  std::int64_t first = failure ? rank_ : size_;
  MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT64_T, MPI_MIN, mpi_->comm);
  if (first == size_) return;

  // The lowest rank that failed tells the others what it would have said.
  std::int64_t header[2] = {0, 0};
  std::string message = failure ? failure->what() : "";
  if (first == rank_) {
    header[0] = static_cast<std::int64_t>(failure->status());
    header[1] = static_cast<std::int64_t>(message.size());
  }
  MPI_Bcast(header, 2, MPI_INT64_T, static_cast<int>(first), mpi_->comm);
  message.resize(static_cast<std::size_t>(header[1]));
  MPI_Bcast(message.data(), static_cast<int>(header[1]), MPI_CHAR, static_cast<int>(first), mpi_->comm);
  throw SharedError(static_cast<ExitStatus>(header[0]), message);
}

void Communicator::abort(ExitStatus status) const {
  MPI_Abort(MPI_COMM_WORLD, static_cast<int>(status));
  std::abort();
}

std::string host_name() {
  char name[MPI_MAX_PROCESSOR_NAME];
  int length = 0;
  MPI_Get_processor_name(name, &length);
  return {name, static_cast<std::size_t>(length)};
}

std::string mpi_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string version(text, static_cast<std::size_t>(length));
  return version.substr(0, version.find_first_of(",\n"));
}

}  // namespace lockstep
