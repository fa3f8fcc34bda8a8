// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "checkpoint/checkpoint_writer.hpp"

#include <gtest/gtest.h>
#include <limits>

#include <atomic>
#include <cstring>
#include <thread>

#include "base/log.hpp"
#include "support/scratch.hpp"

namespace lockstep {
namespace {

Checkpoint checkpoint_of(std::span<std::byte> memory, std::byte value) {
  std::memset(memory.data(), static_cast<int>(value), memory.size());
  Checkpoint checkpoint;
  checkpoint.arrays.push_back({"/model/fc/weight",
                               DType::u8,
                               {static_cast<std::int64_t>(memory.size())},
                               {std::shared_ptr<void>(), memory.data()}});
  checkpoint.texts = {{"state", "{}"}};
  return checkpoint;
}

std::byte value_in(const std::string& file) { return read_checkpoint(file).arrays[0].data[0]; }

TEST(CheckpointWriter, StepsGoOnWhileItWrites) {
  const test::ScratchFolder folder;
  CheckpointWriter writer(folder.path(), 2, -1);
  std::atomic<bool> may_commit = false;
  writer.write_async(3, checkpoint_of(writer.memory(1000), std::byte{3}), [&] {
    while (!may_commit) std::this_thread::yield();
  });
  EXPECT_EQ(writer.written_step(), -1);  // here already, and nothing is there yet
  EXPECT_TRUE(list_checkpoints(folder.path()).empty());
  may_commit = true;
  // The memory is that of the checkpoint that is being written: it is given out when that is done.
  const std::span<std::byte> memory = writer.memory(1000);
  EXPECT_EQ(writer.written_step(), 3);
  EXPECT_EQ(value_in(folder / "step-00000003.h5"), std::byte{3});
  writer.write_async(4, checkpoint_of(memory, std::byte{4}), {});
  writer.write_now(5, checkpoint_of(writer.memory(1000), std::byte{5}), {});
  EXPECT_EQ(writer.written_step(), 5);
  EXPECT_GT(writer.times().longest, 0);
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"latest", "step-00000004.h5", "step-00000005.h5"}));
  EXPECT_EQ(value_in(folder / "step-00000004.h5"), std::byte{4});
  EXPECT_EQ(value_in(folder / "latest"), std::byte{5});
}

TEST(CheckpointWriter, LiveNumbersAreCopiedBeforeTheyChange) {
  const test::ScratchFolder folder;
  CheckpointWriter writer(folder.path(), 2, -1);
  std::vector<std::byte> live(1 << 20);
  std::atomic<bool> may_commit = false;
  for (const int step : {1, 2}) {
    writer.memory(2 * live.size());
    Checkpoint checkpoint = checkpoint_of(live, static_cast<std::byte>(step));
    checkpoint.arrays.push_back(checkpoint.arrays[0]);
    checkpoint.arrays[1].name = "/model/fc/other";
    may_commit = false;
    writer.write_async(step, std::move(checkpoint), [&] {
      while (!may_commit) std::this_thread::yield();
    });
    writer.wait_for_snapshot();
    std::memset(live.data(), 99, live.size());
    may_commit = true;
    writer.wait();
    writer.wait_for_snapshot();  // nothing is looked at any more
    const Checkpoint found = read_checkpoint(folder / "latest");
    ASSERT_EQ(found.arrays.size(), 2u);
    for (const NamedArray& array : found.arrays)
      for (const std::size_t place : {std::size_t{0}, live.size() - 1})
        EXPECT_EQ(array.data[place], static_cast<std::byte>(step));
  }
  EXPECT_EQ(writer.times().behind, 2);
}

/// The newest one would be in the way of those that are of use.
TEST(CheckpointWriter, WritesNoNumbersThatAreNotFinite) {
  const test::ScratchFolder folder;
  CheckpointWriter writer(folder.path(), 1, -1);
  std::vector<float> numbers(1000, 1.0F);
  const auto checkpoint = [&] {
    Checkpoint made;
    made.arrays.push_back({"/model/fc/weight",
                           DType::f32,
                           {1000},
                           {std::shared_ptr<void>(), reinterpret_cast<const std::byte*>(numbers.data())}});
    made.texts = {{"state", "{}"}};
    return made;
  };
  writer.write_now(1, checkpoint(), {});
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    numbers[999] = bad;
    test::expect_error(ExitStatus::internal, "/model/fc/weight of step 2 holds numbers that are not finite",
                       [&] { writer.write_now(2, checkpoint(), {}); });
  }
  EXPECT_EQ(writer.written_step(), 1);
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"latest", "step-00000001.h5"}));
}

TEST(CheckpointWriter, AFailureIsSaidAndGoneOnFrom) {
  const test::ScratchFolder folder;
  enable_log(false);
  {
    CheckpointWriter writer(folder.path(), 2, 7);
    writer.write_async(8, checkpoint_of(writer.memory(10), std::byte{8}),
                       [] { throw Error(ExitStatus::io_error, "no disk"); });
    writer.wait();
    EXPECT_EQ(writer.written_step(), 7);
    EXPECT_TRUE(folder.names().empty());
    test::expect_error(ExitStatus::io_error, "no disk", [&] {
      writer.write_now(8, checkpoint_of(writer.memory(10), std::byte{8}),
                       [] { throw Error(ExitStatus::io_error, "no disk"); });
    });
    writer.write_async(9, checkpoint_of(writer.memory(10), std::byte{9}), {});
  }  // its end waits
  enable_log(true);
  EXPECT_EQ(value_in(folder / "latest"), std::byte{9});
}

}  // namespace
}  // namespace lockstep
