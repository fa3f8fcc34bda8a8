// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "support/fibers.hpp"

// A device for tests, in which each vector lane of each thread of a team is a fiber. Teams are smaller than requested
// if ThreadSanitizer could not distinguish so many threads. Must be included before everything else, because it
// replaces Kokkos' execution space; it has what Lockstep's kernels use.

namespace lockstep::test {

/// Uses host memory; Kokkos copies through Serial.
class FiberDevice : public Kokkos::Serial {
 public:
  using Kokkos::Serial::Serial;
  using execution_space = FiberDevice;
  using device_type = Kokkos::Device<FiberDevice, Kokkos::HostSpace>;
};

/// Tests turn barriers off to check that missing ones are detected.
inline bool barriers_work = true;

/// State of a running team.
class FiberTeam {
 public:
  FiberTeam(int team_size, int vector_length, std::size_t scratch_bytes)
      : size(team_size),
        lanes(vector_length),
        all_(size * lanes),
        of_threads_(static_cast<std::size_t>(size), FiberBarrier(lanes)),
        slots_(2 * static_cast<std::size_t>(size * lanes) * 2),
        scratch_(scratch_bytes) {}

  const int size, lanes;

  FiberBarrier& all() { return all_; }
  FiberBarrier& lanes_of(int thread) { return of_threads_[static_cast<std::size_t>(thread)]; }
  /// Memory where a lane shows its number to all lanes of the team, or to those of its thread, in one phase of a
  /// barrier.
  std::byte* slot(bool of_all, int phase, int thread, int lane) {
    return slots_[static_cast<std::size_t>(((phase % 2 * 2 + (of_all ? 1 : 0)) * size + thread) * lanes + lane)].bytes;
  }
  std::vector<std::byte>& scratch() { return scratch_; }
  /// Fills the scratch memory with NaN, because it is undefined until the team writes it.
  void poison_scratch(int fiber) {
    if (scratch_.empty()) return;
    if (fiber == 0) std::memset(scratch_.data(), 0xFF, scratch_.size());
    all_.wait();
  }

 private:
  struct Slot {
    alignas(16) std::byte bytes[32];
  };
  FiberBarrier all_;
  std::vector<FiberBarrier> of_threads_;
  std::vector<Slot> slots_;
  std::vector<std::byte> scratch_;
};

/// One lane of a thread of a team: the member handle that kernels get.
class FiberMember {
 public:
  FiberMember(FiberTeam& team, int league_rank, int league_size, int thread, int lane)
      : team_(&team), league_rank_(league_rank), league_size_(league_size), thread_(thread), lane_(lane) {}

  int league_rank() const { return league_rank_; }
  int league_size() const { return league_size_; }
  int team_rank() const { return thread_; }
  int team_size() const { return team_->size; }
  int lane() const { return lane_; }
  int lanes() const { return team_->lanes; }

  void team_barrier() const { wait_for_all(); }
  void lane_barrier() const {
    if (barriers_work) team_->lanes_of(thread_).wait();
  }
  const FiberMember& team_scratch(int) const { return *this; }
  const FiberMember& team_shmem() const { return *this; }
  void* get_shmem_aligned(std::ptrdiff_t bytes, std::ptrdiff_t alignment) const {
    void* first = team_->scratch().data() + taken_;
    std::size_t room = team_->scratch().size() - taken_;
    void* const found = std::align(static_cast<std::size_t>(alignment), static_cast<std::size_t>(bytes), first, room);
    taken_ = team_->scratch().size() - room + static_cast<std::size_t>(bytes);
    return found;
  }
  void* get_shmem(std::ptrdiff_t bytes) const { return get_shmem_aligned(bytes, 8); }

  template <class Reducer>
  void team_reduce(const Reducer& reducer) const {
    combine_threads(reducer, false);
  }
  template <class T>
  T team_scan(T own) const {
    const int phase = phase_of_all_++;
    show(true, phase, own);
    wait_for_all();
    T before = 0;
    for (int thread = 0; thread < thread_; ++thread) before += shown<T>(true, phase, thread, lane_);
    return before;
  }

  /// Replaces each lane's number by the reduction over all lanes of its thread.
  template <class Reducer>
  void combine_lanes(const Reducer& reducer) const {
    using T = typename Reducer::value_type;
    const int phase = phase_of_lanes_++;
    show(false, phase, reducer.reference());
    lane_barrier();
    T all;
    reducer.init(all);
    for (int lane = 0; lane < lanes(); ++lane) reducer.join(all, shown<T>(false, phase, thread_, lane));
    reducer.reference() = all;
  }
  /// Replaces each lane's number by the reduction over the team's threads: of the same lane, or of all lanes.
  template <class Reducer>
  void combine_threads(const Reducer& reducer, bool of_all_lanes) const {
    using T = typename Reducer::value_type;
    const int phase = phase_of_all_++;
    show(true, phase, reducer.reference());
    wait_for_all();
    T all;
    reducer.init(all);
    for (int thread = 0; thread < team_size(); ++thread)
      for (int lane = 0; lane < lanes(); ++lane)
        if (of_all_lanes || lane == lane_) reducer.join(all, shown<T>(true, phase, thread, lane));
    reducer.reference() = all;
  }

