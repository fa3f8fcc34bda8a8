// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs kernels with all the threads and lanes of a device as fibers, compiled with ThreadSanitizer
// (support/fiber_device.hpp). Tests here are for kernels that no other test of operations runs, and for the errors that
// fibers find; the other tests of operations are compiled into this program, too.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "ops/portable/attention_gpu.hpp"
#include "ops/portable/gemm_gpu.hpp"

namespace lockstep {
namespace {

using Teams = Kokkos::TeamPolicy<ExecSpace>;
using Member = Teams::member_type;

template <class Kernel>
void run_teams(const Kernel& kernel, std::int64_t teams, int threads) {
  Teams policy(ExecSpace(), static_cast<int>(teams), threads);
  Kokkos::parallel_for("test::teams", policy.set_scratch_size(0, Kokkos::PerTeam(Kernel::scratch_bytes)), kernel);
}

template <int threads>
void expect_product(std::int64_t m, std::int64_t n, std::int64_t k, bool add) {
  std::vector<float> a(static_cast<std::size_t>(m * k)), b(static_cast<std::size_t>(k * n)),
      c(static_cast<std::size_t>(m * n), 0.5f);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 13) - 6;
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 7) - 3;
  using Product = GpuProduct<float, threads>;
  const Product product{m, n, k, {a.data(), k, 1}, {b.data(), n, 1}, c.data(), n, add};
  run_teams(product, Product::tiles(m, n), threads);
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = add ? 0.5 : 0;
      for (std::int64_t p = 0; p < k; ++p)
        sum += static_cast<double>(a[static_cast<std::size_t>(i * k + p)]) * b[static_cast<std::size_t>(p * n + j)];
      ASSERT_EQ(c[static_cast<std::size_t>(i * n + j)], sum) << i << ", " << j;  // exact, since all are whole numbers
    }
}

TEST(TeamKernels, TheProductIsTheSameForEveryTeam) {
  expect_product<1>(70, 65, 40, true);
  expect_product<8>(70, 65, 40, false);
  expect_product<64>(13, 130, 65, true);
  expect_product<16>(65, 3, 33, true);
}

/// What attention computes, from the same inputs in each call.
struct Attended {
  std::vector<float> y, logsumexp, dq, inner;
};

template <int threads, int widths>
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
  run_teams(forward, teams, threads);
  const AttentionGradients<float> g{
      q.data(),      q.data() + width,      out.y.data(),    dy.data(), out.logsumexp.data(),
      out.dq.data(), out.dq.data() + width, out.inner.data()};
  run_teams(AttentionDQuery<float, threads, widths>(s, g), teams, threads);
  run_teams(AttentionDKey<float, threads, widths>(s, g), teams, threads);
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

/// Calls `run`, with barriers that do not make threads and lanes wait. For death tests: it does not restore them.
template <class Run>
void without_barriers(const Run& run) {
  test::barriers_work = false;
  run();
}

TEST(TeamKernelsDeathTest, AMissingBarrierOfAttentionIsFound) {
  EXPECT_DEATH(without_barriers([] { attend<8, 1>({1, 70, 1, 40, true}); }), "data race");
}

TEST(TeamKernelsDeathTest, AMissingBarrierIsFound) {
  EXPECT_DEATH(without_barriers([] { expect_product<8>(64, 64, 128, false); }), "data race");
}

TEST(FiberDeviceDeathTest, WhatIsWrittenTwiceIsFound) {
  std::vector<double> sum(32, 0.0);
  double* const to = sum.data();
  const auto of_range = [=](std::int64_t) { to[0] += 1; };
  EXPECT_DEATH(Kokkos::parallel_for("test::range", RangePolicy(ExecSpace(), 0, 2), of_range), "data race");
  const auto of_teams = [=](const Member&) { to[0] += 1; };
  EXPECT_DEATH(Kokkos::parallel_for("test::teams", Teams(ExecSpace(), 2, 1), of_teams), "data race");
  const auto of_threads = [=](const Member& team) { to[0] = team.team_rank(); };
  EXPECT_DEATH(Kokkos::parallel_for("test::threads", Teams(ExecSpace(), 1, 2), of_threads), "data race");
  const auto of_lanes = [=](const Member& team) {
    to[0] = 1;  // every lane writes it
    Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, 32), [&](const std::int64_t i) { to[i] = 1; });
  };
  EXPECT_DEATH(Kokkos::parallel_for("test::lanes", Teams(ExecSpace(), 1, 1, 32), of_lanes), "data race");
}

TEST(FiberDeviceDeathTest, ABarrierThatSomeThreadsDoNotReachIsFound) {
  const auto kernel = [](const Member& team) {
    if (team.team_rank() > 0) team.team_barrier();
  };
  EXPECT_DEATH(Kokkos::parallel_for("test::kernel", Teams(ExecSpace(), 1, 4), kernel),
               "test::kernel: some threads of a team wait at a barrier");
}

TEST(FiberDevice, MemoryOfTeamsHoldsNoNumbersAtFirst) {
  std::vector<float> seen(2, 0.0F);
  float* const to = seen.data();
  const auto kernel = [=](const Member& team) {
    auto* const shared = static_cast<float*>(team.team_scratch(0).get_shmem_aligned(sizeof(float), 64));
    if (team.team_rank() == 0) to[team.league_rank()] = *shared;
  };
  Teams policy(ExecSpace(), 2, 4);
  Kokkos::parallel_for("test::kernel", policy.set_scratch_size(0, Kokkos::PerTeam(128)), kernel);
  EXPECT_TRUE(std::isnan(seen[0]) && std::isnan(seen[1]));
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  const Kokkos::ScopeGuard kokkos(argc, argv);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

/// The settings of ThreadSanitizer: the first report ends the program.
extern "C" const char* __tsan_default_options() { return "halt_on_error=1"; }
