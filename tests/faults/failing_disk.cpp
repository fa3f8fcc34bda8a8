// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A failing disk, for LD_PRELOAD: counts the calls that write files whose names contain a word, and lets some fail.
// LOCKSTEP_DISK="WORD CALL NUMBER ERROR". CALL: open, write, fsync, rename or close; all, which only counts; or read or
// reserve, which count only if named here. NUMBER: which call fails, from 1; -N: the N-th and all after it; 0: all.
// ERROR: ENOSPC, EIO, EINVAL, EACCES; or short: a write takes only a part of its bytes; or stall: the call takes 35 s.
// LOCKSTEP_DISK_COUNTS: a file to which each call adds a line. LOCKSTEP_DISK_RANK: the only rank concerned, if given.
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

struct Plan {
  bool active = false;
  std::string word, call, error;
  long number = 0;
  const char* counts = nullptr;

  Plan() {
    const char* text = std::getenv("LOCKSTEP_DISK");
    const char* wanted = std::getenv("LOCKSTEP_DISK_RANK");
    const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
    if (!text || (wanted && std::strcmp(wanted, rank ? rank : "0") != 0)) return;
    char a[256], b[32], c[32];
    active = std::sscanf(text, "%255s %31s %ld %31s", a, b, &number, c) == 4;
    word = a, call = b, error = c;
    counts = std::getenv("LOCKSTEP_DISK_COUNTS");
  }
};

const Plan& plan() {
  static const Plan instance;
  return instance;
}

template <class F>
F next(const char* name) {
  return reinterpret_cast<F>(::dlsym(RTLD_NEXT, name));
}

std::atomic<long> done = 0;

/// Counts this call; true, with errno set, if it has to fail.
bool fails(const char* call, const char* path) {
  const Plan& p = plan();
  if (!p.active || !path || !std::strstr(path, p.word.c_str())) return false;
  if (p.counts) {
    const int file = next<int (*)(const char*, int, ...)>("open")(p.counts, O_WRONLY | O_CREAT | O_APPEND, 0666);
    const std::string line = std::string(call) + "\n";
    if (next<ssize_t (*)(int, const void*, size_t)>("write")(file, line.data(), line.size()) < 0) std::abort();
    next<int (*)(int)>("close")(file);
  }
  if (p.call != call) return false;
  const long number = ++done;
  if (p.number > 0 && number != p.number) return false;
  if (p.number < 0 && number < -p.number) return false;
  if (p.error == "stall") {
    for (unsigned left = 35; left > 0;) left = ::sleep(left);  // a signal interrupts it
    return false;
  }
  errno = p.error == "EIO" ? EIO : p.error == "EINVAL" ? EINVAL : p.error == "EACCES" ? EACCES : ENOSPC;
  return true;
}

bool fails(const char* call, int file) {
  if (!plan().active) return false;
  char link[64], path[PATH_MAX];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t size = ::readlink(link, path, sizeof path - 1);
  if (size < 0) return false;
  path[size] = 0;
  return fails(call, path);
}

/// A write that may fail, or write only a part.
template <class Write>
ssize_t write_some(int file, size_t size, Write write) {
  if (!fails("write", file)) return write(size);
  if (plan().error != "short") return -1;
  return size > 1 ? write(size / 2) : write(size);
}

int open_as(const char* name, const char* path, int flags, va_list arguments) {
  const mode_t mode = (flags & O_CREAT) != 0 ? static_cast<mode_t>(va_arg(arguments, int)) : 0;
  if ((flags & O_ACCMODE) != O_RDONLY && fails("open", path)) return -1;
  return next<int (*)(const char*, int, ...)>(name)(path, flags, mode);
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const int file = open_as("open", path, flags, arguments);
  va_end(arguments);
  return file;
}
int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const int file = open_as("open64", path, flags, arguments);
  va_end(arguments);
  return file;
}
ssize_t write(int file, const void* from, size_t size) {
  return write_some(file, size,
                    [&](size_t n) { return next<ssize_t (*)(int, const void*, size_t)>("write")(file, from, n); });
}
ssize_t pwrite(int file, const void* from, size_t size, off_t at) {
  return write_some(file, size, [&](size_t n) {
    return next<ssize_t (*)(int, const void*, size_t, off_t)>("pwrite")(file, from, n, at);
  });
}
ssize_t pwrite64(int file, const void* from, size_t size, off64_t at) {
  return write_some(file, size, [&](size_t n) {
    return next<ssize_t (*)(int, const void*, size_t, off64_t)>("pwrite64")(file, from, n, at);
  });
}
ssize_t pread(int file, void* to, size_t size, off_t at) {
  if (plan().call == "read" && fails("read", file)) return -1;
  return next<ssize_t (*)(int, void*, size_t, off_t)>("pread")(file, to, size, at);
}
ssize_t pread64(int file, void* to, size_t size, off64_t at) {
  if (plan().call == "read" && fails("read", file)) return -1;
  return next<ssize_t (*)(int, void*, size_t, off64_t)>("pread64")(file, to, size, at);
}
int fallocate(int file, int mode, off_t at, off_t size) {
  if (plan().call == "reserve" && fails("reserve", file)) return -1;
  return next<int (*)(int, int, off_t, off_t)>("fallocate")(file, mode, at, size);
}
int fallocate64(int file, int mode, off64_t at, off64_t size) {
  if (plan().call == "reserve" && fails("reserve", file)) return -1;
  return next<int (*)(int, int, off64_t, off64_t)>("fallocate64")(file, mode, at, size);
}
int fflush(FILE* stream) {
  if (stream && fails("write", ::fileno(stream))) return EOF;
  return next<int (*)(FILE*)>("fflush")(stream);
}
int fsync(int file) {
  if (fails("fsync", file)) return -1;
  return next<int (*)(int)>("fsync")(file);
}
int ftruncate(int file, off_t size) noexcept {
  if (fails("write", file)) return -1;
  return next<int (*)(int, off_t)>("ftruncate")(file, size);
}
int ftruncate64(int file, off64_t size) noexcept {
  if (fails("write", file)) return -1;
  return next<int (*)(int, off64_t)>("ftruncate64")(file, size);
}
int rename(const char* from, const char* to) noexcept {
  if (fails("rename", to)) return -1;
  return next<int (*)(const char*, const char*)>("rename")(from, to);
}
int close(int file) {
  const bool fault = fails("close", file);
  const int cause = errno;
  const int result = next<int (*)(int)>("close")(file);  // the file is closed even if the call has to fail
  if (fault) errno = cause;
  return fault ? -1 : result;
}
}
