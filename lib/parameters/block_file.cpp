// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parameters/block_file.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "base/error.hpp"
#include "base/process.hpp"

namespace lockstep {
namespace {

bool is_full(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

/// Returns the descriptor of a new file that is already unlinked.
int open_nameless(const std::filesystem::path& folder) {
  std::error_code code;
  const bool exists = std::filesystem::exists(folder, code);
  validate(!code, ExitStatus::io_error, "{}: cannot be opened ({})", folder.string(), code.message());
  validate(exists, ExitStatus::missing_file, "{}: no such folder; create it on a disk of each node", folder.string());
  struct statfs system{};
  validate(::statfs(folder.c_str(), &system) != 0 || (system.f_type != TMPFS_MAGIC && system.f_type != RAMFS_MAGIC),
           ExitStatus::cannot_create,
           "{}: is in memory (tmpfs), so that no memory would be saved; name a folder on a disk", folder.string());
  const std::filesystem::path path = folder / ("lockstep-" + process_name() + ".scratch");
  const auto make = [&] {
    return ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_DIRECT, 0600);
  };
  int file = make();
  if (file < 0 && errno == EEXIST) {  // leftover of an ended process with this number
    ::unlink(path.c_str());
    file = make();
  }
  const int error = file < 0 ? errno : 0;
  ::unlink(path.c_str());  // some file systems create the file before they refuse O_DIRECT
  validate(error != EINVAL, ExitStatus::cannot_create,
           "{}: its file system cannot bypass the page cache (O_DIRECT), which would take the memory that offloading "
           "is to save; name a folder on another file system",
           folder.string());
  validate(!is_full(error), ExitStatus::io_error, "{}: no file can be created there ({}); make room", folder.string(),
           std::strerror(error));
  validate(error == 0, ExitStatus::cannot_create,
           "{}: no file can be created there ({}); name a folder where you may write", folder.string(),
           std::strerror(error));
  return file;
}

constexpr std::uint64_t aligned_down(std::uint64_t place) {
  return place / ScratchFile::alignment * ScratchFile::alignment;
}
constexpr std::uint64_t aligned_up(std::uint64_t place) { return aligned_down(place + ScratchFile::alignment - 1); }

}  // namespace

ScratchMemory scratch_memory(std::size_t bytes) {
  // With huge pages the disk gets fewer and longer requests: three times as fast on a virtual disk.
  constexpr std::size_t huge_page = std::size_t{2} << 20;
  const std::size_t alignment = bytes < huge_page ? ScratchFile::alignment : huge_page;
  const std::size_t whole = (bytes + alignment - 1) / alignment * alignment;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(alignment, whole));
  if (memory == nullptr) throw std::bad_alloc();
  if (alignment == huge_page) ::madvise(memory, bytes / huge_page * huge_page, MADV_HUGEPAGE);
  return {memory, [](std::byte* each) { std::free(each); }};
}

ScratchFile::ScratchFile(const std::filesystem::path& folder)
    : file_("scratch file in " + folder.string(), open_nameless(folder)) {}

void ScratchFile::reserve(std::uint64_t bytes) {
  if (bytes <= bytes_) return;
  const int error = file_.reserve(bytes_, bytes - bytes_);
  validate(error == 0 || error == EOPNOTSUPP, ExitStatus::io_error, "{}: there is no room for {} bytes ({}); make room",
           name(), bytes, std::strerror(error));
  // If the file system cannot reserve space, zeros are written everywhere. Otherwise one piece is written and read
  // back, to test that it supports O_DIRECT transfers.
  constexpr std::size_t most = std::size_t{1} << 20;
  const ScratchMemory zeros = scratch_memory(most);
  std::fill_n(zeros.get(), most, std::byte{0});
  const std::uint64_t end = error == 0 ? bytes_ + alignment : bytes;
  for (std::uint64_t at = bytes_; at < end;) {
    const auto piece = static_cast<std::size_t>(std::min<std::uint64_t>(most, end - at));
    write(at, zeros.get(), piece);
    at += piece;
  }
  read(bytes_, zeros.get(), alignment);
  bytes_ = bytes;
}

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
