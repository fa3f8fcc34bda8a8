// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/dataset/shared_reading.hpp"

#include <algorithm>
#include <span>
#include <string>

#include "comm/communicator.hpp"
#include "comm/node_memory.hpp"

namespace lockstep {

void SharedReading::run_collectively(const std::function<void()>& work) const {
  if (ranks_) ranks_->run_collectively([&] { with_positions(*deck_, work); });
  else work();
}

void SharedReading::agree(const std::string& where, const std::string& found) const {
  if (ranks_)
    expect_agreement(*ranks_, {"the data", fmt::format("{}: {}", where, found), "give all ranks the same files",
                               ExitStatus::bad_data});
}

SharedReading::Bytes SharedReading::load(std::size_t bytes, const std::function<void(std::byte*)>& fill) const {
  const bool alone = !node_ || node_->size() == 1;
  std::shared_ptr<std::byte[]> memory = alone || bytes == 0 ? nullptr : node_block(*node_, bytes);
  const bool shared = memory != nullptr;
  run_collectively([&] {
    if (!shared) memory.reset(new std::byte[bytes]);
    if (reads()) fill(memory.get());
  });
  if (!alone && !shared) node_->broadcast(std::span(memory.get(), bytes));
  return memory;
}

std::string SharedReading::from_reader(std::string text) const {
  if (node_) node_->broadcast(text);
  return text;
}

SharedReading::Part SharedReading::part_of(std::int64_t count) const {
  const std::int64_t ranks = ranks_ ? ranks_->size() : 1, rank = ranks_ ? ranks_->rank() : 0;
  return {count / ranks * rank + std::min(rank, count % ranks),
          count / ranks * (rank + 1) + std::min(rank + 1, count % ranks)};
}

}  // namespace lockstep
