// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "io/raw_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.hpp"

namespace lockstep {
namespace {

int flags_of(RawFile::Access access) {
  switch (access) {
    case RawFile::Access::read: return O_RDONLY;
    case RawFile::Access::change: return O_RDWR;
    case RawFile::Access::create: return O_RDWR | O_CREAT | O_TRUNC;
    case RawFile::Access::folder: return O_RDONLY | O_DIRECTORY;
  }
  return O_RDONLY;
}

}  // namespace

RawFile::RawFile(const std::filesystem::path& path, Access access, std::string name)
    : name_(std::move(name)), file_(::open(path.c_str(), flags_of(access) | O_CLOEXEC, S_IRUSR | S_IWUSR)) {
  validate(file_ >= 0, ExitStatus::io_error, "{}: cannot be opened ({}); check its permissions and its file system",
           name_, std::strerror(errno));
}

RawFile::~RawFile() {
  if (file_ >= 0) ::close(file_);
}

std::uint64_t RawFile::size() const {
  struct stat status{};
  const bool known = ::fstat(file_, &status) == 0;  // evaluated before errno is read
  validate(known, ExitStatus::io_error, "{}: cannot be read ({})", name_, std::strerror(errno));
  return static_cast<std::uint64_t>(status.st_size);
}

void RawFile::read(std::uint64_t offset, void* to, std::size_t bytes) const {
  auto* at = static_cast<std::byte*>(to);
  while (bytes > 0) {
    const ssize_t done = ::pread(file_, at, bytes, static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    validate(done >= 0, ExitStatus::io_error, "{}: cannot be read ({})", name_, std::strerror(errno));
    validate(done > 0, ExitStatus::io_error, "{}: cannot be read (it was truncated meanwhile)", name_);
    at += done, offset += static_cast<std::uint64_t>(done), bytes -= static_cast<std::size_t>(done);
  }
}

void RawFile::write(std::uint64_t offset, const void* from, std::size_t bytes) {
  const auto* at = static_cast<const std::byte*>(from);
  while (bytes > 0) {
    const ssize_t done = ::pwrite(file_, at, bytes, static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    validate(done > 0, ExitStatus::io_error, "{}: cannot be written ({}); check the disk and the quota", name_,
             done < 0 ? std::strerror(errno) : "no bytes were written");
    at += done, offset += static_cast<std::uint64_t>(done), bytes -= static_cast<std::size_t>(done);
  }
}

int RawFile::reserve(std::uint64_t offset, std::uint64_t bytes) {
  for (;;) {
    if (::fallocate(file_, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) == 0) return 0;
    if (errno != EINTR) return errno;
  }
}

void RawFile::flush_to_disk() {
  int failed = 0;
  do failed = ::fsync(file_);
  while (failed != 0 && errno == EINTR);
  validate(failed == 0 || errno == EINVAL || errno == ENOTSUP, ExitStatus::io_error,
           "{}: cannot be flushed to disk ({})", name_, std::strerror(errno));
}

void RawFile::close() {
  const bool closed = ::close(std::exchange(file_, -1)) == 0;
  validate(closed, ExitStatus::io_error, "{}: cannot be closed ({})", name_, std::strerror(errno));
}

}  // namespace lockstep
