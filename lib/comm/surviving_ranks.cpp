// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/surviving_ranks.hpp"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <numeric>
#include <set>

#include "base/heartbeat.hpp"
#include "comm/mpi_handle.hpp"
#include "comm/topology.hpp"

#if defined(OPEN_MPI) && __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

namespace lockstep {
namespace {

// User-Level Failure Mitigation: the MPIX_ functions of Open MPI 5, and substitutes for MPI libraries without them.
namespace ulfm {

#if defined(MPIX_ERR_PROC_FAILED) && defined(MPIX_ERR_REVOKED) && defined(MPIX_FT)

/// Explains why the death of one process would end all of this MPI world, and what to do; empty if it would not.
std::string missing() {
  int* is_on = nullptr;
  int is_known = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPIX_FT, &is_on, &is_known);
  if (is_known == 0 || *is_on == 0)
    return "the launcher ends all ranks when one dies; start them with mpirun --with-ft ulfm";
  return "";
}

/// True if an MPI call returned `code` because a process has died, or because another rank revoked the communicator.
bool is_loss(int code) {
  int kind = MPI_SUCCESS;
  MPI_Error_class(code, &kind);
  bool lost = kind == MPIX_ERR_PROC_FAILED || kind == MPIX_ERR_REVOKED;
#if defined(MPIX_ERR_PROC_FAILED_PENDING)
  lost |= kind == MPIX_ERR_PROC_FAILED_PENDING;
#endif
  return lost;
}

/// Makes all operations on `comm` that wait, on all ranks, return with an error. Not collective.
void revoke(MPI_Comm comm) { MPIX_Comm_revoke(comm); }

/// Returns a communicator of the living processes of `comm`, in their order. Collective over them, whatever has died.
MPI_Comm shrink(MPI_Comm comm) {
  MPI_Comm left = MPI_COMM_NULL;
  while (MPIX_Comm_shrink(comm, &left) != MPI_SUCCESS) {  // another process has died meanwhile
  }
  return left;
}

/// Returns whether all ranks of `comm` are alive and passed yes = true; the same answer on all living ranks, over which
/// it is collective.
bool agree(MPI_Comm comm, bool yes) {
  int all = yes ? 1 : 0;
  return MPIX_Comm_agree(comm, &all) == MPI_SUCCESS && all == 1;
}

#else

std::string missing() {
  return "the MPI library of this build ends all ranks when one dies; build with one that has ULFM, such as Open MPI "
         "5";
}

bool is_loss(int) { return false; }
void revoke(MPI_Comm) {}
MPI_Comm shrink(MPI_Comm) { std::abort(); }
bool agree(MPI_Comm, bool) { std::abort(); }

#endif

}  // namespace ulfm

/// A receive from any rank that nobody answers: MPI ends it when a rank dies, whatever this rank is waiting for, even a
/// flag in a node's memory.
struct FailureProbe {
  Communicator ranks;
  MPI_Request request = MPI_REQUEST_NULL;
  char nothing = 0;

  explicit FailureProbe(const Communicator& of) : ranks(of.duplicate()) {
    const MpiLock lock;
    expect_mpi(MPI_Irecv(&nothing, 1, MPI_CHAR, MPI_ANY_SOURCE, 0, ranks.mpi().comm, &request));
  }
};

std::atomic<bool> survives = false, lost = false, ever_lost = false;
std::unique_ptr<FailureProbe> failure_probe;  // protected by MpiLock

/// Communicators to revoke after a loss.
std::mutex communicators_mutex;
std::set<MPI_Comm> communicators;

MPI_Comm all_ranks = MPI_COMM_NULL;  // the ranks alive now
std::size_t largest_message = 0;     // bytes; protected by MpiLock

/// Time after which messages in progress between living ranks have ended, even over a network that gives each of the
/// many ranks of a node only the least rate.
std::chrono::milliseconds longest_message() {
  constexpr double least_rate = 20e6;  // bytes a second
  return std::chrono::milliseconds(300 +
                                   static_cast<std::int64_t>(1e3 * static_cast<double>(largest_message) / least_rate));
}

void let_mpi_work(std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  for (int is_there = 0; std::chrono::steady_clock::now() < end;)
    MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_SELF, &is_there, MPI_STATUS_IGNORE);
}

/// Makes all ranks leave what they wait for, after a loss (`done` is false) or at the end. Open MPI 5 continues
/// messages that both sides have begun, even on revoked communicators. So memory is released only when all ranks know
/// of the loss, and therefore begin no more messages, and those in progress have had time to end. Returns whether all
/// ranks are alive and passed done = true.
bool part_from_each_other(bool done) {
  constexpr std::chrono::milliseconds for_most(100);
  if (!done) {
    let_mpi_work(for_most);
    const std::lock_guard lock(communicators_mutex);
    for (const MPI_Comm comm : communicators) ulfm::revoke(comm);
  }
  if (ulfm::agree(all_ranks, done)) return true;
  lost = ever_lost = true;
  let_mpi_work(longest_message());
  return false;
}

