// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "base/process.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cinttypes>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <thread>
#include <utility>

namespace lockstep {
namespace {

const auto start = std::chrono::steady_clock::now();

/// Returns the number in the first of the environment variables that holds one.
std::optional<int> number_in_environment(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const char* text = std::getenv(name);
    if (!text) continue;
    const std::string_view digits = text;
    int number = 0;
    if (std::from_chars(digits.begin(), digits.end(), number).ec == std::errc()) return number;
  }
  return std::nullopt;
}

/// The file schedstat holds the thread's time on a core, its time waiting for one (both in ns) and a count of time
/// slices.
class CoreStatistics {
 public:
  CoreStatistics() : file_(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)) {}
  ~CoreStatistics() {
    if (file_ >= 0) ::close(file_);
  }
  CoreStatistics(const CoreStatistics&) = delete;
  CoreStatistics& operator=(const CoreStatistics&) = delete;

  std::chrono::nanoseconds waited() const {
    std::array<char, 96> text{};
    if (file_ < 0 || ::pread(file_, text.data(), text.size() - 1, 0) <= 0) return {};
    char* rest = nullptr;
    std::strtoull(text.data(), &rest, 10);
    return std::chrono::nanoseconds(std::strtoull(rest, nullptr, 10));
  }

 private:
  int file_;
};

/// A real-time signal that nobody else uses; the C library and its tools take the first ones.
int trace_signal() { return SIGRTMIN + 5; }

pthread_t traced;
std::array<void*, 64> frames;
std::atomic<int> frame_count = 0;  ///< 0: no answer yet

void answer(int) { frame_count = ::backtrace(frames.data(), static_cast<int>(frames.size())); }

std::string name_of(const char* symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(symbol, nullptr, nullptr, &status), std::free);
  return status == 0 ? name.get() : symbol;
}

std::string line_of(void* address) {
  Dl_info info{};
  if (::dladdr(address, &info) == 0) return fmt::format("{}", address);
  const auto offset = [&](const void* base) {
    return reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(base);
  };
  if (info.dli_sname) return name_of(info.dli_sname);
  return fmt::format("{}+{:#x}", info.dli_fname ? info.dli_fname : "?", offset(info.dli_fbase));
}

}  // namespace

std::chrono::steady_clock::time_point process_start() { return start; }

double seconds_since_process_start() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::uint64_t process_namespace() {
  struct stat status{};
  return ::stat("/proc/self/ns/pid", &status) == 0 ? static_cast<std::uint64_t>(status.st_ino) : 0;
}

std::string process_field(std::int64_t process, int number) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string line, field;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');  // the process's name may contain any character, including ')'
  if (name_end == std::string::npos) return "";
  std::istringstream fields(line.substr(name_end + 1));
  for (int i = 3; i <= number; ++i)
    if (!(fields >> field)) return "";
  return field;
}

int pending_signal(std::int64_t process, std::span<const int> wanted) {
  std::ifstream file(fmt::format("/proc/{}/status", process));
  std::uint64_t pending = 0;
  for (std::string line; std::getline(file, line);)
    for (const std::string_view name : {"SigPnd:", "ShdPnd:"})
      if (line.starts_with(name)) pending |= std::strtoull(line.c_str() + name.size(), nullptr, 16);
  for (const int signal : wanted)
    if ((pending >> (signal - 1) & 1) != 0) return signal;
  return 0;
}

bool process_has_ended(std::int64_t process) {
  if (::kill(static_cast<pid_t>(process), 0) != 0 && errno == ESRCH) return true;
  const std::string state = process_field(process, 3);
  return state == "Z" || state == "X";
}

LaunchedRank launched_rank() {
  const auto rank = number_in_environment({"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"});
  if (!rank) return {};
  // PMIx has no variable for the number of ranks; Slurm, which can start ranks through PMIx, has one.
  const auto size = number_in_environment({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"});
  return {.rank = *rank, .size = size.value_or(*rank + 1), .by_launcher = true};
}

int started_together() {
  const LaunchedRank launched = launched_rank();
  if (launched.by_launcher) return launched.rank == 0 ? launched.size : 1;
  // Launchers whose library, which would tell ranks of each other, this program's MPI does not have.
  constexpr std::pair<const char*, const char*> others[] = {{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
                                                            {"FLUX_TASK_RANK", "FLUX_JOB_SIZE"},
                                                            {"PALS_RANKID", "PALS_SIZE"},
                                                            {"PALS_RANKID", "PMI_SIZE"},
                                                            {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
                                                            {"MVP_COMM_WORLD_RANK", "MVP_COMM_WORLD_SIZE"}};
  for (const auto& [rank, size] : others)
    if (number_in_environment({rank}) == 0)
      if (const auto started = number_in_environment({size})) return *started;
  return 1;
}

int requested_ranks() {
  const LaunchedRank launched = launched_rank();
  if (launched.by_launcher) return launched.size;
  return std::max(1, number_in_environment({"SLURM_NTASKS"}).value_or(1));
}

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

std::string process_name() {
  std::string name = host_name();
  std::ranges::replace_if(name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)) && c != '.'; }, '_');
  return fmt::format("{}-{}", name, ::getpid());
}

int usable_threads() {
  std::array<cpu_set_t, 8> allowed{};
  if (::sched_getaffinity(0, sizeof allowed, allowed.data()) != 0) return 0;
  return CPU_COUNT_S(sizeof allowed, allowed.data());
}

namespace {

/// Calls use(folder) for each cgroup of version 2 that this process is in, from its own to the root.
template <class Use>
void for_each_cgroup(const Use& use) {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("0::")) continue;
    for (std::string path = line.substr(3);; path.resize(path.rfind('/'))) {
      use("/sys/fs/cgroup" + path);
      if (path.find_first_not_of('/') == std::string::npos) return;
    }
  }
}

