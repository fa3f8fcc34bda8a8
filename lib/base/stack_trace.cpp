// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "base/stack_trace.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fmt/format.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <thread>

namespace lockstep {
namespace {

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
