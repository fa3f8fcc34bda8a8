// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <memory>
#include <string>

/// Preset fake_device: kernels run on the host, and the step's memory is as far from it as a GPU's. Its pages can be
/// read and written inside Kokkos' kernels and copies alone; anything else that touches them ends the program by
/// SIGSEGV, after a message and a backtrace. Copies that may still be under way when their call returns are made as
/// late as possible: at the next fence, or before the next kernel or copy, so that a missing fence shows.
namespace lockstep::fake_device {

/// Zeroed, at the start of a page, and between pages that nobody may touch. Kokkos must have started. Throws
/// std::bad_alloc.
std::shared_ptr<std::byte> allocate(const std::string& label, std::size_t bytes);

/// Whether the address is within such memory.
bool owns(const void* address);

/// Copies bytes, of which one side is the host's, at the next fence, kernel or copy.
void copy_later(void* to, const void* from, std::size_t bytes);

}  // namespace lockstep::fake_device