 private:
  void wait_for_all() const {
    if (barriers_work) team_->all().wait();
  }
  template <class T>
  void show(bool to_all, int phase, const T& number) const {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 32);
    *reinterpret_cast<T*>(team_->slot(to_all, phase, thread_, lane_)) = number;
  }
  template <class T>
  T shown(bool to_all, int phase, int thread, int lane) const {
    return *reinterpret_cast<const T*>(team_->slot(to_all, phase, thread, lane));
  }

  FiberTeam* team_;
  int league_rank_, league_size_, thread_, lane_;
  mutable std::size_t taken_ = 0;                      // bytes of scratch memory handed out
  mutable int phase_of_all_ = 0, phase_of_lanes_ = 0;  // number of reductions so far
};

/// Indices first, first + step, … below end of a loop, for one member.
struct FiberLoop {
  enum Over { threads, lanes, both } over;
  const FiberMember& member;
  std::int64_t first, end, step;
};
inline FiberLoop loop(FiberLoop::Over over, const FiberMember& m, std::int64_t begin, std::int64_t end) {
  switch (over) {
    case FiberLoop::threads: return {over, m, begin + m.team_rank(), end, m.team_size()};
    case FiberLoop::lanes: return {over, m, begin + m.lane(), end, m.lanes()};
    case FiberLoop::both: break;
  }
  return {over, m, begin + m.team_rank() * m.lanes() + m.lane(), end, m.team_size() * m.lanes()};
}
struct FiberSingle {
  const FiberMember& member;
  bool is_chosen;
};

template <class Reducer>
void combine(const FiberLoop& loop, const Reducer& reducer) {
  if (loop.over == FiberLoop::lanes) loop.member.combine_lanes(reducer);
  else loop.member.combine_threads(reducer, loop.over == FiberLoop::both);
}

template <class Work>
void call(const void* work, int run, int fiber) {
  (*static_cast<const Work*>(work))(run, fiber);
}

/// Number of fibers that share the indices of a kernel without teams, dealt out in turn.
inline constexpr int range_fibers = 8;

template <class F>
void for_range(const char* label, std::int64_t begin, std::int64_t end, const F& f) {
  const auto work = [&](int, int fiber) {
    for (std::int64_t i = begin + fiber; i < end; i += range_fibers) f(i, fiber);
  };
  begin_fibers();
  run_fibers(label, 0, range_fibers, call<decltype(work)>, &work);
  end_fibers();
}

template <class F>
void for_teams(const char* label, int count, int team_size, int lanes, std::size_t scratch_bytes, const F& f) {
  std::array<FiberTeam, 2> teams{FiberTeam(team_size, lanes, scratch_bytes),
                                 FiberTeam(team_size, lanes, scratch_bytes)};  // used alternately
  const auto work = [&](int rank, int fiber) {
    FiberTeam& team = teams[static_cast<std::size_t>(rank % 2)];
    team.poison_scratch(fiber);
    f(FiberMember(team, rank, count, fiber / lanes, fiber % lanes));
  };
  begin_fibers();
  for (int rank = 0; rank < count; ++rank) run_fibers(label, rank, team_size * lanes, call<decltype(work)>, &work);
  end_fibers();
}

}  // namespace lockstep::test

namespace Kokkos {

using lockstep::test::FiberDevice;
using lockstep::test::FiberLoop;
using lockstep::test::FiberMember;
using lockstep::test::FiberSingle;

template <>
class RangePolicy<FiberDevice, IndexType<std::int64_t>> {
 public:
  RangePolicy(const FiberDevice&, std::int64_t first, std::int64_t after) : begin(first), end(after) {}
  std::int64_t begin, end;
};

template <>
class TeamPolicy<FiberDevice> {
 public:
  using member_type = FiberMember;
  TeamPolicy(const FiberDevice&, int league_size, int size, int vector_length = 1)
      : teams(league_size), team_size(std::min(size, most_threads(vector_length))), lanes(vector_length) {}
  TeamPolicy(const FiberDevice& space, int league_size, const AUTO_t&) : TeamPolicy(space, league_size, 8) {}
  TeamPolicy& set_scratch_size(int, const Impl::PerTeamValue& bytes) {
    scratch_bytes = bytes.value;
    return *this;
  }
  static int most_threads(int vector_length) { return lockstep::test::most_fibers / vector_length; }

