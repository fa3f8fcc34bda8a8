// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "support/fixtures.hpp"

namespace lockstep::test {

/// A folder for one test, removed at its end.
class ScratchFolder : public TemporaryFolder {
 public:
  std::string operator/(const std::string& name) const { return (path() / name).string(); }
  /// Names of the folder's entries, sorted.
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(path()))
      found.push_back(entry.path().filename().string());
    std::sort(found.begin(), found.end());
    return found;
  }
};

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// Expects `action` to throw an Error with this status whose message contains `part`.
template <class Action>
void expect_error(ExitStatus status, const std::string& part, Action&& action) {
  try {
    action();
    ADD_FAILURE() << "no error; expected: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.status()), static_cast<int>(status)) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what() << "\nexpected: " << part;
  }
}

/// Path of a file of the real data; empty if it does not exist.
inline std::string real_data(const std::string& name) {
  const auto path = data_dir() / name;
  return !data_dir().empty() && std::filesystem::exists(path) ? path.string() : "";
}

}  // namespace lockstep::test
