// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "io/block_file.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace lockstep {
namespace {

constexpr std::size_t copied_bytes = std::size_t{1} << 20;

constexpr std::uint64_t aligned_down(std::uint64_t place) {
  return place / ScratchFile::alignment * ScratchFile::alignment;
}
constexpr std::uint64_t aligned_up(std::uint64_t place) { return aligned_down(place + ScratchFile::alignment - 1); }

}  // namespace

BlockFile::BlockFile(const std::filesystem::path& folder, std::size_t block_bytes, std::size_t blocks)
    : block_bytes_(block_bytes),
      blocks_(blocks),
      slots_(std::min(blocks, most_in_memory)),
      bytes_(static_cast<std::uint64_t>(block_bytes) * blocks),
      file_(folder),
      memory_(scratch_memory(slots_ * block_bytes)),
      copied_(scratch_memory(copied_bytes)) {
  assert(blocks > 0 && block_bytes % ScratchFile::alignment == 0);
  file_.reserve(bytes_);
  thread_ = std::thread([this] { serve(); });
}

BlockFile::~BlockFile() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void BlockFile::serve() {
  for (std::unique_lock lock(mutex_);;) {
    changed_.wait(lock, [this] { return ends_ || started_ > done_; });
    if (ends_) return;
    const Request request = requests_[done_ % requests_.size()];
    std::exception_ptr failure = failure_;
    lock.unlock();
    try {
      if (!failure && request.kind == Request::Kind::read)
        file_.read(request.place, memory(request.slot), block_bytes_);
      else if (!failure) file_.write(request.place, memory(request.slot), block_bytes_);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    failure_ = failure;
    ++done_;
    changed_.notify_all();
  }
}

void BlockFile::start(Request::Kind kind, std::size_t slot, Half half, std::size_t block) {
  {
    const std::lock_guard lock(mutex_);
    assert(started_ - done_ < requests_.size());
    requests_[started_ % requests_.size()] = {kind, slot, place(half, block * block_bytes_)};
    ++started_;
    if (kind == Request::Kind::read) read_by_[slot] = started_;
  }
  changed_.notify_all();
}

void BlockFile::wait_for(std::uint64_t requests) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= requests; });
  if (failure_) std::rethrow_exception(failure_);
}

void BlockFile::wait_for_all() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return done_ == started_; });
  if (failure_) std::rethrow_exception(failure_);
}

void BlockFile::pass(Pass kind, const std::function<void(std::size_t, std::byte*)>& work) {
  using Kind = Request::Kind;
  const Half from = present_;
  const Half to = kind == Pass::changes && held_ == from ? (from == Half::first ? Half::second : Half::first) : from;
  const auto slot_of = [&](std::size_t block) { return static_cast<std::size_t>((turn_ + block) % slots_); };
  if (!is_ahead_) {
    wait_for_all();
    for (std::size_t block = 0; block < slots_; ++block) start(Kind::read, slot_of(block), from, block);
  }
  is_ahead_ = false;  // should anything throw
  for (std::size_t block = 0; block < blocks_; ++block) {
    const std::size_t slot = slot_of(block);
    wait_for(read_by_[slot]);
    work(block, memory(slot));
    if (kind == Pass::changes) start(Kind::write, slot, to, block);
    if (const std::size_t next = block + slots_; next < blocks_) start(Kind::read, slot, from, next);
    else start(Kind::read, slot, to, next - blocks_);
  }
  turn_ += blocks_;
  present_ = to;
  is_ahead_ = true;
}

void BlockFile::hold() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return done_ == started_; });  // else reads might come before writes
  held_ = present_;
}

void BlockFile::read(Version version, std::uint64_t offset, std::byte* to, std::size_t bytes) {
  if (version == Version::present) wait_for_all();
  else wait_for(0);
  const Half half = version == Version::present ? present_ : held_;
  const std::lock_guard lock(copying_);
  while (bytes > 0) {
    const std::uint64_t first = aligned_down(offset), before = offset - first;
    const std::size_t count = std::min<std::size_t>(bytes, copied_bytes - before);
    file_.read(place(half, first), copied_.get(), aligned_up(before + count));
    std::memcpy(to, copied_.get() + before, count);
    offset += count, to += count, bytes -= count;
  }
}

void BlockFile::write(std::uint64_t offset, const std::byte* from, std::size_t bytes) {
  wait_for_all();
  is_ahead_ = false;
  const std::lock_guard lock(copying_);
  while (bytes > 0) {
    const std::uint64_t first = aligned_down(offset), before = offset - first;
    const std::size_t count = std::min<std::size_t>(bytes, copied_bytes - before), whole = aligned_up(before + count);
    if (before > 0 || whole > before + count) file_.read(place(present_, first), copied_.get(), whole);
    std::memcpy(copied_.get() + before, from, count);
    file_.write(place(present_, first), copied_.get(), whole);
    offset += count, from += count, bytes -= count;
  }
}

}  // namespace lockstep
