// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/folder/run_folder.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "base/log.hpp"
#include "support/scratch.hpp"
#include "support/whole_checkpoint.hpp"

namespace lockstep {
namespace {

class RunFolderTest : public testing::Test {
 protected:
  RunFolderTest() {
    RunConfig config;
    config.run.output_dir = scratch_.path().string();
    config.run.resume = "auto";
    folder_.emplace(config);
    std::filesystem::create_directories(folder_->checkpoints());
    for (const std::int64_t step : {1, 2, 3}) {
      Checkpoint checkpoint;
      checkpoint.texts = {{"state", "{}"}};
      test::write_checkpoint(file(step), checkpoint);
    }
  }

  std::filesystem::path file(std::int64_t step) const { return folder_->checkpoints() / checkpoint_name(step); }
  void damage(std::int64_t step) const { std::filesystem::resize_file(file(step), 1000); }
  std::string newest(const std::string& but = "") const { return folder_->newest_checkpoint(but).value().file; }

  test::ScratchFolder scratch_;
  std::optional<RunFolder> folder_;
};

TEST_F(RunFolderTest, DamagedCheckpointsArePassedOver) {
  EXPECT_EQ(newest(), file(3));
  damage(3);
  EXPECT_EQ(newest(), file(2));
  damage(2), damage(1);
  EXPECT_THROW(newest(), Error);
}

TEST_F(RunFolderTest, OneThatIsNotWantedIsTakenIfThereIsNoOther) {
  EXPECT_EQ(newest(checkpoint_name(3)), file(2));
  EXPECT_EQ(newest(checkpoint_name(2)), file(3));
  damage(1), damage(2);
  EXPECT_EQ(newest(checkpoint_name(3)), file(3));
}

}  // namespace
}  // namespace lockstep
