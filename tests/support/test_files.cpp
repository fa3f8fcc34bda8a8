// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <stdlib.h>

#include <cstdlib>
#include <stdexcept>

#include "base/text_file.hpp"
#include "comm/communicator.hpp"
#include "support/fixtures.hpp"

namespace lockstep::test {

TemporaryFolder::TemporaryFolder() {
  const Communicator comm = Communicator::world();
  std::string name = (std::filesystem::temp_directory_path() / "lockstep-test-XXXXXX").string();
  comm.run_collectively([&] {
    if (comm.is_root() && mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder can be made");
  });
  comm.broadcast(name);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  const Communicator comm = Communicator::world();
  if (comm.size() > 1) comm.barrier();
  std::error_code ignored;
  if (comm.is_root()) std::filesystem::remove_all(path_, ignored);
}

std::filesystem::path data_dir() {
  const char* named = std::getenv("LOCKSTEP_DATA_DIR");
  const std::filesystem::path path = named
                                         ? std::filesystem::path(named)
                                         : std::filesystem::path(LOCKSTEP_SOURCE_DIR).parent_path() / "shared" / "data";
  return std::filesystem::is_directory(path) ? path : std::filesystem::path();
}

std::string read_golden(const std::string& name) {
  const char* elsewhere = std::getenv("LOCKSTEP_GOLDEN_DIR");  // for test programs run on another machine
  return read_text_file((elsewhere ? std::string(elsewhere) : LOCKSTEP_SOURCE_DIR "/tests/golden") + "/" + name);
}

}  // namespace lockstep::test
