// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Numbers travel from the ranks that hold them to rank 0 and back, block by block.
#include "checkpoint/checkpoint_transfer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <numeric>
#include <random>
#include <stdexcept>
#include <thread>

#include "checkpoint/checkpoint_reader.hpp"
#include "checkpoint/checkpoint_writer.hpp"
#include "support/scratch.hpp"

namespace lockstep::test {
namespace {

/// Numbers equal to their places, of which each rank holds random stretches; the last of several ranks holds none.
template <class T>
class Divided {
 public:
  Divided(const Communicator& ranks, std::string state, std::int64_t count, std::int64_t longest) {
    std::mt19937_64 random(1);
    held_.state = std::move(state);
    held_.layout = layout_of(count);
    for (std::int64_t first = 0; first < count;) {
      const auto length = 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(longest));
      const std::int64_t stretch = std::min(count - first, length);
      const auto owners = static_cast<std::uint64_t>(std::max(1, ranks.size() - 1));
      if (static_cast<int>(random() % owners) == ranks.rank()) held_.held.push_back({first, stretch});
      first += stretch;
    }
    for (const ElementRange& range : held_.held)
      for (std::int64_t i = 0; i < range.count; ++i) values_.push_back(static_cast<T>(range.first + i));
  }

  ShardedState held() {
    held_.values = {values_.data(), dtype_of<T>(), {static_cast<std::int64_t>(values_.size())}};
    return held_;
  }
  std::vector<T>& values() { return values_; }
  bool are_their_places() const {
    std::size_t at = 0;
    for (const ElementRange& range : held_.held)
      for (std::int64_t i = 0; i < range.count; ++i)
        if (values_[at++] != static_cast<T>(range.first + i)) return false;
    return true;
  }

  /// A layout of parameters of growing sizes, with gaps.
  static std::vector<Parameter> layout_of(std::int64_t count) {
    std::vector<Parameter> layout;
    for (std::int64_t first = 0, size = 5; first < count; size = size * 3 + 1) {
      Parameter parameter{};
      parameter.name = fmt::format("p{}", layout.size());
      parameter.shape = {std::min(size, count - first)};
      parameter.range = {first, parameter.shape.count()};
      layout.push_back(parameter);
      first += parameter.range.count + 3;
    }
    return layout;
  }

 private:
  ShardedState held_;
  std::vector<T> values_;
};

class CheckpointTransferTest : public testing::Test {
 protected:
  /// Runs `work` on rank 0 in a turn, which the other ranks serve. Collective.
  template <class Work>
  void in_turn(CheckpointTransfer& stream, Work work) const {
    ranks_.run_collectively([&] {
      if (!ranks_.is_root()) return stream.serve();
      const CheckpointTransfer::Turn turn(stream);
      work();
    });
  }

  const Communicator ranks_ = Communicator::world();
  Divided<float> few_{ranks_, "", 3000, 700};
  Divided<float> many_{ranks_, "exp_avg", 3 << 20, 400000};  // of three blocks, and exact as floats
  Divided<double> wide_{ranks_, "exp_avg_sq", 1 << 20, 4096};
  CheckpointTransfer stream_{ranks_, {few_.held(), many_.held(), wide_.held()}};