  int teams, team_size, lanes;
  std::size_t scratch_bytes = 0;
};

using FiberRange = RangePolicy<FiberDevice, IndexType<std::int64_t>>;
using FiberTeams = TeamPolicy<FiberDevice>;

template <class D, class... Ds, class S, class... Ss>
void deep_copy(const FiberDevice& space, const View<D, Ds...>& to, const View<S, Ss...>& from) {
  deep_copy(static_cast<const Serial&>(space), to, from);
}
template <class D, class... Ds>
void deep_copy(const FiberDevice& space, const View<D, Ds...>& to,
               typename ViewTraits<D, Ds...>::const_value_type& value) {
  deep_copy(static_cast<const Serial&>(space), to, value);
}

template <class F>
void parallel_for(const std::string& label, const FiberRange& range, const F& f) {
  lockstep::test::for_range(label.c_str(), range.begin, range.end, [&](std::int64_t i, int) { f(i); });
}
template <class F>
void parallel_for(const std::string& label, const FiberTeams& policy, const F& f) {
  lockstep::test::for_teams(label.c_str(), policy.teams, policy.team_size, policy.lanes, policy.scratch_bytes, f);
}
template <class F, class Reducer>
  requires is_reducer<Reducer>::value
void parallel_reduce(const std::string& label, const FiberRange& range, const F& f, const Reducer& reducer) {
  std::vector<typename Reducer::value_type> parts(lockstep::test::range_fibers);
  for (auto& part : parts) reducer.init(part);
  lockstep::test::for_range(label.c_str(), range.begin, range.end,
                            [&](std::int64_t i, int fiber) { f(i, parts[static_cast<std::size_t>(fiber)]); });
  reducer.init(reducer.reference());
  for (const auto& part : parts) reducer.join(reducer.reference(), part);
}
template <class F, class T, class... Properties>
void parallel_reduce(const std::string& label, const FiberRange& range, const F& f, const View<T, Properties...>& sum) {
  parallel_reduce(label, range, f, Sum<T>(*sum.data()));
}
template <class F, class T>
  requires std::is_arithmetic_v<T>
void parallel_reduce(const std::string& label, const FiberRange& range, const F& f, T& sum) {
  parallel_reduce(label, range, f, Sum<T>(sum));
}
template <class F>
void parallel_scan(const std::string&, const FiberRange& range, const F& f) {
  std::int32_t sum = 0;
  for (std::int64_t i = range.begin; i < range.end; ++i) f(i, sum, true);
}

// Kokkos' own functions may be non-atomic if Serial is its only execution space.
inline std::int32_t atomic_fetch_add(std::int32_t* to, std::int32_t summand) {
  return std::atomic_ref(*to).fetch_add(summand, std::memory_order_relaxed);
}
inline std::int32_t atomic_fetch_inc(std::int32_t* to) { return atomic_fetch_add(to, 1); }
inline void atomic_inc(std::int32_t* to) { atomic_fetch_add(to, 1); }
inline void atomic_add(double* to, double summand) {
  std::atomic_ref(*to).fetch_add(summand, std::memory_order_relaxed);
}

inline FiberLoop TeamThreadRange(const FiberMember& member, std::int64_t begin, std::int64_t end) {
  return lockstep::test::loop(FiberLoop::threads, member, begin, end);
}
inline FiberLoop TeamThreadRange(const FiberMember& member, std::int64_t end) {
  return TeamThreadRange(member, 0, end);
}
inline FiberLoop ThreadVectorRange(const FiberMember& member, std::int64_t end) {
  return lockstep::test::loop(FiberLoop::lanes, member, 0, end);
}
inline FiberLoop TeamVectorRange(const FiberMember& member, std::int64_t end) {
  return lockstep::test::loop(FiberLoop::both, member, 0, end);
}
inline FiberSingle PerTeam(const FiberMember& member) {
  return {member, member.team_rank() == 0 && member.lane() == 0};
}
inline FiberSingle PerThread(const FiberMember& member) { return {member, member.lane() == 0}; }

template <class F>
void parallel_for(const FiberLoop& loop, const F& f) {
  for (std::int64_t i = loop.first; i < loop.end; i += loop.step) f(i);
  if (loop.over == FiberLoop::lanes) loop.member.lane_barrier();
}
template <class F, class Reducer>
  requires is_reducer<Reducer>::value
void parallel_reduce(const FiberLoop& loop, const F& f, const Reducer& reducer) {
  typename Reducer::value_type part;
  reducer.init(part);
  for (std::int64_t i = loop.first; i < loop.end; i += loop.step) f(i, part);
  reducer.reference() = part;
  lockstep::test::combine(loop, reducer);
}
template <class F, class... T>
  requires(std::is_arithmetic_v<T> && ...)
void parallel_reduce(const FiberLoop& loop, const F& f, T&... sums) {
  ((sums = 0), ...);
  for (std::int64_t i = loop.first; i < loop.end; i += loop.step) f(i, sums...);
  (lockstep::test::combine(loop, Sum<T>(sums)), ...);
}
/// Without the barrier that Kokkos' version has for the lanes: kernels must not rely on it.
template <class F>
void single(const FiberSingle& one, const F& f) {
  if (one.is_chosen) f();
}

}  // namespace Kokkos
