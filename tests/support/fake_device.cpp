// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/fake_device.hpp"

#include <execinfo.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

namespace lockstep::fake_device {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t huge_page = 2 << 20;  // protection of a whole huge page changes at once

struct Region {
  std::size_t bytes;  // requested size
  std::size_t size;   // size in whole pages
  std::size_t guard;  // inaccessible bytes of the same mapping before and after it
  std::string label;
  bool is_shared = false;  // mapped as shared with forked processes
};

struct Copy {
  const void* stream;
  std::uint64_t number;  // position in the order of all copies
  void* to;
  const void* from;
  std::size_t bytes;
  bool ordered;  // ordered after the kernels that write its source
};

struct Device {
  std::mutex lock;
  std::map<std::uintptr_t, Region> regions;  // keyed by first address
  int at_work = 0;                           // kernels and copies in progress
  std::vector<Copy> pending;
  std::uint64_t kernels = 0, copies = 0;  // number started so far
  // Streams other than the step's: number of kernels that each is ordered after.
  std::map<const void*, std::uint64_t> streams;
  struct sigaction before = {};                     // previous action for SIGSEGV
  Kokkos::Tools::beginFunction listener = nullptr;  // previous listener for kernels
};

/// Never destroyed, because buffers of static objects may be released later.
Device& device() {
  static auto* const device = new Device;
  return *device;
}

void protect(int protection) {
  for (const auto& [first, region] : device().regions)
    mprotect(reinterpret_cast<void*>(first), region.size, protection);
}

/// The caller must hold the lock, for this and close_memory.
void open_memory() {
  if (device().at_work++ == 0) protect(PROT_READ | PROT_WRITE);
}
void close_memory() {
  if (--device().at_work == 0) protect(PROT_NONE);
}

/// Executes the pending copies for which `due` holds, and returns whether there were any. The caller must hold the
/// lock.
template <class Due>
bool make_copies(Due due) {
  std::vector<Copy>& pending = device().pending;
  if (std::ranges::none_of(pending, due)) return false;
  open_memory();
  for (const Copy& copy : pending) {
    if (!due(copy)) continue;
    if (copy.ordered) std::memcpy(copy.to, copy.from, copy.bytes);
    else std::memset(copy.to, 0xFF, copy.bytes);  // NaN
  }
  close_memory();
  std::erase_if(pending, due);
  return true;
}

bool is_of_the_step(const Copy& copy) { return !device().streams.contains(copy.stream); }

void begin() {
  const std::lock_guard lock(device().lock);
  open_memory();
  make_copies(is_of_the_step);
}

void end() {
  const std::lock_guard lock(device().lock);
  close_memory();
}

void begin_kernel(const char* name, std::uint32_t device_id, std::uint64_t* id) {
  begin();
  {
    const std::lock_guard lock(device().lock);
    ++device().kernels;
  }
  if (device().listener) device().listener(name, device_id, id);
}
void end_kernel(std::uint64_t) { end(); }

void begin_copy(Kokkos::Tools::SpaceHandle, const char*, const void*, Kokkos::Tools::SpaceHandle, const char*,
                const void*, std::uint64_t) {
  begin();
}

/// Executes the copies of all streams, because Kokkos does not say which of its Serial instances the fence waits for.
void begin_fence(const char*, std::uint32_t, std::uint64_t*) {
  const std::lock_guard lock(device().lock);
  make_copies([](const Copy&) { return true; });
  for (auto& [stream, after] : device().streams) after = device().kernels;
}

const std::pair<const std::uintptr_t, Region>* find(const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const auto next = device().regions.upper_bound(at);
  if (next == device().regions.begin()) return nullptr;
  const auto& region = *std::prev(next);
  return at < region.first + region.second.size ? &region : nullptr;
}

/// Reports the touched memory and the backtrace. After the return the access faults again, with the previous action.
void report(int, siginfo_t* info, void*) {
  if (const auto* region = find(info->si_addr)) {
    std::array<char, 256> text;
    const auto end = fmt::format_to_n(
        text.data(), text.size(), "error: the host touches device memory: byte {} of {}\n",
        reinterpret_cast<std::uintptr_t>(info->si_addr) - region->first, region->second.label);
    [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), std::min(end.size, text.size()));
    std::array<void*, 32> frames;
    backtrace_symbols_fd(frames.data(), backtrace(frames.data(), static_cast<int>(frames.size())), STDERR_FILENO);
  }
  sigaction(SIGSEGV, &device().before, nullptr);
}

void listen() {
  namespace tools = Kokkos::Tools::Experimental;
  device().listener = tools::get_callbacks().begin_parallel_for;
  tools::set_begin_parallel_for_callback(begin_kernel);
  tools::set_begin_parallel_reduce_callback(begin_kernel);
  tools::set_begin_parallel_scan_callback(begin_kernel);
  tools::set_end_parallel_for_callback(end_kernel);
  tools::set_end_parallel_reduce_callback(end_kernel);
  tools::set_end_parallel_scan_callback(end_kernel);
  tools::set_begin_deep_copy_callback(begin_copy);
  tools::set_end_deep_copy_callback(end);
  tools::set_begin_fence_callback(begin_fence);
  struct sigaction action = {};
  action.sa_sigaction = report;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, &device().before);
}

