// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <span>

namespace lockstep::fuzz {

using Bytes = std::span<const std::uint8_t>;

/// A target: gives the bytes to a reader as the file that it expects. The reader may refuse them by an Error; any other
/// exception, a signal, or a sanitizer's report is a fault.
/// Each *_target.cpp defines this function, and makes a program of its own.
void read(Bytes bytes);

/// Renews the checksums of a format in bytes that libFuzzer has mutated, so that mutations reach the code after them.
void mend(std::span<std::uint8_t> bytes);

}  // namespace lockstep::fuzz
