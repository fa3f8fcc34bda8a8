// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// replay FOLDER…: runs a target on every file of its corpus, without libFuzzer. The short form, in every build.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "target.hpp"

int main(int argc, char** argv) {
  std::size_t files = 0;
  for (int i = 1; i < argc; ++i)
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      std::ifstream file(entry.path(), std::ios::binary);
      std::vector<std::uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
      std::printf("%s\n", entry.path().c_str());  // printed first: the last name is that of a crash
      std::fflush(stdout);
      lockstep::fuzz::read(bytes);
      lockstep::fuzz::mend(bytes);
      lockstep::fuzz::read(bytes);
      ++files;
    }
  std::printf("%zu files\n", files);
  return files > 0 ? 0 : 1;
}
