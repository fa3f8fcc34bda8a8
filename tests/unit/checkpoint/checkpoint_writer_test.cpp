// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "checkpoint/checkpoint_writer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <thread>

#include "base/log.hpp"
#include "support/scratch.hpp"
#include "support/whole_checkpoint.hpp"

namespace lockstep::test {
namespace {

/// A parameter, as rank 0 holds it.
class Numbers {
 public:
  explicit Numbers(std::vector<float> values)
      : values_(std::move(values)), held_("numbers", DType::f32, {static_cast<std::int64_t>(values_.size())}) {
    put();
  }

  std::vector<ShardedState> held() const {
    const std::int64_t count = held_.get().count();
    Parameter parameter{};
    parameter.name = "fc/weight";
    parameter.shape = {count};
    parameter.range = {0, count};
    return {{.state = "", .layout = std::vector{parameter}, .held = {{0, count}}, .values = held_.get()}};
  }
  void set(float value) {
    std::ranges::fill(values_, value);
    put();
  }
  void set(std::size_t i, float value) {
    values_[i] = value;
    put();
  }

 private:
  void put() { copy_from_host(ExecSpace(), values_.data(), held_.get()); }

  std::vector<float> values_;
  OwnedTensor held_;
};

class CheckpointWriterTest : public testing::Test {
 protected:
  static CheckpointWriter::Contents contents(std::function<void()> before_commit = {}) {
    return {.texts = {{"state", "{}"}}, .before_commit = std::move(before_commit), .best = {}};
  }
  CheckpointWriterTest() { stream_.make_room(); }

  void write_async(CheckpointWriter& writer, std::int64_t step, std::function<void()> before_commit = {}) {
    writer.write_async(step, contents(std::move(before_commit)),
                       memory_is_separate ? CheckpointWriter::Copy::at_once : CheckpointWriter::Copy::in_background);
  }
  void write_now(CheckpointWriter& writer, std::int64_t step, std::function<void()> before_commit = {}) {
    CheckpointTransfer::Turn turn(stream_);
    stream_.forget_copy();
    writer.write_now(step, contents(std::move(before_commit)), turn);
  }
  float value_in(const std::string& name) const {
    float value = 0;
    std::memcpy(&value, read_checkpoint(folder_ / name).arrays[0].data.get(), sizeof value);
    return value;
  }

  const ScratchFolder folder_;
  Numbers numbers_{std::vector<float>(std::size_t{3} << 20, 1)};  // three blocks
  CheckpointTransfer stream_{Communicator::alone(), numbers_.held()};
};

TEST_F(CheckpointWriterTest, StepsGoOnWhileItWrites) {
  CheckpointWriter writer(stream_, folder_.path(), 2, -1);
  std::atomic<bool> may_commit = false;
  numbers_.set(3);
  write_async(writer, 3, [&] {
    while (!may_commit) std::this_thread::yield();
  });
  EXPECT_EQ(writer.written_step(), -1);  // write_async returns before any file exists
  EXPECT_TRUE(list_checkpoints(folder_.path()).empty());
  writer.wait_for_snapshot();
  numbers_.set(4);
  may_commit = true;
  // The snapshot still belongs to the checkpoint that is being written: the next one waits for its end.
  write_async(writer, 4);
  EXPECT_EQ(writer.written_step(), 3);
  EXPECT_EQ(value_in("step-00000003.h5"), 3);
  writer.wait();
  numbers_.set(5);
  write_now(writer, 5);
  EXPECT_EQ(writer.written_step(), 5);
  EXPECT_GT(writer.times().longest, 0);
  EXPECT_EQ(writer.times().in_background, 2);
  EXPECT_EQ(folder_.names(), (std::vector<std::string>{"latest", "step-00000004.h5", "step-00000005.h5"}));
  EXPECT_EQ(value_in("step-00000004.h5"), 4);
  EXPECT_EQ(value_in("latest"), 5);
}

TEST_F(CheckpointWriterTest, NumbersMayChangeOnceTheyAreCopied) {
  CheckpointWriter writer(stream_, folder_.path(), 2, -1);
  for (const int step : {1, 2}) {
    std::atomic<bool> may_commit = false;
    numbers_.set(static_cast<float>(step));
    write_async(writer, step, [&] {
      while (!may_commit) std::this_thread::yield();
    });
    writer.wait_for_snapshot();
    numbers_.set(99);
    may_commit = true;
    writer.wait();
    writer.wait_for_snapshot();  // without effect once the checkpoint is written
    const Checkpoint found = read_checkpoint(folder_ / "latest");
    const auto* values = reinterpret_cast<const float*>(found.arrays.at(0).data.get());
    EXPECT_TRUE(std::all_of(values, values + found.arrays[0].shape.count(),
                            [&](float value) { return value == static_cast<float>(step); }));
  }
}

/// As the newest checkpoint, one with such numbers would displace those that a run could resume from.
TEST_F(CheckpointWriterTest, WritesNoNumbersThatAreNotFinite) {
  CheckpointWriter writer(stream_, folder_.path(), 1, -1);
  write_now(writer, 1);
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    numbers_.set(2000000, bad);
    expect_error(ExitStatus::internal, "/model/fc/weight of step 2 holds numbers that are not finite",
                 [&] { write_now(writer, 2); });
  }
  EXPECT_EQ(writer.written_step(), 1);
  EXPECT_EQ(folder_.names(), (std::vector<std::string>{"latest", "step-00000001.h5"}));
}

TEST_F(CheckpointWriterTest, AFailureIsSaidAndGoneOnFrom) {
  const auto fail = [] { throw Error(ExitStatus::io_error, "no disk"); };
  enable_log(false);
  {
    CheckpointWriter writer(stream_, folder_.path(), 2, 7);
    write_async(writer, 8, fail);
    writer.wait();
    EXPECT_EQ(writer.written_step(), 7);
    EXPECT_TRUE(folder_.names().empty());
    expect_error(ExitStatus::io_error, "no disk", [&] { write_now(writer, 8, fail); });
    numbers_.set(9);
    write_async(writer, 9);
  }  // the destructor waits for the write
  enable_log(true);
  EXPECT_EQ(value_in("latest"), 9);
}

}  // namespace
}  // namespace lockstep::test
