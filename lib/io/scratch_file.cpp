// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "io/scratch_file.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

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

}  // namespace lockstep
