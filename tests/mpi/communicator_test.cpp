// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/communicator.hpp"

#include <gtest/gtest.h>

#include "comm/mpi_handle.hpp"
#include "comm/spin_backoff.hpp"
#include "comm/transport.hpp"
#include "support/fixtures.hpp"
#include "support/scratch.hpp"

namespace lockstep {
namespace {

class Communication : public testing::Test {
 protected:
  const Communicator comm = Communicator::world();
  const std::uint64_t rank = static_cast<std::uint64_t>(comm.rank());
};

TEST_F(Communication, KnowsItsRanks) {
  EXPECT_GE(comm.rank(), 0);
  EXPECT_LT(comm.rank(), comm.size());
  EXPECT_EQ(comm.is_root(), comm.rank() == 0);
  comm.barrier();
}

TEST_F(Communication, BroadcastsTexts) {
  for (const std::string& sent : {std::string(), std::string("a × b"), std::string(100000, 'x') + '\0' + "y"}) {
    std::string text = comm.is_root() ? sent : "what stood here before";
    comm.broadcast(text);
    EXPECT_EQ(text, sent);
  }
}

/// With fewer bytes at once than all texts have, as where the texts of all ranks are longer than MPI's counts.
TEST_F(Communication, GathersTexts) {
  const auto text_of = [](int of) {
    return std::string(static_cast<std::size_t>(5 * of % 11), 'a') + std::to_string(of);
  };
  for (const std::int64_t at_once : {std::int64_t{12}, std::int64_t{20}, std::int64_t{1} << 30}) {
    const std::vector<std::string> texts = comm.gather_to_root(text_of(comm.rank()), at_once);
    ASSERT_EQ(static_cast<int>(texts.size()), comm.is_root() ? comm.size() : 0);
    for (std::size_t of = 0; of < texts.size(); ++of) EXPECT_EQ(texts[of], text_of(static_cast<int>(of)));
  }
  if (comm.size() == 1) return;
  const std::string text = comm.rank() == 1 ? "a text" : "";
  test::expect_error(ExitStatus::internal, "a text of 6 bytes is too long to gather",
                     [&] { comm.gather_to_root(text, 5); });
}

TEST_F(Communication, BroadcastsTensors) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const OwnedTensor tensor = test::make_filled(dtype, {1003}, 1 + rank);
    comm.broadcast(ExecSpace(), tensor.get());
    EXPECT_EQ(test::values_of(tensor.get()), test::filling(1, 1003));
  }
}

/// Tests the cuts alone, for messages that would not fit into memory.
TEST(MpiPieces, CountsAreIntsAndCoverEveryElement) {
  const std::size_t edge = std::size_t{1} << 31;
  for (const std::size_t elements : {std::size_t{0}, std::size_t{7}, edge - 1, edge, edge + 1, 3 * edge + 5}) {
    std::size_t end = 0;
    for_mpi_pieces(elements, [&](std::size_t first, int count) {
      EXPECT_EQ(first, end);
      EXPECT_GT(count, 0);
      end += static_cast<std::size_t>(count);
    });
    EXPECT_EQ(end, elements);
  }
}

TEST_F(Communication, SendsInPiecesWhatIsLargerThanMpiCounts) {
  const std::unique_ptr<Transport> transport = mpi_transport(comm, 1000);
  for (const std::size_t bytes : {0, 999, 1000, 10001, 30}) {
    std::vector<char> sent(bytes), received(bytes, '-');
    for (std::size_t i = 0; i < bytes; ++i) sent[i] = static_cast<char>(i * i + static_cast<std::size_t>(comm.rank()));
    const int next = (comm.rank() + 1) % comm.size(), last = (comm.rank() + comm.size() - 1) % comm.size();
    transport->receive(last, received.data(), bytes);
    transport->send(next, sent.data(), bytes);
    wait_until([&] { return transport->sent() && transport->received(); });
    for (std::size_t i = 0; i < bytes; ++i)
      ASSERT_EQ(received[i], static_cast<char>(i * i + static_cast<std::size_t>(last))) << i << " of " << bytes;
  }
}

TEST_F(Communication, TransportsOfOneCommunicatorAreApart) {
  const std::vector<std::unique_ptr<Transport>> transports = make_transports(comm, 3);
  ASSERT_EQ(transports.size(), 3U);
  const int next = (comm.rank() + 1) % comm.size(), last = (comm.rank() + comm.size() - 1) % comm.size();
  std::vector<int> sent, received(3, -1);
  for (int i = 0; i < 3; ++i) sent.push_back(10 * comm.rank() + i);
  for (std::size_t i = 0; i < 3; ++i) transports[i]->receive(last, &received[i], sizeof(int));
  for (std::size_t i = 3; i-- > 0;) transports[i]->send(next, &sent[i], sizeof(int));  // in the opposite order
  for (const auto& each : transports) wait_until([&] { return each->sent() && each->received(); });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(received[static_cast<std::size_t>(i)], 10 * last + i);
}

TEST_F(Communication, SumsAndMaximaOfNumbers) {
  double values[2] = {1.0, static_cast<double>(comm.rank())};
  comm.all_reduce_sum(values);
  EXPECT_EQ(values[0], comm.size());
  EXPECT_EQ(values[1], comm.size() * (comm.size() - 1) / 2.0);
  EXPECT_EQ(comm.all_reduce_max(std::int64_t{comm.rank()} - 10), comm.size() - 11);
  EXPECT_EQ(comm.all_reduce_min(std::int64_t{comm.rank()} - 10), -10);
  EXPECT_EQ(comm.all_reduce_max(comm.rank() - 0.25), comm.size() - 1.25);
  EXPECT_EQ(comm.all_reduce_min(comm.rank() - 0.25), -0.25);
  EXPECT_EQ(comm.from_root(-5 - comm.rank()), -5);
}

