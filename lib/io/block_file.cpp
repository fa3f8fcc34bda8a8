// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "io/block_file.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

namespace lockstep {
namespace {

constexpr std::uint64_t aligned_down(std::uint64_t place) {
  return place / ScratchFile::alignment * ScratchFile::alignment;
}
constexpr std::uint64_t aligned_up(std::uint64_t place) { return aligned_down(place + ScratchFile::alignment - 1); }

}  // namespace

BlockFile::BlockFile(const std::filesystem::path& folder, std::size_t block_bytes, std::size_t slots)
    : block_bytes_(block_bytes),
      file_(folder),
      memory_(scratch_memory(slots * block_bytes)),
      read_by_(slots),
      copied_(scratch_memory(copied_bytes)),
      requests_(2 * slots) {
  assert(block_bytes % ScratchFile::alignment == 0);
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
      if (!failure) serve(request);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    failure_ = failure;
    ++done_;
    changed_.notify_all();
  }
}

void BlockFile::serve(const Request& request) {
  switch (request.kind) {
    case Request::Kind::read: return file_.read(request.place, request.memory, request.bytes);
    case Request::Kind::write: return file_.write(request.place, request.memory, request.bytes);
    case Request::Kind::fetch: return copy_from_file(request.place, request.memory, request.bytes);
  }
}

void BlockFile::start(const Request& request) {
  {
    const std::lock_guard lock(mutex_);
    if (started_ - done_ == requests_.size()) {
      std::vector<Request> more(2 * requests_.size());
      for (std::uint64_t i = done_; i < started_; ++i) more[i % more.size()] = requests_[i % requests_.size()];
      requests_ = std::move(more);
    }
    requests_[started_ % requests_.size()] = request;
    ++started_;
  }
  changed_.notify_all();
}

void BlockFile::start_read(std::size_t slot, std::uint64_t place) {
  start(Request::Kind::read, slot, place);
  read_by_[slot] = started_;  // `started_` is changed only by this thread
}

void BlockFile::wait_for(std::uint64_t requests) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= requests; });
  if (failure_) std::rethrow_exception(failure_);
}

void BlockFile::start_fetch(std::uint64_t place, std::byte* to, std::size_t bytes) {
  start({Request::Kind::fetch, place, to, bytes});
  fetched_by_ = started_;
}

bool BlockFile::has_done(std::uint64_t requests) {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  return done_ >= requests;
}

void BlockFile::settle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return done_ == started_; });
}

void BlockFile::read(std::uint64_t place, std::byte* to, std::size_t bytes) {
  wait_for(0);
  copy_from_file(place, to, bytes);
}

void BlockFile::copy_from_file(std::uint64_t place, std::byte* to, std::size_t bytes) {
  const std::lock_guard lock(copying_);
  while (bytes > 0) {
    const std::uint64_t first = aligned_down(place), before = place - first;
    const std::size_t count = std::min<std::size_t>(bytes, copied_bytes - before);
    file_.read(first, copied_.get(), aligned_up(before + count));
    std::memcpy(to, copied_.get() + before, count);
    place += count, to += count, bytes -= count;
  }
}

void BlockFile::write(std::uint64_t place, const std::byte* from, std::size_t bytes) {
  wait_for(0);
  const std::lock_guard lock(copying_);
  while (bytes > 0) {
    const std::uint64_t first = aligned_down(place), before = place - first;
    const std::size_t count = std::min<std::size_t>(bytes, copied_bytes - before), whole = aligned_up(before + count);
    if (before > 0 || whole > before + count) file_.read(first, copied_.get(), whole);
    std::memcpy(copied_.get() + before, from, count);
    file_.write(first, copied_.get(), whole);
    place += count, from += count, bytes -= count;
  }
}

}  // namespace lockstep