/// Reads the number in a file; none if there is none, as in one that says "max".
std::optional<double> number_in(const std::string& file) {
  std::ifstream stream(file);
  double number = 0;
  return stream >> number ? std::optional(number) : std::nullopt;
}

std::optional<double> smaller(std::optional<double> a, std::optional<double> b) {
  return a && b ? std::optional(std::min(*a, *b)) : a ? a : b;
}

}  // namespace

std::optional<double> cpu_quota() {
  std::optional<double> least;
  for_each_cgroup([&](const std::string& folder) {
    std::ifstream file(folder + "/cpu.max");
    double quota = 0, period = 0;
    if (file >> quota >> period && period > 0) least = smaller(least, quota / period);
  });
  return least;
}

std::optional<double> available_memory() {
  std::optional<double> least;
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("MemAvailable:")) least = 1024 * std::strtod(line.c_str() + 13, nullptr);
  for_each_cgroup([&](const std::string& folder) {
    const std::optional<double> limit = number_in(folder + "/memory.max"), used = number_in(folder + "/memory.current");
    if (limit) least = smaller(least, std::max(0.0, *limit - used.value_or(0)));
  });
  return least;
}

std::vector<int> usable_cores() {
  std::array<cpu_set_t, 8> allowed{};  // 8192 bits, the maximum number of processors in Linux
  if (::sched_getaffinity(0, sizeof allowed, allowed.data()) != 0) return {};
  std::set<int> cores;
  for (int thread = 0; thread < static_cast<int>(8 * sizeof allowed); ++thread) {
    if (!CPU_ISSET_S(static_cast<std::size_t>(thread), sizeof allowed, allowed.data())) continue;
    int first = thread;
    std::ifstream(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", thread)) >> first;
    cores.insert(first);
  }
  return {cores.begin(), cores.end()};
}

void open_standard_streams() {
  for (const auto& [stream, flags] :
       {std::pair(STDIN_FILENO, O_WRONLY), {STDOUT_FILENO, O_RDONLY}, {STDERR_FILENO, O_RDONLY}})
    if (::fcntl(stream, F_GETFD) < 0) ::open("/dev/null", flags);  // gets the lowest free number, which is this one
}

void end_by_signal(int number) {
  ::signal(number, SIG_DFL);
  sigset_t only;
  ::sigemptyset(&only);
  ::sigaddset(&only, number);
  ::pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  ::raise(number);
  ::_exit(128 + number);  // reached only as process 1 of a container, which no default action ends
}

std::int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t total = 0, resident = 0;
  if (!(statm >> total >> resident)) return 0;
  return resident * ::sysconf(_SC_PAGESIZE);
}

std::int64_t peak_rss_bytes() {
  // Not getrusage's ru_maxrss, which begins with the peak of the process that has started this program.
  std::ifstream status("/proc/self/status");
  std::int64_t kib = 0;
  for (std::string line; std::getline(status, line);)
    if (std::sscanf(line.c_str(), "VmHWM: %" SCNd64, &kib) == 1) break;
  return kib * 1024;
}

void schedule_as_batch() {
  const sched_param priority{};
  ::sched_setscheduler(0, SCHED_BATCH, &priority);  // failure is harmless: runs that share cores are slower
}

std::chrono::nanoseconds waited_for_core() {
  thread_local const CoreStatistics statistics;
  return statistics.waited();
}

void allow_stack_trace() {
  traced = ::pthread_self();
  ::backtrace(frames.data(), 1);  // the first call loads a library, which a signal handler must not do
  // The handler runs on an alternate stack: oneDNN's kernels may use this thread's stack pointer for something else.
  static std::array<std::byte, std::size_t{1} << 16> alternate;
  const stack_t stack{.ss_sp = alternate.data(), .ss_flags = 0, .ss_size = alternate.size()};
  stack_t given{};
  if (::sigaltstack(nullptr, &given) == 0 && (given.ss_flags & SS_DISABLE) != 0) ::sigaltstack(&stack, nullptr);
  struct sigaction action{};
  action.sa_handler = answer;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  ::sigaction(trace_signal(), &action, nullptr);
}

std::string stack_trace() {
  constexpr int handler_frames = 2;  // the frames of `answer` and of the kernel's signal trampoline
  frame_count = 0;
  if (::pthread_kill(traced, trace_signal()) != 0) return "";
  for (int tries = 0; frame_count == 0 && tries < 100; ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::string text;
  const int count = frame_count;
  for (int i = handler_frames; i < count; ++i)
    text += fmt::format("  {}\n", line_of(frames[static_cast<std::size_t>(i)]));
  return text;
}

}  // namespace lockstep
