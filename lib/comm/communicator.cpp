// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/communicator.hpp"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <optional>

#include "base/heartbeat.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "comm/mpi_handle.hpp"
#include "comm/spin_backoff.hpp"
#include "comm/surviving_ranks.hpp"

namespace lockstep {

bool may_release() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  return finalized == 0 && std::uncaught_exceptions() == 0 && !ranks_were_lost();
}

namespace {

std::recursive_mutex& mpi_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

}  // namespace

MpiLock::MpiLock() {
  if (mpi_mutex().try_lock()) return;
  const WaitsForRanks waits;
  mpi_mutex().lock();
}

MpiLock::~MpiLock() { mpi_mutex().unlock(); }

bool has_ended(MPI_Request& request) {
  const MpiLock lock;
  int ended = 0;
  expect_mpi(MPI_Test(&request, &ended, MPI_STATUS_IGNORE));
  return ended != 0;
}

MPI_Datatype mpi_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return MPI_FLOAT;
    case DType::f64: return MPI_DOUBLE;
    case DType::u8: return MPI_UINT8_T;
    case DType::i32: return MPI_INT32_T;
    case DType::i64: return MPI_INT64_T;
    case DType::bf16:
    case DType::f16: break;  // MPI has no such types
  }
  refuse_dtype(dtype, "a type that MPI knows");
}

namespace {

/// Waits for the request made by `start`. Unlike MPI_Wait, this does not keep a core busy that other ranks may share.
template <class Start>
void complete(Start start) {
  const WaitsForRanks waits;
  MPI_Request request = MPI_REQUEST_NULL;
  {
    const MpiLock lock;
    expect_mpi(start(&request));
  }
  wait_until([&] { return has_ended(request); });
}

template <class T>
T reduced(const Communicator& ranks, T value, MPI_Datatype type, MPI_Op operation) {
  if (ranks.size() > 1)
    complete([&](MPI_Request* request) {
      return MPI_Iallreduce(MPI_IN_PLACE, &value, 1, type, operation, ranks.mpi().comm, request);
    });
  return value;
}

}  // namespace

MpiSession::MpiSession(int& argc, char**& argv) {
  // A single process sends nothing, and Open MPI would otherwise leave 16 MB of shared memory behind.
  if (!launched_rank().by_launcher) ::setenv("OMPI_MCA_btl", "self", 1);
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
}

bool mpi_has_started() {
  int started = 0;
  MPI_Initialized(&started);
  return started != 0;
}

bool mpi_serves_threads() {
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  return level >= MPI_THREAD_SERIALIZED;
}

/// Open MPI 5 may wait in MPI_Finalize for lost ranks.
MpiSession::~MpiSession() {
  if (!ranks_were_lost()) MPI_Finalize();
}

Communicator::Communicator(std::shared_ptr<MpiHandle> mpi, std::shared_ptr<const Interconnect> network)
    : mpi_(std::move(mpi)), network_(std::move(network)) {
  MPI_Comm_rank(mpi_->comm, &rank_);
  MPI_Comm_size(mpi_->comm, &size_);
}

Communicator Communicator::world() { return Communicator(std::make_shared<MpiHandle>(MPI_COMM_WORLD)); }

Communicator Communicator::alone() { return Communicator(); }

Communicator communicator_of(MPI_Comm comm) {
  int finalized = 0;
  MPI_Finalized(&finalized);
  validate(mpi_has_started() && finalized == 0, ExitStatus::bad_usage,
           "MPI has {}; call MPI_Init_thread before, and MPI_Finalize after, everything that uses a communicator",
           finalized == 0 ? "not been initialized" : "been finalized");
  validate(comm != MPI_COMM_NULL, ExitStatus::bad_usage,
           "the communicator is MPI_COMM_NULL; give one that this process is in");
  int has_two_groups = 0;
  MPI_Comm_test_inter(comm, &has_two_groups);
  validate(has_two_groups == 0, ExitStatus::bad_usage,
           "the communicator is an intercommunicator; give one of all ranks that train together (MPI_Intercomm_merge)");
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Comm_dup(comm, &copy);
  MPI_Comm_set_errhandler(copy, MPI_ERRORS_ARE_FATAL);  // overridden by SurvivingRanks
  return Communicator::over_handle(std::make_shared<MpiHandle>(copy));
}

Communicator Communicator::duplicate() const {
  if (!mpi_) return alone();
  const WaitsForRanks waits;
  MPI_Comm copy = MPI_COMM_NULL;
  expect_mpi(MPI_Comm_dup(mpi_->comm, &copy));
  return Communicator(std::make_shared<MpiHandle>(copy), network_);
}