  static bool are_places(const ShardedState& numbers, const CheckpointTransfer::Block& block, const std::byte* bytes) {
    for (std::int64_t i = 0; i < block.count; ++i) {
      double value = 0;
      if (numbers.values.dtype == DType::f64) std::memcpy(&value, bytes + 8 * i, 8);
      else {
        float narrow = 0;
        std::memcpy(&narrow, bytes + 4 * i, 4);
        value = narrow;
      }
      if (value != static_cast<double>(block.first + i)) return false;
    }
    return true;
  }
  void expect_all() {
    std::vector<std::int64_t> collected(3);
    stream_.gather([&](const CheckpointTransfer::Block& block, const std::byte* bytes) {
      EXPECT_EQ(block.first, collected[block.of]);
      EXPECT_LE(static_cast<std::size_t>(block.count) * size_of(stream_.states()[block.of].values.dtype),
                CheckpointTransfer::block_bytes);
      EXPECT_TRUE(are_places(stream_.states()[block.of], block, bytes));
      collected[block.of] += block.count;
    });
    for (std::size_t of = 0; of < 3; ++of) EXPECT_EQ(collected[of], stream_.states()[of].size());
  }
};

TEST_F(CheckpointTransferTest, CollectsWhatRanksHold) {
  in_turn(stream_, [&] { expect_all(); });
  in_turn(stream_, [] {});  // rank 0 has nothing to do
  in_turn(stream_, [&] { expect_all(); });
}

TEST_F(CheckpointTransferTest, ScattersWhatRanksHold) {
  std::ranges::fill(few_.values(), -1.0F);
  std::ranges::fill(many_.values(), -1.0F);
  std::ranges::fill(wide_.values(), -1.0);
  in_turn(stream_, [&] {
    stream_.scatter([&](const CheckpointTransfer::Block& block, std::byte* bytes) {
      for (std::int64_t i = 0; i < block.count; ++i) {
        const auto value = static_cast<double>(block.first + i);
        const auto narrow = static_cast<float>(value);
        if (stream_.states()[block.of].values.dtype == DType::f64) std::memcpy(bytes + 8 * i, &value, 8);
        else std::memcpy(bytes + 4 * i, &narrow, 4);
      }
    });
  });
  EXPECT_TRUE(few_.are_their_places() && many_.are_their_places() && wide_.are_their_places());
}

TEST_F(CheckpointTransferTest, WhereRankZeroFailsNobodyIsLeftWaiting) {
  for (int after = 0; after < 6; ++after) {
    EXPECT_THROW(in_turn(stream_,
                         [&] {
                           stream_.gather([&, block = 0](const CheckpointTransfer::Block&, const std::byte*) mutable {
                             if (block++ == after) throw Error(ExitStatus::io_error, "the disk is full");
                           });
                         }),
                 SharedError);
    EXPECT_THROW(
        in_turn(stream_,
                [&] {
                  stream_.scatter([&, block = 0](const CheckpointTransfer::Block& one, std::byte* bytes) mutable {
                    std::memset(bytes, 0, static_cast<std::size_t>(one.count) * 4);
                    if (block++ == after) throw Error(ExitStatus::io_error, "the file is gone");
                  });
                }),
        SharedError);
  }
  EXPECT_THROW(in_turn(stream_,
                       [&] {
                         write_checkpoint("/no/such/folder/c.h5", {.arrays = arrays_of(stream_.states()), .texts = {}},
                                          source_of(stream_));
                       }),
               SharedError);
}

/// Ranks go on at different times, and may change their numbers as soon as these are copied.
TEST_F(CheckpointTransferTest, CopiesTravelBehindTheSteps) {
  if (!stream_.may_work_in_background()) GTEST_SKIP() << "this MPI serves no threads";
  stream_.make_room();
  for (int round = 0; round < 3; ++round) {
    BackgroundWork after;
    std::this_thread::sleep_for(std::chrono::milliseconds(10 * ((ranks_.rank() + round) % 3)));
    after.start(
        true, [&] { stream_.copy(ExecSpace()); },
        [&] {
          if (!ranks_.is_root()) return stream_.serve();
          const CheckpointTransfer::Turn turn(stream_);
          expect_all();
        });
    after.wait_for_copy();
    const std::vector<float> kept = many_.values();
    std::ranges::fill(many_.values(), -1.0F);
    for (std::int64_t i = 0; i < 20; ++i) EXPECT_EQ(ranks_.all_reduce_max(i), i);  // messages of the steps
    after.wait([] {});
    many_.values() = kept;
  }
}

TEST_F(CheckpointTransferTest, FilesOfOneTypeGoIntoTheOther) {
  const ScratchFolder folder;
  std::string file = folder / "c.h5";
  ranks_.broadcast(file);
  in_turn(stream_, [&] {
    write_checkpoint(file, {.arrays = arrays_of(stream_.states()), .texts = {{"state", "{}"}}}, source_of(stream_));
    EXPECT_EQ(open_checkpoint(file).arrays.size(), arrays_of(stream_.states()).size());
  });
  Divided<double> few(ranks_, "", 3000, 500);
  Divided<double> many(ranks_, "exp_avg", 3 << 20, 300000);
  Divided<float> wide(ranks_, "exp_avg_sq", 1 << 20, 5000);
  std::ranges::fill(few.values(), -1.0);
  std::ranges::fill(many.values(), -1.0);
  std::ranges::fill(wide.values(), -1.0F);
  CheckpointTransfer other(ranks_, {few.held(), many.held(), wide.held()});
  in_turn(other, [&] {
    CheckpointReader numbers(file);
    restore_numbers(other, numbers);
  });
  in_turn(other, [&] {
    other.gather([&](const CheckpointTransfer::Block& block, const std::byte* bytes) {
      const ShardedState& numbers = other.states()[block.of];
      const std::size_t element = size_of(numbers.values.dtype);
      for (const Parameter& parameter : numbers.layout) {  // without the gaps
        const std::int64_t first = std::max(parameter.range.first, block.first),
                           stop = std::min(parameter.range.first + parameter.range.count, block.first + block.count);
        if (first < stop) {
          EXPECT_TRUE(are_places(numbers, {block.of, first, stop - first},
                                 bytes + static_cast<std::size_t>(first - block.first) * element));
        }
      }
    });
  });
}

/// The largest number of bytes that this process has had in memory.
std::int64_t peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return 1024 * std::stoll(line.substr(6));
  return 0;
}

