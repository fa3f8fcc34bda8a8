// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/checkpoint_writer.hpp"

#include <gtest/gtest.h>

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
  writer.write_behind(3, checkpoint_of(writer.memory(1000), std::byte{3}), [&] {
    while (!may_commit) std::this_thread::yield();
  });
  EXPECT_EQ(writer.written_step(), -1);  // here already, and nothing is there yet
  EXPECT_TRUE(list_checkpoints(folder.path()).empty());
  may_commit = true;
  // The memory is that of the checkpoint that is being written: it is given out when that is done.
  const std::span<std::byte> memory = writer.memory(1000);
  EXPECT_EQ(writer.written_step(), 3);
  EXPECT_EQ(value_in(folder / "step-00000003.h5"), std::byte{3});
  writer.write_behind(4, checkpoint_of(memory, std::byte{4}), {});
  writer.write_now(5, checkpoint_of(writer.memory(1000), std::byte{5}), {});
  EXPECT_EQ(writer.written_step(), 5);
  EXPECT_GT(writer.longest_seconds(), 0);
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"latest", "step-00000004.h5", "step-00000005.h5"}));
  EXPECT_EQ(value_in(folder / "step-00000004.h5"), std::byte{4});
  EXPECT_EQ(value_in(folder / "latest"), std::byte{5});
}

TEST(CheckpointWriter, AFailureIsSaidAndGoneOnFrom) {
  const test::ScratchFolder folder;
  enable_log(false);
  {
    CheckpointWriter writer(folder.path(), 2, 7);
    writer.write_behind(8, checkpoint_of(writer.memory(10), std::byte{8}),
                        [] { throw Error(ExitStatus::io_error, "no disk"); });
    writer.wait();
    EXPECT_EQ(writer.written_step(), 7);
    EXPECT_TRUE(folder.names().empty());
    test::expect_error(ExitStatus::io_error, "no disk", [&] {
      writer.write_now(8, checkpoint_of(writer.memory(10), std::byte{8}),
                       [] { throw Error(ExitStatus::io_error, "no disk"); });
    });
    writer.write_behind(9, checkpoint_of(writer.memory(10), std::byte{9}), {});
  }  // its end waits
  enable_log(true);
  EXPECT_EQ(value_in(folder / "latest"), std::byte{9});
}

}  // namespace
}  // namespace lockstep