TEST_F(Communication, ConditionsOfAnyAndOfEveryRank) {
  const bool is_last = comm.rank() == comm.size() - 1;
  EXPECT_TRUE(comm.any_rank(is_last));
  EXPECT_FALSE(comm.any_rank(false));
  EXPECT_TRUE(comm.every_rank(true));
  EXPECT_EQ(comm.every_rank(is_last), comm.size() == 1);
}

TEST_F(Communication, TogetherWithoutTrouble) {
  int done = 0;
  comm.run_collectively([&] { ++done; });
  EXPECT_EQ(done, 1);
}

TEST_F(Communication, TroubleOfOneRankIsTroubleOfAll) {
  for (int guilty = 0; guilty < comm.size(); ++guilty) try {
      comm.run_collectively([&] {
        if (comm.rank() == guilty) throw Error(ExitStatus::bad_data, fmt::format("rank {} is to blame", guilty));
      });
      ADD_FAILURE() << "nothing was thrown";
    } catch (const SharedError& error) {
      EXPECT_EQ(error.status(), ExitStatus::bad_data);
      EXPECT_EQ(error.what(), fmt::format("rank {} is to blame", guilty));
    }
}

TEST_F(Communication, TheLowestRankSpeaks) {
  try {
    comm.run_collectively([&] {
      if (comm.rank() > 0 || comm.size() == 1)
        throw Error(comm.rank() <= 1 ? ExitStatus::missing_file : ExitStatus::io_error,
                    fmt::format("I am rank {}", comm.rank()));
    });
    ADD_FAILURE() << "nothing was thrown";
  } catch (const SharedError& error) {
    EXPECT_EQ(error.status(), ExitStatus::missing_file);
    EXPECT_EQ(error.what(), std::string(comm.size() == 1 ? "I am rank 0" : "I am rank 1"));
  }
}

TEST_F(Communication, OtherExceptionsAreShared) {
  try {
    comm.run_collectively([&] {
      if (comm.rank() == comm.size() - 1) throw std::runtime_error("something else");
    });
    ADD_FAILURE() << "nothing was thrown";
  } catch (const SharedError& error) {
    EXPECT_EQ(error.status(), ExitStatus::internal);
    EXPECT_EQ(std::string(error.what()).rfind("something else", 0), 0u) << error.what();
  }
}

TEST_F(Communication, TroubleOfAPartIsTroubleOfAll) {
  const Communicator pair = comm.split(comm.rank() / 2);
  test::expect_error(ExitStatus::bad_data, "first pair", [&] {
    comm.run_in_parts(pair, [&] {
      pair.run_collectively([&] {
        if (comm.rank() == 0) throw Error(ExitStatus::bad_data, "first pair");
      });
    });
  });
  const Communicator single = comm.split(comm.rank());
  test::expect_error(ExitStatus::io_error, "first rank", [&] {
    comm.run_in_parts(single, [&] {
      if (comm.rank() == 0) throw Error(ExitStatus::io_error, "first rank");
    });
  });
}

/// Other ranks of the part may be waiting in it: the rank must not wait for them in turn.
TEST_F(Communication, TroubleThatAPartDoesNotKnowIsThrownAtOnce) {
  if (comm.size() == 1) GTEST_SKIP() << "for several ranks";
  bool is_thrown = false;
  try {
    comm.run_in_parts(comm, [&] {
      if (comm.rank() == 0) throw Error(ExitStatus::io_error, "first rank");
    });
  } catch (const SharedError&) {
    ADD_FAILURE() << "it is of one rank";
  } catch (const Error&) {
    is_thrown = true;
    comm.run_collectively([] {});  // for which the others wait
  }
  EXPECT_EQ(is_thrown, comm.rank() == 0);
}

TEST_F(Communication, AProcessAloneWaitsForNobody) {
  const Communicator alone = Communicator::alone();
  EXPECT_EQ(alone.size(), 1);
  EXPECT_TRUE(alone.is_root());
  std::string text = "as it was";
  double value = 3.5;
  // A call that were collective over the ranks of MPI would hang, since only one rank goes on.
  if (comm.rank() != comm.size() - 1) return;
  alone.barrier();
  alone.broadcast(text);
  alone.all_reduce_sum(std::span(&value, 1));
  EXPECT_EQ(text, "as it was");
  EXPECT_EQ(value, 3.5);
  EXPECT_EQ(alone.all_reduce_max(std::int64_t{-7}), -7);
  EXPECT_EQ(alone.all_gather(-7), std::vector<std::int64_t>{-7});
  EXPECT_EQ(alone.gather_to_root(text), std::vector<std::string>{text});
  EXPECT_EQ(alone.split(3).duplicate().on_this_node().size(), 1);
  test::expect_error(ExitStatus::bad_data, "so it is",
                     [&] { alone.run_collectively([] { throw Error(ExitStatus::bad_data, "so it is"); }); });
}

TEST_F(Communication, VersionIsOneLine) { EXPECT_EQ(mpi_version().find('\n'), std::string::npos); }

}  // namespace
}  // namespace lockstep