/// Many states, each held by one rank, as those of many groups or workers. (Must run before tests that need more
/// memory.)
TEST(CheckpointTransferMemory, NumbersShareTheirLayoutAndTheirHoldersAreFew) {
  const Communicator ranks = Communicator::world();
  constexpr std::int64_t parameters = 400, numbers = 4000;
  std::vector<Parameter> layout(parameters);
  for (std::int64_t i = 0; i < parameters; ++i) {
    Parameter& parameter = layout[static_cast<std::size_t>(i)];
    parameter.name = fmt::format("a layer with a long name {}", i);
    parameter.shape = {16};
    parameter.range = {16 * i, 16};
  }
  const std::int64_t before = peak_bytes();
  std::vector<float> values(16, static_cast<float>(ranks.rank()));
  const SharedLayout shared(std::move(layout));
  std::vector<ShardedState> all;
  for (std::int64_t i = 0; i < numbers; ++i) {
    ShardedState& each = all.emplace_back(ShardedState{.state = "state", .layout = shared, .held = {}, .values = {}});
    const bool holds = i % ranks.size() == ranks.rank();
    if (holds) each.held = {{160, 16}};
    each.values = {values.data(), DType::f32, {holds ? 16 : 0}};
  }
  CheckpointTransfer stream(ranks, std::move(all));
  ranks.run_collectively([&] {
    if (!ranks.is_root()) return stream.serve();
    const CheckpointTransfer::Turn turn(stream);
    std::int64_t blocks = 0;
    stream.gather([&](const CheckpointTransfer::Block& block, const std::byte* bytes) {
      float value = -1;
      std::memcpy(&value, bytes + 160 * sizeof value, sizeof value);
      EXPECT_EQ(value, static_cast<float>(block.of % static_cast<std::size_t>(ranks.size())));
      ++blocks;
    });
    EXPECT_EQ(blocks, numbers);
  });
  EXPECT_LT(peak_bytes() - before, std::int64_t{16} << 20);
}

/// (`perf/run streamed` is the long form of this test.)
TEST(CheckpointTransferMemory, RankZeroHoldsAFewBlocksAboveItsOwn) {
  const Communicator ranks = Communicator::world();
  constexpr std::int64_t count = 50'000'000;  // 200 MB
  const std::int64_t share = count / ranks.size(), first = share * ranks.rank(),
                     end = ranks.rank() + 1 == ranks.size() ? count : first + share;
  std::vector<float> values(static_cast<std::size_t>(end - first), 1.5F);
  Parameter parameter{};
  parameter.name = "large/weight";
  parameter.shape = {count};
  parameter.range = {0, count};
  const ScratchFolder folder;
  const std::int64_t before = peak_bytes();
  CheckpointTransfer stream(ranks, {{.state = "",
                                     .layout = std::vector{parameter},
                                     .held = {{first, end - first}},
                                     .values = {values.data(), DType::f32, {end - first}}}});
  ranks.run_collectively([&] {
    if (!ranks.is_root()) return stream.serve();
    const CheckpointTransfer::Turn turn(stream);
    write_checkpoint(folder / "c.h5", {.arrays = arrays_of(stream.states()), .texts = {{"state", "{}"}}},
                     source_of(stream));
  });
  const std::int64_t written = peak_bytes();
  ranks.run_collectively([&] {
    if (!ranks.is_root()) return stream.serve();
    const CheckpointTransfer::Turn turn(stream);
    CheckpointReader numbers(folder / "c.h5");
    restore_numbers(stream, numbers);
  });
  constexpr std::int64_t most = std::int64_t{64} << 20;
  EXPECT_LT(written - before, most);
  EXPECT_LT(peak_bytes() - before, most);
  EXPECT_TRUE(std::ranges::all_of(values, [](float value) { return value == 1.5F; }));
}

}  // namespace
}  // namespace lockstep::test