Communicator Communicator::split(int number) const {
  if (!mpi_) return alone();
  const WaitsForRanks waits;
  MPI_Comm part = MPI_COMM_NULL;
  expect_mpi(MPI_Comm_split(mpi_->comm, number, rank_, &part));
  return Communicator(std::make_shared<MpiHandle>(part), network_);
}

Communicator Communicator::on_this_node() const {
  if (!mpi_) return alone();
  const WaitsForRanks waits;
  MPI_Comm node = MPI_COMM_NULL;
  expect_mpi(MPI_Comm_split_type(mpi_->comm, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node));
  return Communicator(std::make_shared<MpiHandle>(node), network_);
}

Communicator Communicator::over(std::shared_ptr<const Interconnect> network) const {
  return Communicator(mpi_, std::move(network));
}

void Communicator::barrier() const {
  if (size_ == 1) return;
  complete([&](MPI_Request* request) { return MPI_Ibarrier(mpi_->comm, request); });
}

void Communicator::broadcast(std::string& text, int from) const {
  if (size_ == 1) return;
  auto size = static_cast<std::int64_t>(text.size());
  complete([&](MPI_Request* request) { return MPI_Ibcast(&size, 1, MPI_INT64_T, from, mpi_->comm, request); });
  text.resize(static_cast<std::size_t>(size));
  validate(size <= max_mpi_count, ExitStatus::internal, "a text of {} bytes is too long to broadcast", size);
  complete([&](MPI_Request* request) {
    return MPI_Ibcast(text.data(), static_cast<int>(size), MPI_CHAR, from, mpi_->comm, request);
  });
}

void Communicator::broadcast(const ExecSpace& space, const Tensor& tensor, int from) const {
  if (size_ == 1) return;
  if constexpr (memory_is_separate) {  // MPI need not support device addresses
    constexpr std::int64_t most = std::int64_t{1} << 24;
    std::vector<std::byte> staged(static_cast<std::size_t>(std::min(most, tensor.count())) * size_of(tensor.dtype));
    for (std::int64_t first = 0; first < tensor.count(); first += most) {
      const Tensor piece = flat_part(tensor, {first, std::min(most, tensor.count() - first)});
      if (rank_ == from) copy_to_host(space, piece, staged.data());
      broadcast(std::span(staged.data(), piece.bytes()), from);
      if (rank_ != from) copy_from_host(space, staged.data(), piece);
    }
  } else {
    space.fence("lockstep::broadcast");
    broadcast(std::span(static_cast<std::byte*>(tensor.data), tensor.bytes()), from);
  }
}

void Communicator::broadcast(std::span<double> values) const { broadcast(std::as_writable_bytes(values)); }

void Communicator::broadcast(std::span<std::byte> bytes, int from) const {
  if (size_ == 1) return;
  for_mpi_pieces(bytes.size(), [&](std::size_t first, int count) {
    complete([&](MPI_Request* request) {
      return MPI_Ibcast(bytes.data() + first, count, MPI_BYTE, from, mpi_->comm, request);
    });
  });
}

void Communicator::all_reduce_sum(std::span<double> values) const {
  if (size_ == 1) return;
  // Not by MPI_Iallreduce: contrary to the MPI standard, some libraries leave different bits on different ranks.
  for_mpi_pieces(values.size(), [&](std::size_t first, int count) {
    double* const piece = values.data() + first;
    complete([&](MPI_Request* request) {
      return MPI_Ireduce(is_root() ? MPI_IN_PLACE : piece, is_root() ? piece : nullptr, count, MPI_DOUBLE, MPI_SUM, 0,
                         mpi_->comm, request);
    });
  });
  broadcast(values);
}

std::int64_t Communicator::all_reduce_max(std::int64_t value) const {
  return reduced(*this, value, MPI_INT64_T, MPI_MAX);
}
double Communicator::all_reduce_max(double value) const { return reduced(*this, value, MPI_DOUBLE, MPI_MAX); }
std::int64_t Communicator::all_reduce_min(std::int64_t value) const {
  return reduced(*this, value, MPI_INT64_T, MPI_MIN);
}
double Communicator::all_reduce_min(double value) const { return reduced(*this, value, MPI_DOUBLE, MPI_MIN); }

