// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <span>

namespace lockstep::fuzz {

using Bytes = std::span<const std::uint8_t>;

/// What a target is: it gives these bytes to a reader as the file that the reader expects. A refusal by Error is a good
/// end; everything else that leaves it (another exception, a signal, a sanitizer's report) is a fault.
/// Each *_target.cpp defines it, and makes a program of its own.
void read(Bytes bytes);

/// Called on what libFuzzer has mutated, so that mutations reach the code after a format's own checksums.
void mend(std::span<std::uint8_t> bytes);

}  // namespace lockstep::fuzz
