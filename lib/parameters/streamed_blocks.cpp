// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parameters/streamed_blocks.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace lockstep {

StreamedBlocks::StreamedBlocks(std::unique_ptr<BlockStore> store, std::size_t block_bytes, std::size_t blocks)
    : store_(std::move(store)),
      block_bytes_(block_bytes),
      blocks_(blocks),
      slots_(slots(blocks)),
      bytes_(static_cast<std::uint64_t>(block_bytes) * blocks) {
  assert(blocks > 0);
  store_->reserve(bytes_);
}

void StreamedBlocks::start_read(std::size_t slot, Half half, std::size_t block) {
  store_->start_read(slot, place(half, block * block_bytes_));
  block_in_[slot] = block;
}

void StreamedBlocks::begin(Pass kind) {
  changes_ = kind == Pass::changes;
  to_ = changes_ && held_ == present_ ? (present_ == Half::first ? Half::second : Half::first) : present_;
  if (!is_ahead_) {
    store_->settle();
    for (std::size_t block = 0; block < slots_; ++block) start_read((turn_ + block) % slots_, present_, block);
  }
  is_ahead_ = has_turned_ = false;
  left_ = blocks_;
  unread_ = slots_;
  unread_end_ = blocks_;
}

std::size_t StreamedBlocks::last_left() const {
  const std::size_t unread = unread_end_ - unread_;
  std::size_t last = unread > 0 ? unread_end_ - 1 : 0;
  for (std::uint64_t turn = turn_; turn < turn_ + left_ - unread; ++turn)
    last = std::max(last, block_in_[turn % slots_]);
  return last;
}

bool StreamedBlocks::is_left(std::size_t block) const {
  const std::size_t unread = unread_end_ - unread_;
  if (block >= unread_ && block < unread_end_) return true;
  for (std::uint64_t turn = turn_; turn + unread < turn_ + left_; ++turn)
    if (block_in_[turn % slots_] == block) return true;
  return false;
}

void StreamedBlocks::start_fetch(std::uint64_t offset, std::byte* to, std::size_t bytes) {
  const Half half = is_left(static_cast<std::size_t>(offset / block_bytes_)) ? present_ : to_;
  store_->start_fetch(place(half, offset), to, bytes);
}

void StreamedBlocks::work(const ExecSpace& space, const Work& work) {
  const std::size_t slot = turn_ % slots_, block = next();
  store_->await_read(space, slot);
  work(block, store_->memory(slot));
  store_->follow(space);
  if (changes_) store_->start_write(slot, place(to_, block * block_bytes_));
  ++turn_;
  --left_;
  if (unread_ < unread_end_) start_read(slot, present_, has_turned_ ? --unread_end_ : unread_++);
  else start_read(slot, to_, slots_ - 1 - left_);  // the first blocks of the next pass
  if (left_ > 0) return;
  present_ = to_;
  is_ahead_ = true;
}

void StreamedBlocks::pass(const ExecSpace& space, Pass kind, const Work& each) {
  for (begin(kind); is_passing();) work(space, each);
}

void StreamedBlocks::hold() {
  assert(!is_passing());
  store_->settle();  // otherwise reads could overtake writes
  held_ = present_;
}

void StreamedBlocks::read(Version version, std::uint64_t offset, std::byte* to, std::size_t bytes) {
  if (version == Version::present) store_->settle();
  store_->read(place(version == Version::present ? present_ : held_, offset), to, bytes);
}

void StreamedBlocks::write(std::uint64_t offset, const std::byte* from, std::size_t bytes) {
  store_->settle();
  is_ahead_ = false;
  store_->write(place(present_, offset), from, bytes);
}

}  // namespace lockstep
