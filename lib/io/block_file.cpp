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
  }
  changed_.notify_all();
}

void BlockFile::start_read(std::size_t slot, Half half, std::size_t block) {
  start(Request::Kind::read, slot, half, block);
  block_in_[slot] = block;
  read_by_[slot] = started_;  // which this thread alone changes
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

void BlockFile::begin(Pass kind) {
  changes_ = kind == Pass::changes;
  to_ = changes_ && held_ == present_ ? (present_ == Half::first ? Half::second : Half::first) : present_;
  if (!is_ahead_) {
    wait_for_all();
    for (std::size_t block = 0; block < slots_; ++block) start_read((turn_ + block) % slots_, present_, block);
  }
  is_ahead_ = has_turned_ = false;
  left_ = blocks_;
  unread_ = slots_;
  unread_end_ = blocks_;
}

std::size_t BlockFile::last_left() const {
  const std::size_t unread = unread_end_ - unread_;
  std::size_t last = unread > 0 ? unread_end_ - 1 : 0;
  for (std::uint64_t turn = turn_; turn < turn_ + left_ - unread; ++turn)
    last = std::max(last, block_in_[turn % slots_]);
  return last;
}

bool BlockFile::is_here() {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  return done_ >= read_by_[turn_ % slots_];
}

void BlockFile::work(const Work& work) {
  const std::size_t slot = turn_ % slots_, block = next();
  wait_for(read_by_[slot]);
  work(block, memory(slot));
  if (changes_) start(Request::Kind::write, slot, to_, block);
  ++turn_;
  --left_;
  if (unread_ < unread_end_) start_read(slot, present_, has_turned_ ? --unread_end_ : unread_++);
  else start_read(slot, to_, slots_ - 1 - left_);  // of the next pass
  if (left_ > 0) return;
  present_ = to_;
  is_ahead_ = true;
}

void BlockFile::pass(Pass kind, const Work& each) {
  for (begin(kind); is_passing();) work(each);
}

void BlockFile::hold() {
  assert(!is_passing());
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