std::int64_t Communicator::from_root(std::int64_t value) const {
  broadcast(std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

std::vector<std::int64_t> Communicator::all_gather(std::int64_t value) const {
  if (size_ == 1) return {value};
  std::vector<std::int64_t> values(static_cast<std::size_t>(size_));
  complete([&](MPI_Request* request) {
    return MPI_Iallgather(&value, 1, MPI_INT64_T, values.data(), 1, MPI_INT64_T, mpi_->comm, request);
  });
  return values;
}

std::vector<std::string> Communicator::gather_to_root(const std::string& text, std::int64_t at_once) const {
  if (size_ == 1) return {text};
  const std::vector<std::int64_t> sizes = all_gather(static_cast<std::int64_t>(text.size()));
  if (const std::int64_t longest = std::ranges::max(sizes); longest > at_once)
    throw SharedError(ExitStatus::internal, fmt::format("a text of {} bytes is too long to gather", longest));
  std::vector<std::string> texts(is_root() ? sizes.size() : 0);
  for (std::size_t first = 0, end = 0; first < sizes.size(); first = end) {  // the texts of some ranks
    std::vector<int> counts(sizes.size()), places(sizes.size());
    std::int64_t bytes = 0;
    for (; end < sizes.size() && bytes + sizes[end] <= at_once; bytes += sizes[end++]) {
      counts[end] = static_cast<int>(sizes[end]);
      places[end] = static_cast<int>(bytes);
    }
    std::string all(is_root() ? static_cast<std::size_t>(bytes) : 0, '\0');
    complete([&](MPI_Request* request) {
      return MPI_Igatherv(text.data(), counts[static_cast<std::size_t>(rank_)], MPI_CHAR, all.data(), counts.data(),
                          places.data(), MPI_CHAR, 0, mpi_->comm, request);
    });
    for (std::size_t i = first; is_root() && i < end; ++i)
      texts[i] = all.substr(static_cast<std::size_t>(places[i]), static_cast<std::size_t>(counts[i]));
  }
  return texts;
}

std::string Communicator::to_root(const std::string& text, int from) const {
  if (from == 0) return is_root() ? text : "";
  // The two messages arrive in order, and no other call sends messages to a single rank.
  auto size = static_cast<std::int64_t>(text.size());
  std::string received;
  if (rank_ == from) {
    complete([&](MPI_Request* request) { return MPI_Isend(&size, 1, MPI_INT64_T, 0, 0, mpi_->comm, request); });
    complete([&](MPI_Request* request) {
      return MPI_Isend(text.data(), static_cast<int>(size), MPI_CHAR, 0, 0, mpi_->comm, request);
    });
  } else if (is_root()) {
    complete([&](MPI_Request* request) { return MPI_Irecv(&size, 1, MPI_INT64_T, from, 0, mpi_->comm, request); });
    received.resize(static_cast<std::size_t>(size));
    complete([&](MPI_Request* request) {
      return MPI_Irecv(received.data(), static_cast<int>(size), MPI_CHAR, from, 0, mpi_->comm, request);
    });
  }
  return received;
}

void Communicator::run_collectively(const std::function<void()>& work) const {
  std::optional<Error> failure;
  try {
    work();
  } catch (const std::exception& exception) {
    failure = as_error(exception);
  }
  const auto first_failed = static_cast<int>(all_reduce_min(std::int64_t{failure ? rank_ : size_}));
  if (first_failed == size_) return;

  auto status = static_cast<std::int64_t>(failure ? failure->status() : ExitStatus::done);
  broadcast(std::as_writable_bytes(std::span(&status, 1)), first_failed);
  std::string message = failure ? failure->what() : "";
  broadcast(message, first_failed);
  throw SharedError(static_cast<ExitStatus>(status), message);
}

void Communicator::run_in_parts(const Communicator& part, const std::function<void()>& work) const {
  std::optional<Error> failure;
  try {
    work();
  } catch (const SharedError& error) {
    failure = error;
  } catch (const std::exception& exception) {
    if (part.size() > 1) throw;
    failure = as_error(exception);
  }
  run_collectively([&] {
    if (failure) throw *failure;
  });
}

void Communicator::run_on_root(const std::function<void()>& work) const {
  run_collectively([&] {
    if (is_root()) work();
  });
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

void expect_agreement(const Communicator& comm, const Agreement& agreement) {
  std::string first = agreement.value, host = host_name();
  comm.broadcast(first);
  // Lowest rank with a different value.
  const std::int64_t differs_at = agreement.value == first ? comm.size() : comm.rank();
  const auto other = static_cast<int>(comm.all_reduce_min(differs_at));
  if (other == comm.size()) return;
  comm.broadcast(host);
  std::string others_host = host_name(), others_value = agreement.value;
  comm.broadcast(others_host, other);
  comm.broadcast(others_value, other);
  const auto [was, is] = first_difference(first, others_value);
  throw SharedError(agreement.status,
                    fmt::format("{} of rank {} on {} differs from that of rank 0 on {} ('{}' instead of '{}'); {}",
                                agreement.what, other, others_host, host, is, was, agreement.advice));
}

}  // namespace lockstep
