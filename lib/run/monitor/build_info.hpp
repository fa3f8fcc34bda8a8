// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>

namespace lockstep {

/// Returns what this program was built from, as JSON text for checkpoints.
std::string build_info_json();

/// Returns what this program was built from, as text for `lockstep info`.
std::string build_info_text();

}  // namespace lockstep