/// Remaps the device memory so that forked processes share it from now on. Not done from the start, because shared
/// memory has no huge pages and its protection takes longer to change. The caller must hold the lock.
void share_memory() {
  open_memory();
  for (auto& [first, region] : device().regions) {
    if (std::exchange(region.is_shared, true)) continue;
    void* const shared = mmap(nullptr, region.size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) throw std::bad_alloc();
    auto* const at = reinterpret_cast<void*>(first);
    std::memcpy(shared, at, region.size);
    if (mremap(shared, region.size, region.size, MREMAP_MAYMOVE | MREMAP_FIXED, at) == MAP_FAILED)
      throw std::bad_alloc();
  }
  close_memory();
}

void release(std::byte* first) {
  const std::lock_guard lock(device().lock);
  make_copies([](const Copy&) { return true; });  // some may concern this memory
  const auto region = device().regions.find(reinterpret_cast<std::uintptr_t>(first));
  munmap(first - region->second.guard, region->second.size + 2 * region->second.guard);
  device().regions.erase(region);
}

}  // namespace

std::shared_ptr<std::byte> allocate(const std::string& label, std::size_t bytes) {
  static const bool listening = (listen(), true);
  static_cast<void>(listening);
  const std::size_t guard = bytes < huge_page ? page : huge_page,
                    size = std::max(guard, (bytes + guard - 1) / guard * guard);
  void* const all = mmap(nullptr, size + 2 * guard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) throw std::bad_alloc();
  auto* const first = static_cast<std::byte*>(all) + guard;
  if (guard == huge_page) madvise(first, size, MADV_HUGEPAGE);
  const std::lock_guard lock(device().lock);
  device().regions[reinterpret_cast<std::uintptr_t>(first)] = {
      .bytes = bytes, .size = size, .guard = guard, .label = label};
  return {first, release};
}

std::size_t bytes_in_use() {
  const std::lock_guard lock(device().lock);
  std::size_t bytes = 0;
  for (const auto& [first, region] : device().regions) bytes += region.bytes;
  return bytes;
}

bool owns(const void* address) {
  const std::lock_guard lock(device().lock);
  return find(address) != nullptr;
}

void add_stream(const void* stream) {
  const std::lock_guard lock(device().lock);
  device().streams[stream] = 0;
}

void copy_later(const void* stream, void* to, const void* from, std::size_t bytes) {
  const std::lock_guard lock(device().lock);
  const auto streams = device().streams.find(stream);
  const bool ordered = streams == device().streams.end() || !find(from) || streams->second == device().kernels;
  device().pending.push_back({stream, ++device().copies, to, from, bytes, ordered});
}

Moment now(const void* stream) {
  const std::lock_guard lock(device().lock);
  const auto streams = device().streams.find(stream);
  return {stream, device().copies, streams == device().streams.end() ? device().kernels : streams->second};
}

bool has_come(const Moment& moment) {
  const std::lock_guard lock(device().lock);
  return !make_copies([&](const Copy& copy) { return copy.stream == moment.stream && copy.number <= moment.copies; });
}

void order(const void* stream, const Moment& after) {
  has_come(after);
  const std::lock_guard lock(device().lock);
  const auto streams = device().streams.find(stream);
  if (streams != device().streams.end()) streams->second = std::max(streams->second, after.kernels);
}

namespace {

/// Forks; the child ends with this process. Returns 0 in the child.
pid_t copy_process() {
  const pid_t original = getpid(), copy = fork();
  if (copy < 0) throw std::runtime_error("fake_device: cannot start another process");
  if (copy == 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != original)) _exit(1);
  return copy;
}

/// Runs the work in a forked child and returns whether it succeeded.
bool is_done_by_copy(const std::function<void()>& work) {
  const pid_t worker = copy_process();
  if (worker == 0) {
    try {
      work();
      _exit(0);
    } catch (const std::exception& error) {
      fmt::print(stderr, "error: recorded work: {}\n", error.what());
      _exit(1);
    }
  }
  int status = 0;
  while (waitpid(worker, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool receive(int line, char& message) {
  ssize_t got = 0;
  while ((got = read(line, &message, 1)) < 0 && errno == EINTR) continue;
  return got == 1;
}
bool send(int line, char message) {
  ssize_t sent = 0;
  while ((sent = ::send(line, &message, 1, MSG_NOSIGNAL)) < 0 && errno == EINTR) continue;
  return sent == 1;
}

}  // namespace

FrozenWork::FrozenWork(const std::function<void()>& work) {
  std::array<int, 2> ends;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw std::runtime_error("fake_device: cannot create a socket");
  // Held during the fork, so that the child owns it and no absent thread does.
  const std::lock_guard lock(device().lock);
  share_memory();
  process_ = copy_process();
  line_ = ends[process_ == 0 ? 1 : 0];
  close(ends[process_ == 0 ? 0 : 1]);
  if (process_ > 0) return;
  device().pending.clear();  // the parent executes these
  device().lock.unlock();
  char message = 0;
  while (receive(line_, message) && send(line_, is_done_by_copy(work) ? 1 : 0)) continue;
  _exit(0);
}

FrozenWork::~FrozenWork() {
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
  close(line_);
}

void FrozenWork::run() const {
  {
    const std::lock_guard lock(device().lock);
    make_copies(is_of_the_step);
    ++device().kernels;
  }
  char done = 1;
  if (!send(line_, done) || !receive(line_, done) || done == 0)
    throw std::runtime_error("fake_device: recorded work has failed");
}

}  // namespace lockstep::fake_device
