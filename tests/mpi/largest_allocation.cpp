// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "mpi/largest_allocation.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::size_t> largest = 0;

}  // namespace

void* operator new(std::size_t bytes) {
  std::size_t before = largest;
  while (before < bytes && !largest.compare_exchange_weak(before, bytes)) {
  }
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace lockstep::test {

std::size_t take_largest_allocation() { return largest.exchange(0); }

}  // namespace lockstep::test
