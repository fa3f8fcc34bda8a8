// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiled without ThreadSanitizer, so that only the explicit calls below order anything.
#include "support/fibers.hpp"

#include <sanitizer/tsan_interface.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cstdio>
#include <cstdlib>

namespace lockstep::test {
namespace {

constexpr int sets = 2;
constexpr std::size_t stack_bytes = 256 << 10;

struct Fiber {
  ucontext_t context;
  void* sanitized = nullptr;  // handle of ThreadSanitizer
  void* stack = nullptr;
  bool is_done = true;
};

struct Host {
  std::array<std::array<Fiber, most_fibers>, sets> fibers;
  // Synchronization objects of each set's runs, which alternate: a run acquires one and releases the other.
  std::array<std::array<char, 2>, sets> order;
  char begin, end;  // synchronization objects of begin_fibers and end_fibers
  ucontext_t context;
  void* sanitized;
  Fiber* running;
  bool has_gone_on;  // some fiber made progress in the current round
  FiberWork work;
  const void* argument;
  int run;
};

Host& host() {
  static auto* const host = new Host();
  return *host;
}

void switch_to(Fiber* next) {
  Fiber* const last = host().running;
  host().running = next;
  __tsan_switch_to_fiber(next ? next->sanitized : host().sanitized, __tsan_switch_to_fiber_no_sync);
  swapcontext(last ? &last->context : &host().context, next ? &next->context : &host().context);
}

void do_work(int i) {
  auto& order = host().order[static_cast<std::size_t>(host().run % sets)];
  const auto turn = static_cast<std::size_t>(host().run / sets % 2);
  __tsan_acquire(&host().begin);
  __tsan_acquire(&order[turn]);
  host().work(host().argument, host().run, i);
  __tsan_release(&order[1 - turn]);
  __tsan_release(&host().end);
  host().running->is_done = true;
  host().has_gone_on = true;
  switch_to(nullptr);
}

void start(Fiber& fiber, int i) {
  if (fiber.sanitized == nullptr) {
    fiber.sanitized = __tsan_create_fiber(0);
    fiber.stack = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fiber.stack == MAP_FAILED) std::abort();
  }
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack;
  fiber.context.uc_stack.ss_size = stack_bytes;
  makecontext(&fiber.context, reinterpret_cast<void (*)()>(do_work), 1, i);
  fiber.is_done = false;
}

}  // namespace

FiberBarrier::FiberBarrier(int fibers) : fibers_(fibers) {}

int FiberBarrier::wait() {
  const int phase = phase_;
  char* const order = &order_[static_cast<std::size_t>(phase % 2)];
  __tsan_release(order);
  if (++waiting_ == fibers_) {
    waiting_ = 0;
    ++phase_;
  }
  while (phase_ == phase) switch_to(nullptr);
  host().has_gone_on = true;
  __tsan_acquire(order);
  return phase;
}

void run_fibers(const char* label, int run, int fibers, FiberWork work, const void* argument) {
  if (fibers > most_fibers) std::abort();
  host().sanitized = __tsan_get_current_fiber();
  host().work = work;
  host().argument = argument;
  host().run = run;
  auto& all = host().fibers[static_cast<std::size_t>(run % sets)];
  for (int i = 0; i < fibers; ++i) start(all[static_cast<std::size_t>(i)], i);
  bool are_done = false;
  while (!are_done) {
    are_done = true;
    host().has_gone_on = false;
    for (int i = 0; i < fibers; ++i) {
      Fiber& fiber = all[static_cast<std::size_t>(i)];
      if (!fiber.is_done) switch_to(&fiber);
      are_done = are_done && fiber.is_done;
    }
    if (are_done || host().has_gone_on) continue;
    std::fprintf(stderr, "error: %s: some threads of a team wait at a barrier that others do not reach\n", label);
    std::abort();
  }
}

void begin_fibers() { __tsan_release(&host().begin); }
void end_fibers() { __tsan_acquire(&host().end); }

}  // namespace lockstep::test