/// Callable with or without MpiLock held.
[[noreturn]] void lose() {
  const WaitsForRanks waits;
  const MpiLock lock;
  if (!lost) part_from_each_other(false);
  throw RankLost();
}

}  // namespace

void register_communicator(MPI_Comm comm) {
  if (!survives) return;
  const std::lock_guard lock(communicators_mutex);
  communicators.insert(comm);
}

void forget_communicator(MPI_Comm comm) {
  if (!survives) return;
  const std::lock_guard lock(communicators_mutex);
  communicators.erase(comm);
}

void note_message(std::size_t bytes) { largest_message = std::max(largest_message, bytes); }

void mpi_failed(int code) {
  if (survives && ulfm::is_loss(code)) lose();
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw Error(ExitStatus::internal, fmt::format("MPI: {}", text));
}

bool ranks_survive() { return survives; }
bool ranks_were_lost() { return ever_lost; }

void look_for_losses() {
  if (!survives) return;
  if (!lost) {
    using Clock = std::chrono::steady_clock;
    constexpr auto now_and_then = std::chrono::milliseconds(5);
    thread_local Clock::time_point looked;
    const Clock::time_point now = Clock::now();
    if (now - looked < now_and_then) return;
    looked = now;
    const MpiLock lock;
    int ended = 0;
    if (!failure_probe || MPI_Test(&failure_probe->request, &ended, MPI_STATUS_IGNORE) == MPI_SUCCESS) return;
  }
  lose();
}

std::string SurvivingRanks::hindrance() { return ulfm::missing(); }

SurvivingRanks::SurvivingRanks(const Communicator& all) : first_(all.duplicate()), ranks_(first_) {
  assert(!survives);
  all_ranks = ranks_.mpi().comm;
  survives = true;
  register_communicator(ranks_.mpi().comm);
  MPI_Comm_set_errhandler(ranks_.mpi().comm, MPI_ERRORS_RETURN);  // inherited by all communicators derived from it
  hosts_ = host_names(ranks_);
  watch();
}

SurvivingRanks::~SurvivingRanks() {
  stop_watching();
  survives = false;
}

void SurvivingRanks::watch() {
  auto made = std::make_unique<FailureProbe>(ranks_);
  const MpiLock lock;
  failure_probe = std::move(made);
}

void SurvivingRanks::stop_watching() {
  const MpiLock lock;
  if (!failure_probe) return;
  if (!lost) {
    MPI_Cancel(&failure_probe->request);
    MPI_Request_free(&failure_probe->request);
  }
  failure_probe.reset();
}

bool SurvivingRanks::all_are_done(bool done) {
  if (lost || !done) return false;
  const WaitsForRanks waits;
  const MpiLock lock;
  return part_from_each_other(true);
}

std::vector<SurvivingRanks::Lost> SurvivingRanks::drop_lost() {
  const std::vector<int> before = first_ranks(ranks_);
  const WaitsForRanks waits;
  for (;;) {
    stop_watching();
    Communicator left = Communicator::over_handle(std::make_shared<MpiHandle>(ulfm::shrink(ranks_.mpi().comm)));
    MPI_Comm_set_errhandler(left.mpi().comm, MPI_ERRORS_RETURN);
    ranks_ = std::move(left);
    all_ranks = ranks_.mpi().comm;
    lost = false;
    try {
      watch();
      break;
    } catch (const RankLost&) {  // another rank was lost
    }
  }
  const std::vector<int> now = first_ranks(ranks_);
  std::vector<Lost> gone;
  for (const int rank : before)
    if (std::ranges::find(now, rank) == now.end()) gone.push_back({rank, hosts_[static_cast<std::size_t>(rank)]});
  return gone;
}

/// Translates the ranks of a group to rank numbers at the start; local.
std::vector<int> SurvivingRanks::first_ranks(const Communicator& ranks) const {
  std::vector<int> here(static_cast<std::size_t>(ranks.size())), there(here.size());
  std::iota(here.begin(), here.end(), 0);
  MPI_Group of = MPI_GROUP_NULL, first = MPI_GROUP_NULL;
  MPI_Comm_group(ranks.mpi().comm, &of);
  MPI_Comm_group(first_.mpi().comm, &first);
  MPI_Group_translate_ranks(of, ranks.size(), here.data(), first, there.data());
  MPI_Group_free(&of);
  MPI_Group_free(&first);
  return there;
}

}  // namespace lockstep
