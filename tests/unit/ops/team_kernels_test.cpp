// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels whose teams share memory, run by real threads and a real barrier, and compiled with ThreadSanitizer.
#include <gtest/gtest.h>

#include <barrier>
#include <cmath>
#include <thread>
#include <vector>

#include "ops/portable/attention_gpu.hpp"
#include "ops/portable/gemm_gpu.hpp"

namespace lockstep {
namespace {

/// What kernels ask of a team's member: here a thread of the host.
template <bool has_barrier>
class ThreadOfTeam {
 public:
  ThreadOfTeam(int team, int thread, int threads, std::barrier<>& barrier, std::vector<std::byte>& scratch)
      : team_(team), thread_(thread), threads_(threads), barrier_(&barrier), scratch_(&scratch) {}

  int league_rank() const { return team_; }
  int team_rank() const { return thread_; }
  int team_size() const { return threads_; }
  void team_barrier() const {
    if constexpr (has_barrier) barrier_->arrive_and_wait();
  }
  const ThreadOfTeam& team_scratch(int) const { return *this; }
  void* get_shmem_aligned(std::size_t bytes, std::size_t alignment) const {
    void* first = scratch_->data();
    std::size_t room = scratch_->size();
    return std::align(alignment, bytes, first, room);
  }

 private:
  int team_, thread_, threads_;
  std::barrier<>* barrier_;
  std::vector<std::byte>* scratch_;
};

template <bool has_barrier, class Kernel>
void run_teams(const Kernel& kernel, std::int64_t teams, int threads) {
  for (int team = 0; team < teams; ++team) {
    std::vector<std::byte> scratch(Kernel::scratch_bytes);
    std::barrier barrier(threads);
    std::vector<std::jthread> all;
    for (int thread = 0; thread < threads; ++thread)
      all.emplace_back([&, thread] { kernel(ThreadOfTeam<has_barrier>(team, thread, threads, barrier, scratch)); });
  }
}

template <int threads, bool has_barrier = true>
void expect_product(std::int64_t m, std::int64_t n, std::int64_t k, bool add) {
  std::vector<float> a(static_cast<std::size_t>(m * k)), b(static_cast<std::size_t>(k * n)),
      c(static_cast<std::size_t>(m * n), 0.5f);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 13) - 6;
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 7) - 3;
  using Product = GpuProduct<float, threads>;
  const Product product{m, n, k, {a.data(), k, 1}, {b.data(), n, 1}, c.data(), n, add};
  run_teams<has_barrier>(product, Product::tiles(m, n), threads);
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = add ? 0.5 : 0;
      for (std::int64_t p = 0; p < k; ++p)
        sum += static_cast<double>(a[static_cast<std::size_t>(i * k + p)]) * b[static_cast<std::size_t>(p * n + j)];
      ASSERT_EQ(c[static_cast<std::size_t>(i * n + j)], sum) << i << ", " << j;  // whole numbers: exact
    }
}

TEST(TeamKernels, TheProductIsTheSameForEveryTeam) {
  expect_product<1>(70, 65, 40, true);
  expect_product<8>(70, 65, 40, false);
  expect_product<64>(13, 130, 65, true);
  expect_product<256>(65, 3, 33, true);
}

/// What attention computes from numbers that are the same in each call.
struct Attended {
  std::vector<float> y, logsumexp, dq, inner;
};

template <int threads, int widths, bool has_barrier = true>
Attended attend(const AttentionShape& s) {
  const auto positions = static_cast<std::size_t>(s.n * s.length), width = static_cast<std::size_t>(s.width());
  std::vector<float> q(positions * 3 * width), dy(positions * width);
  for (std::size_t i = 0; i < q.size(); ++i) q[i] = static_cast<float>(i % 23) / 11 - 1;
  for (std::size_t i = 0; i < dy.size(); ++i) dy[i] = static_cast<float>(i % 17) / 8 - 1;
  const auto rows = static_cast<std::size_t>(s.n * s.heads * s.length);
  Attended out{std::vector<float>(dy.size()), std::vector<float>(rows), std::vector<float>(q.size()),
               std::vector<float>(rows)};
  const AttentionForward<float, threads, widths> forward(s, q.data(), q.data() + width, out.y.data(),
                                                         out.logsumexp.data());
  const std::int64_t teams = s.n * s.heads * forward.tiles(s.length);
  run_teams<has_barrier>(forward, teams, threads);
  const AttentionGradients<float> g{
      q.data(),      q.data() + width,      out.y.data(),    dy.data(), out.logsumexp.data(),
      out.dq.data(), out.dq.data() + width, out.inner.data()};
  run_teams<has_barrier>(AttentionDQuery<float, threads, widths>(s, g), teams, threads);
  run_teams<has_barrier>(AttentionDKey<float, threads, widths>(s, g), teams, threads);
  return out;
}

void expect_same(const Attended& one, const Attended& other) {
  EXPECT_EQ(one.y, other.y);
  EXPECT_EQ(one.logsumexp, other.logsumexp);
  EXPECT_EQ(one.dq, other.dq);
  EXPECT_EQ(one.inner, other.inner);
}

TEST(TeamKernels, AttentionIsTheSameForEveryTeam) {
  const AttentionShape causal{1, 70, 1, 40, true}, wide{1, 66, 1, 70, false};
  expect_same(attend<1, 1>(causal), attend<16, 1>(causal));
  expect_same(attend<1, 1>(wide), attend<8, 2>(wide));
}

TEST(TeamKernelsDeathTest, AMissingBarrierOfAttentionIsFound) {
  EXPECT_DEATH((attend<8, 1, false>({1, 70, 1, 40, true})), "data race");
}

TEST(TeamKernelsDeathTest, AMissingBarrierIsFound) {
  EXPECT_DEATH((expect_product<8, false>(64, 64, 128, false)), "data race");
}

}  // namespace
}  // namespace lockstep

/// Sanitizers' settings: the first report ends the program.
extern "C" const char* __tsan_default_options() { return "halt_on_error=1"; }
