// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "base/text_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.hpp"

namespace lockstep {
namespace {

using testing::StartsWith;

TEST(ReadTextFile, SaysWhatIsWrong) {
  const auto refused = [](const std::string& file, ExitStatus status, const std::string& message) {
    try {
      read_text_file(file);
      ADD_FAILURE() << "not refused: " << file;
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), status);
      EXPECT_THAT(error.what(), StartsWith(file + ": " + message));
    }
  };
  refused("/nonexistent/deck.yaml", ExitStatus::missing_file, "no such file");
  refused("/", ExitStatus::bad_data, "is a folder");
  refused("/proc/self/mem", ExitStatus::io_error, "cannot be read");  // opens, but reading its first byte fails
}

TEST(TextFile, IsReadIfItCanBe) {
  const std::string file = testing::TempDir() + "lockstep_text_file_" + std::to_string(::getpid());
  EXPECT_EQ(text_if_readable(file), "");
  EXPECT_FALSE(file_begins_with(file, "a")) << "none is there";
  std::ofstream(file) << "ab\n";
  EXPECT_EQ(text_if_readable(file), "ab\n");
  EXPECT_TRUE(file_begins_with(file, "ab"));
  EXPECT_FALSE(file_begins_with(file, "b"));
  EXPECT_FALSE(file_begins_with(file, "ab\nc")) << "the file is shorter";
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace lockstep
